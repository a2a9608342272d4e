//! Several addresses of the broker, of which some are dead.

use serde_json::Value;

use crate::support::events::order;
use crate::support::servers::with_path;
use crate::support::wait::wait_until;
use crate::support::world::World;

/// Nobody listens on port 1.
const DEAD: &str = "amqp://fis_service:tops3cret@127.0.0.1:1/%2Ffis";

#[tokio::test(flavor = "multi_thread")]
async fn dead_addresses_among_living_ones_cost_nothing_but_a_try() {
    let world = World::new("addresses").await;
    let vhost = world.amqp_url.rsplit('/').next().unwrap().split('?').next().unwrap().to_owned();
    let dead = with_path(DEAD, &vhost);
    let urls = format!("{dead},{},{dead}", world.amqp_url);
    let management = format!("http://127.0.0.1:1,{}", world.servers.management);
    let several = [("FIS_AMQP_URL", urls.as_str()), ("FIS__AMQP__MANAGEMENT_URL", &management)];
    let mut run = world.run_with(&several).await;
    world.publish(&[order("before")]).await;
    wait_until("it is posted", async || posted(&world, 1).await).await;

    // Whoever loses the living one comes back to it, past the dead ones.
    let connections = close_all(&world).await;
    assert!(connections >= 2, "intake and relay have a connection each: {connections}");
    world.publish(&[order("after")]).await;
    wait_until("the next one is posted", async || posted(&world, 2).await).await;
    world.rest(&mut run).await;
    assert!(!run.log().contains("tops3cret"), "{}", run.log());
    world.invariants().await;

    let said = world.fis_with(&["topology", "check"], &[("FIS_AMQP_URL", &format!("{dead},{dead}"))]).await;
    let said = said.expect(1, &["127.0.0.1:1"]);
    assert!(!said.all().contains("tops3cret"), "{said:?}");
}

async fn posted(world: &World, count: i64) -> Result<(), String> {
    let posted = world.count("select count(*) from fis_journal_entry").await;
    if posted == count { Ok(()) } else { Err(format!("{posted} of {count}")) }
}

/// Closes every connection of the world's virtual host; the broker's list of them lags a little behind.
async fn close_all(world: &World) -> usize {
    wait_until("the connections are listed", async || {
        let path = format!("{}/connections", world.management.list_path("vhosts"));
        let listed: Vec<Value> = world.management.get_json(&path).await.map_err(|error| error.to_string())?;
        let names: Vec<&str> = listed.iter().filter_map(|connection| connection["name"].as_str()).collect();
        if names.len() < 2 {
            return Err(format!("{names:?}"));
        }
        for name in &names {
            let name = fis::platform::amqp::management::encode(name);
            let _ = world.management.delete(&format!("connections/{name}")).await;
        }
        Ok(names.len())
    })
    .await
}
