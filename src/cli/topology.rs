//! `fis topology apply|check|print`.

use std::process::ExitCode;

use crate::desk::topology::{self, Outcome};
use crate::platform::config::Config;

#[derive(clap::Subcommand)]
pub enum TopologyCommand {
    /// Declare all objects, in an order that cannot lose messages
    Apply,
    /// Compare the broker with what fis needs; exit 1 if it could lose messages
    Check {
        #[arg(long)]
        json: bool,
    },
    /// Draw the topology
    Print,
}

impl TopologyCommand {
    pub async fn run(self, config: &Config) -> anyhow::Result<ExitCode> {
        match self {
            Self::Print => {
                print!("{}", topology::drawing(config)?);
                Ok(ExitCode::SUCCESS)
            }
            Self::Apply => apply(config).await,
            Self::Check { json } => check(config, json).await,
        }
    }
}

async fn apply(config: &Config) -> anyhow::Result<ExitCode> {
    let mut code = ExitCode::SUCCESS;
    for one in topology::apply(config).await? {
        match one.outcome {
            Outcome::Created => println!("created  {}", one.object),
            Outcome::Present => println!("present  {}", one.object),
            Outcome::Bound => println!("bound    {}", one.object),
            Outcome::Unbound => println!("unbound  {}", one.object),
            Outcome::Unseen { why } => println!("unseen   {}: {why}", one.object),
            Outcome::Kept => {
                println!("kept     {}, until what differs is put right", one.object);
                code = ExitCode::FAILURE;
            }
            Outcome::Differs { expected, found, remedy } => {
                println!("differs  {}\n  expected {expected}\n  found    {found}\n  remedy   {remedy}", one.object);
                code = ExitCode::FAILURE;
            }
        }
    }
    Ok(code)
}

async fn check(config: &Config, json: bool) -> anyhow::Result<ExitCode> {
    let check = topology::check(config).await?;
    if json {
        super::print_json(&check)?;
    } else if check.findings.is_empty() {
        println!("the topology is as it should be");
    } else {
        print!("{}", check.report());
    }
    Ok(if check.lossy { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}
