//! TLS to all three servers, with certificates that are really looked at.

use crate::support::events::order;
use crate::support::wait::{same, wait_until};
use crate::support::world::World;

/// Where the private servers speak TLS, and the authority that signed for them, as `./dev` says.
struct Tls {
    amqps: String,
    management: String,
    redis: String,
    authority: String,
}

impl Tls {
    /// `None` where the servers are not `./dev`'s, or the machine has no openssl to make certificates with.
    fn of_dev() -> Option<Self> {
        let text = std::env::var("FIS_DEV_TLS").ok()?;
        let value =
            |name: &str| Some(text.split(',').find_map(|part| part.strip_prefix(name)?.strip_prefix('='))?.to_owned());
        Some(Self {
            amqps: value("amqps")?,
            management: value("management")?,
            redis: value("redis")?,
            authority: value("ca")?,
        })
    }

    /// The addresses of a world, with TLS.
    fn environment(&self, world: &World) -> [(&'static str, String); 4] {
        // Behind the host: the path, which is the world's own.
        let path = |url: &str| url.splitn(4, '/').nth(3).unwrap().to_owned();
        let database_port = world.database_url.rsplit(':').next().unwrap().split('/').next().unwrap();
        [
            ("FIS_AMQP_URL", format!("amqps://fis_service:secret@localhost:{}/{}", self.amqps, path(&world.amqp_url))),
            ("FIS__AMQP__MANAGEMENT_URL", format!("https://localhost:{}", self.management)),
            ("FIS_REDIS_URL", format!("rediss://localhost:{}/{}", self.redis, path(&world.redis_url))),
            (
                "FIS_DATABASE_URL",
                format!(
                    "postgres://fis_service@localhost:{database_port}/{}?sslmode=verify-full",
                    path(&world.database_url)
                ),
            ),
        ]
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_posts_over_tls_and_an_unknown_authority_is_refused() {
    let Some(tls) = Tls::of_dev() else {
        eprintln!("skipped: these servers do not say where they speak TLS (FIS_DEV_TLS)");
        return;
    };
    let world = World::new("tls").await;
    world.publish(&[order("evt_tls")]).await;
    let own = tls.environment(&world);
    let mut environment: Vec<(&str, &str)> = own.iter().map(|(name, value)| (*name, value.as_str())).collect();

    // Nobody vouches for the certificates: every server is refused, one at a time.
    for name in ["FIS_AMQP_URL", "FIS_DATABASE_URL"] {
        let one: Vec<_> = environment.iter().copied().filter(|(given, _)| *given == name).collect();
        world.fis_with(&["status"], &one).await.expect(1, &["certificate"]);
    }

    let unacked = |said: &serde_json::Value| said["queues"]["fis.ingestion.queue"]["unacked"].as_u64();
    // The management API is not asked either where nobody vouches for it: AMQP alone counts what is ready.
    let distrusted: Vec<_> = environment.iter().copied().filter(|(given, _)| given.contains("MANAGEMENT")).collect();
    let said = world.fis_with(&["status", "--json"], &distrusted).await.expect(1, &[]).json();
    assert_eq!(unacked(&said), None, "{said}");

    environment.push(("SSL_CERT_FILE", &tls.authority));
    wait_until("the broker's statistics, over TLS", async || {
        let said = world.fis_with(&["status", "--json"], &environment).await.expect(1, &[]).json();
        same(unacked(&said), Some(0))
    })
    .await;
    let mut run = world.run_with(&environment).await;
    world.rest(&mut run).await;
    assert_eq!(world.count("select count(*) from fis_journal_entry where event_id = 'evt_tls'").await, 1);
    world.invariants().await;
}
