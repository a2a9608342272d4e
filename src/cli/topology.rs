//! `fis topology apply|check|print`.

use std::process::ExitCode;

use crate::platform::amqp::Connection;
use crate::platform::amqp::topology::{Arguments, Exchange, Outcome, Topology, draw, is_lossy, report};
use crate::platform::config::Config;
use crate::service;

#[derive(clap::Subcommand)]
pub enum TopologyCommand {
    /// Declare everything, in the order that cannot lose
    Apply,
    /// Compare the broker with what is needed; exit 1 where it could lose messages
    Check {
        #[arg(long)]
        json: bool,
    },
    /// Draw it
    Print,
}

impl TopologyCommand {
    pub async fn run(self, config: &Config) -> anyhow::Result<ExitCode> {
        let mut topology = Topology::embedded()?;
        topology.exchanges.extend(mirror(config, &topology)?);
        match self {
            Self::Print => {
                print!("{}", draw(&topology));
                Ok(ExitCode::SUCCESS)
            }
            Self::Apply => apply(config, &topology).await,
            Self::Check { json } => check(config, &topology, json).await,
        }
    }
}

/// The exchange of `outbox.mirror`, where that is on. `fis run` does without it and tries again, so it asks for it nowhere.
fn mirror(config: &Config, topology: &Topology) -> anyhow::Result<Option<Exchange>> {
    let settings = service::mirror::settings(config)?;
    Ok(settings.map(|settings| Exchange {
        name: settings.exchange,
        vhost: topology.vhost.clone(),
        kind: config.outbox.mirror.kind.clone(),
        durable: true,
        auto_delete: false,
        internal: false,
        arguments: Arguments::new(),
    }))
}

async fn apply(config: &Config, topology: &Topology) -> anyhow::Result<ExitCode> {
    let connection = Connection::open(&config.amqp, "fis topology").await?;
    let applied = connection.apply_topology(topology).await?;
    let mut code = ExitCode::SUCCESS;
    for one in applied {
        match one.outcome {
            Outcome::Created => println!("created  {}", one.object),
            Outcome::Present => println!("present  {}", one.object),
            Outcome::Bound => println!("bound    {}", one.object),
            Outcome::Differs { expected, found, remedy } => {
                println!("differs  {}\n  expected {expected}\n  found    {found}\n  remedy   {remedy}", one.object);
                code = ExitCode::FAILURE;
            }
        }
    }
    connection.close().await;
    Ok(code)
}

async fn check(config: &Config, topology: &Topology, json: bool) -> anyhow::Result<ExitCode> {
    let management = service::management(config)?;
    let connection = Connection::open(&config.amqp, "fis topology").await?;
    let findings = connection.check_topology(topology, Some(&management)).await?;
    connection.close().await;
    if json {
        super::print_json(&serde_json::json!({ "findings": findings, "lossy": is_lossy(&findings) }))?;
    } else if findings.is_empty() {
        println!("the topology is as it should be");
    } else {
        print!("{}", report(&findings));
    }
    Ok(if is_lossy(&findings) { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}
