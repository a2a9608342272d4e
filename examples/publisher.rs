//! A publisher in Rust: every event reaches fis, none is booked twice, and the publisher hears what was rejected. It uses nothing of fis itself.
//!
//!     FIS_AMQP_URL=amqp://user:password@127.0.0.1:5672/%2Ffis cargo run --example publisher QUEUE FILE [REJECTIONS]
//!
//! Publishes the events of FILE, one line of JSON each: {"routingKey": "...", "body": {...}}. Then tells of rejections until it is stopped,
//! or until REJECTIONS have come. They wait in QUEUE, which is declared and bound here.

use std::error::Error;
use std::time::Duration;

use futures::StreamExt;
use lapin::options::{
    BasicAckOptions, BasicConsumeOptions, BasicPublishOptions, ConfirmSelectOptions, QueueBindOptions,
    QueueDeclareOptions,
};
use lapin::types::{AMQPValue, FieldTable};
use lapin::uri::AMQPUri;
use lapin::{BasicProperties, Channel, Confirmation, Connection, ConnectionProperties, ErrorKind};
use serde::Deserialize;
use serde_json::value::RawValue;

/// A line of the file; its body is sent as it was written.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Event {
    routing_key: String,
    body: Box<RawValue>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Ids {
    event_id: String,
    tenant_id: String,
}

#[derive(Deserialize)]
struct Rejection {
    data: Rejected,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Rejected {
    message_id: Option<String>,
    reason: String,
    detail: String,
    dead_letter_id: String,
}

async fn connect(url: &str, queue: &str) -> lapin::Result<(Connection, Channel)> {
    let connection = Connection::connect(url, ConnectionProperties::default()).await?;
    let channel = connection.create_channel().await?;
    // Bound before anything is published, so that no rejection is missed.
    let mut quorum = FieldTable::default();
    quorum.insert("x-queue-type".into(), AMQPValue::LongString("quorum".into()));
    let durable = QueueDeclareOptions { durable: true, ..QueueDeclareOptions::default() };
    channel.queue_declare(queue.into(), durable, quorum).await?;
    let (exchange, key) = ("fis.domain.exchange".into(), "fis.event.rejected".into());
    channel.queue_bind(queue.into(), exchange, key, QueueBindOptions::default(), FieldTable::default()).await?;
    channel.confirm_select(ConfirmSelectOptions::default()).await?;
    Ok((connection, channel))
}

/// Sends one event and waits for the broker's answer.
async fn send(channel: &Channel, user: &str, event: &Event, ids: &Ids) -> lapin::Result<Confirmation> {
    let mut headers = FieldTable::default();
    headers.insert("x-fis-tenant".into(), AMQPValue::LongString(ids.tenant_id.as_str().into()));
    let properties = BasicProperties::default()
        .with_delivery_mode(2) // persistent
        .with_content_type("application/json".into())
        .with_message_id(ids.event_id.as_str().into()) // comes back as `messageId` in a rejection
        .with_user_id(user.into())
        .with_headers(headers);
    let options = BasicPublishOptions { mandatory: true, immediate: false };
    let (exchange, key) = ("fis.events.exchange".into(), event.routing_key.as_str().into());
    channel.basic_publish(exchange, key, options, event.body.get().as_bytes(), properties).await?.await
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let usage = "usage: publisher QUEUE FILE [REJECTIONS]";
    let mut args = std::env::args().skip(1);
    let (queue, file) = (args.next().ok_or(usage)?, args.next().ok_or(usage)?);
    let count: usize = args.next().map_or(Ok(usize::MAX), |text| text.parse())?;
    let url = std::env::var("FIS_AMQP_URL")?;
    let user = url.parse::<AMQPUri>()?.authority.userinfo.username;
    // In your service, read them from a table of your own that is written in the transaction of the business, and mark them when
    // they are confirmed. An amount is a string, because a float would round it.
    let text = std::fs::read_to_string(file)?;
    let lines = text.lines().filter(|line| !line.trim().is_empty());
    let events = lines.map(serde_json::from_str).collect::<Result<Vec<Event>, _>>()?;

    let (mut session, mut own) = (None, Vec::new());
    for event in &events {
        let ids: Ids = serde_json::from_str(event.body.get())?;
        let id = &ids.event_id;
        // Until the broker has it. Whatever is sent again has the same event id: nothing can post twice.
        loop {
            let answer = match &session {
                Some((_, channel)) => send(channel, &user, event, &ids).await,
                None => match connect(&url, &queue).await {
                    Ok(connected) => {
                        session = Some(connected);
                        continue;
                    }
                    Err(error) => Err(error),
                },
            };
            match answer {
                Ok(Confirmation::Ack(None)) => break,
                Ok(Confirmation::Ack(Some(_))) => {
                    return Err(
                        format!("returned {id}: no queue is bound; an operator runs `fis topology apply`").into()
                    );
                }
                Ok(_) => println!("refused {id}: the queue is full, again in a second"),
                Err(error) => {
                    // 404: no such exchange; 403: no right to write to it; 406: the queue is of another kind
                    if matches!(error.kind(), ErrorKind::ProtocolError(said) if [403, 404, 406].contains(&said.get_id()))
                    {
                        return Err(format!("stopped at {id}: {error}").into());
                    }
                    // Whether the broker has the event is unknown.
                    println!("lost {id}: {error}, again in a second");
                    session = None;
                }
            }
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        println!("confirmed {id}");
        own.push(ids.event_id);
    }

    let (connection, channel) = match session {
        Some(session) => session,
        None => connect(&url, &queue).await?,
    };
    let options = BasicConsumeOptions::default();
    let mut rejections = channel.basic_consume(queue.into(), "".into(), options, FieldTable::default()).await?;
    let mut heard = 0;
    while heard < count {
        let delivery = rejections.next().await.ok_or("the session was lost")??;
        let Rejection { data } = serde_json::from_slice(&delivery.data)?;
        // Others publish, too.
        if let Some(id) = data.message_id.filter(|id| own.contains(id)) {
            println!("rejected {id} {}: {} ({})", data.reason, data.detail, data.dead_letter_id);
            heard += 1;
        }
        delivery.ack(BasicAckOptions::default()).await?;
    }
    connection.close(200, "bye".into()).await?;
    println!("summary confirmed={} rejected={heard}", own.len());
    Ok(())
}
