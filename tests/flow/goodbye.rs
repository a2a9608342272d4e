//! Goodbyes: every connection to the broker ends with a close that is told and answered, and nobody waits long for it.

use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};

use crate::support::events::{Message, order};
use crate::support::process::Run;
use crate::support::wait::{full, wait_until};
use crate::support::world::World;

/// Stops in a row; 150 before a release.
const STOPS: usize = 5;
const STOPS_FULL: usize = 150;

/// Class and methods of AMQP that end a connection.
const CONNECTION: u16 = 10;
const CLOSE: u16 = 50;
const CLOSE_OK: u16 = 51;

/// What was heard on one connection.
#[derive(Debug, Default, Clone, Copy)]
struct Heard {
    /// The client has said goodbye, and the broker has answered.
    close: bool,
    close_ok: bool,
    ended: bool,
}

/// The wire between fis and the broker, and somebody who listens.
struct Wire {
    url: String,
    heard: Arc<Mutex<Vec<Heard>>>,
}

impl Wire {
    async fn of(world: &World) -> Self {
        let address = world.amqp_url.rsplit('@').next().unwrap().split('/').next().unwrap().to_owned();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let heard = Arc::<Mutex<Vec<Heard>>>::default();
        let url = world.amqp_url.replace(&address, &format!("127.0.0.1:{port}"));
        let told = Arc::clone(&heard);
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let server = TcpStream::connect(&address).await.unwrap();
                let place = {
                    let mut told = told.lock().unwrap();
                    told.push(Heard::default());
                    told.len() - 1
                };
                let told = Arc::clone(&told);
                tokio::spawn(async move {
                    let (from_client, to_client) = client.into_split();
                    let (from_server, to_server) = server.into_split();
                    let there = pass(from_client, to_server, "AMQP0091".len(), |method| {
                        told.lock().unwrap()[place].close |= method == CLOSE;
                    });
                    let back = pass(from_server, to_client, 0, |method| {
                        told.lock().unwrap()[place].close_ok |= method == CLOSE_OK;
                    });
                    tokio::join!(there, back);
                    told.lock().unwrap()[place].ended = true;
                });
            }
        });
        Self { url, heard }
    }

    /// Waits for the end of every connection, and asserts that each was a clean one.
    async fn all_clean(&self) {
        let heard = wait_until("every connection has ended", async || {
            let heard = self.heard.lock().unwrap().clone();
            if heard.iter().all(|heard| heard.ended) { Ok(heard) } else { Err(format!("{heard:?}")) }
        })
        .await;
        assert!(!heard.is_empty());
        assert!(heard.iter().all(|heard| heard.close && heard.close_ok), "an unclean end: {heard:?}");
    }
}

/// Passes bytes on, and tells every method of class `connection` in them.
async fn pass(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, greeting: usize, mut hear: impl FnMut(u16)) {
    let (mut buffer, mut unread, mut skip) = (vec![0; 16 * 1024], Vec::new(), greeting);
    while let Ok(count) = from.read(&mut buffer).await {
        if count == 0 || to.write_all(&buffer[..count]).await.is_err() {
            break;
        }
        unread.extend_from_slice(&buffer[..count]);
        // The greeting, then frames: type, channel, size, payload, end.
        let now = skip.min(unread.len());
        unread.drain(..now);
        skip -= now;
        while let Some(size) = unread.get(3..7).map(|size| u32::from_be_bytes(size.try_into().unwrap()) as usize) {
            if unread.len() < size + 8 {
                break;
            }
            if let [1, 0, 0, _, _, _, _, class1, class2, method1, method2, ..] = unread[..]
                && u16::from_be_bytes([class1, class2]) == CONNECTION
            {
                hear(u16::from_be_bytes([method1, method2]));
            }
            unread.drain(..size + 8);
        }
    }
    let _ = to.shutdown().await;
}

/// Tells it to stop, and asserts that nothing was waited for in vain.
async fn stopped(mut run: Run) {
    run.terminate().await;
    let log = run.log();
    assert!(!log.contains("out of time"), "{log}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_service_and_its_commands_say_goodbye_to_the_broker() {
    let world = World::new("goodbye").await;
    let wire = Wire::of(&world).await;
    let through = [("FIS_AMQP_URL", wire.url.as_str())];
    let run = world.run_with(&through).await;
    world.publish(&[order("evt"), Message::new("a.b.c", "{").rejected("malformed_json")]).await;
    world.quiet().await;
    let mut standing_by = world.run_with(&through).await;
    stopped(run).await;
    standing_by.ready().await;
    stopped(standing_by).await;
    wire.all_clean().await;

    let file = world.file("events.ndjson", r#"{"routingKey": "a.b.c", "body": {}}"#);
    let commands: [&[&str]; 7] = [
        &["status"],
        &["topology", "apply"],
        &["topology", "check"],
        &["publish", &file],
        &["run", "--once"],
        &["feed", "tail", "--once", "--from", "first"],
        &["feed", "verify"],
    ];
    for command in commands {
        // Nobody serves the ledger by now, which is what the status says.
        let code = i32::from(command == ["status"]);
        world.fis_with(command, &through).await.expect(code, &[]);
        wire.all_clean().await;
    }
    // Also where the answer is no.
    world.fis_with(&["feed", "verify", "--queue", "fis.nowhere"], &through).await.expect(1, &[]);
    wire.all_clean().await;
}

/// Once in forty stops lapin lost the question for the goodbye, and everything waited ten seconds for the answer.
#[tokio::test(flavor = "multi_thread")]
async fn stops_under_traffic_end_well_one_after_the_other() {
    let world = World::new("stops").await;
    let wire = Wire::of(&world).await;
    for round in 0..if full() { STOPS_FULL } else { STOPS } {
        let events: Vec<Message> = (0..20).map(|number| order(&format!("evt-{round}-{number}"))).collect();
        let run = world.run_with(&[("FIS_AMQP_URL", wire.url.as_str())]).await;
        tokio::join!(world.publish(&events), stopped(run));
    }
    wire.all_clean().await;
    let mut run = world.run().await;
    world.rest(&mut run).await;
    world.invariants().await;
}
