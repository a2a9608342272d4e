//! One event's whole story: published, logged, committed, relayed.

use std::fmt::Write;

use anyhow::Result;
use sqlx::Row;

use crate::model::Meaning;
use crate::world::World;

/// Lines of a log that name the event; more would hide the story.
const LOG_LINES_MAX: usize = 20;

pub async fn tell(world: &World, tenant: &str, event: &str) -> Result<String> {
    let mut story = String::new();
    let sent = world.publisher.sent.lock().unwrap().clone();
    let cases = &world.script.cases;
    for (number, message) in world.script.messages.iter().enumerate() {
        let Meaning::Event { case, variant } = message.meaning else { continue };
        if cases[case].tenant != tenant || cases[case].event_id != event {
            continue;
        }
        let body = String::from_utf8_lossy(&message.body);
        writeln!(story, "published  message {number}, content {variant}, to {} {:?}", message.exchange, sent[number])?;
        writeln!(story, "           {} {}", message.routing_key, body.chars().take(400).collect::<String>())?;
    }
    let mut session = world.servers.sql(&world.database).await?;
    let questions = [
        ("log", "select to_jsonb(l)::text from fis_job_log l where tenant_id = $1 and idempotency_key = $2"),
        ("journal", "select to_jsonb(e)::text from fis_journal_entry e where tenant_id = $1 and event_id = $2"),
        (
            "lines",
            "select to_jsonb(l)::text from fis_journal_line l join fis_journal_entry e using (tenant_id, seq)
              where tenant_id = $1 and event_id = $2 order by seq, line_no",
        ),
        (
            "outbox",
            "select (to_jsonb(o) - 'body')::text from fis_outbox o
              where tenant_id = $1
                and (seq in (select seq from fis_journal_entry where tenant_id = $1 and event_id = $2)
                     or position(convert_to($2, 'UTF8') in body) > 0)",
        ),
        ("held", "select to_jsonb(h)::text from fis_held h where tenant_id = $1 and event_id = $2"),
        (
            "letters",
            "select (to_jsonb(d) - 'body')::text from fis_dead_letter d where tenant_id = $1 and event_id = $2",
        ),
    ];
    for (place, sql) in questions {
        let rows = sqlx::query(sql).bind(tenant).bind(event).fetch_all(&mut session).await?;
        for row in &rows {
            writeln!(story, "{place:<10} {}", row.get::<String, _>(0))?;
        }
        if rows.is_empty() {
            writeln!(story, "{place:<10} nothing")?;
        }
    }
    let told = world.reader.told.lock().unwrap();
    for message in told.iter().filter(|told| contains(&told.body, event.as_bytes())) {
        let again = if message.redelivered { ", redelivered" } else { "" };
        let body: String = String::from_utf8_lossy(&message.body).chars().take(600).collect();
        writeln!(story, "feed       {:.1} s{again}: {} {body}", message.at.as_secs_f64(), message.routing_key)?;
    }
    drop(told);
    for number in world.instances.all() {
        let log = std::fs::read_to_string(world.instances.log(number)).unwrap_or_default();
        for line in log.lines().filter(|line| line.contains(event)).take(LOG_LINES_MAX) {
            writeln!(story, "fis {number}      {line}")?;
        }
    }
    Ok(story)
}

fn contains(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len().max(1)).any(|window| window == part)
}
