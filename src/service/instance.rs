//! This process in `fis_instance`: written every few seconds, taken away at the end. A failure is nobody's trouble: whoever needs PostgreSQL reports it.

use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::wait;
use crate::pipeline::Edges;
use crate::platform::config::Config;
use crate::platform::health::Part;
use crate::platform::postgres::{Work, error_text};
use crate::store::instances::{self, Instance};

const WORK: Work = Work::of("service.instance");
/// The interval of the heartbeat; `fis status` calls an instance silent after three of them.
const BEAT: Duration = Duration::from_secs(5);
/// The interval at which it is seen whether the instance has become ready or relays: that is written at once.
const LOOK: Duration = Duration::from_millis(200);
/// The longest wait for the goodbye.
const GOODBYE: Duration = Duration::from_secs(1);

/// Says that this process lives, until `stop`.
pub(super) async fn beat(config: &Config, edges: &Edges, stop: &CancellationToken) {
    let instance = Instance {
        id: format!("{:032x}", fastrand::u128(..)),
        host: host(),
        pid: std::process::id().into(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        http_addr: config.http.addr.clone(),
    };
    let health = &edges.health;
    // The first beat is at once.
    let (mut told, mut silent, mut failed) = ((false, false), BEAT, false);
    loop {
        let now = (health.is_ready(), health.is_relaying());
        if (now != told || silent >= BEAT) && !health.is_away(Part::Postgres) {
            let said = async |db: &mut _| instances::beat(db, &instance, now.0, now.1).await;
            let beaten = edges.postgres.run(WORK, said).await;
            (told, silent) = (now, Duration::ZERO);
            match beaten {
                Ok(()) => failed = false,
                Err(error) if !failed => {
                    failed = true;
                    tracing::warn!("`fis status` does not see this instance: PostgreSQL {}", error_text(&error));
                }
                Err(_) => {}
            }
        }
        if wait(LOOK, stop).await {
            return leave(edges, &instance.id).await;
        }
        silent += LOOK;
    }
}

async fn leave(edges: &Edges, id: &str) {
    if !edges.health.is_away(Part::Postgres) {
        let left = edges.postgres.run(WORK, async |db: &mut _| instances::leave(db, id).await);
        let _ = tokio::time::timeout(GOODBYE, left).await;
    }
}

/// The name of this machine; in a container, that of the container.
fn host() -> String {
    // The unit of ops/ hides the first one from fis.
    let files = ["/proc/sys/kernel/hostname", "/etc/hostname"].into_iter();
    let mut names = files.filter_map(|file| std::fs::read_to_string(file).ok()).map(|name| name.trim().to_owned());
    names.find(|name| !name.is_empty()).unwrap_or_else(|| "unknown".to_owned())
}
