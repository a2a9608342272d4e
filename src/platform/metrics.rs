//! Every metric, once: its name, its unit, its meaning. Labels come from enums, and tenants' from the configuration, so that their number is bounded.

use metrics::{Label, Unit, counter, describe_counter, describe_gauge, describe_histogram, gauge, histogram};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
use std::time::Duration;

pub const INTAKE_DELIVERIES: &str = "fis_intake_deliveries_total";
pub const INTAKE_REJECTED: &str = "fis_intake_rejected_total";
pub const INTAKE_HELD: &str = "fis_intake_held_total";
pub const INTAKE_BATCH_EVENTS: &str = "fis_intake_batch_events";
pub const INTAKE_PREFETCH: &str = "fis_intake_prefetch_events";
pub const INTAKE_LIMIT: &str = "fis_intake_limit_events";
pub const INTAKE_LIMITED: &str = "fis_intake_limited_seconds_total";
pub const INTAKE_STRAYS: &str = "fis_intake_strays_total";
pub const INTAKE_REDIS_AWAY: &str = "fis_intake_redis_away_total";
pub const JOURNAL_POST_SECONDS: &str = "fis_journal_post_seconds";
pub const JOURNAL_DRAFTS: &str = "fis_journal_drafts_total";
pub const JOURNAL_RETRIES: &str = "fis_journal_retries_total";
pub const OUTBOX_PUBLISHED: &str = "fis_outbox_published_total";
pub const OUTBOX_UNCONFIRMED: &str = "fis_outbox_unconfirmed_total";
pub const OUTBOX_TENANTS_WAITING: &str = "fis_outbox_tenants_waiting";
pub const OUTBOX_RELAYING: &str = "fis_outbox_relaying";
pub const OUTBOX_MIRRORED: &str = "fis_outbox_mirrored_total";
pub const OUTBOX_MIRROR_FAILED: &str = "fis_outbox_mirror_failed_total";
pub const PARKING_PARKED: &str = "fis_parking_parked_total";
pub const PARKING_OPEN: &str = "fis_parking_open_letters";
pub const PARKING_OPEN_MONEY: &str = "fis_parking_open_money_units";
pub const PARKING_OLDEST: &str = "fis_parking_oldest_age_seconds";
pub const PART_AWAY: &str = "fis_service_part_away";

/// Buckets in seconds from a millisecond to ten seconds.
const SECONDS: [f64; 10] = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 2.0, 10.0]; // durations, not money
const EVENTS: [f64; 8] = [1.0, 2.0, 5.0, 10.0, 50.0, 100.0, 250.0, 500.0]; // sizes, not money

/// Installs the recorder of this process.
///
/// # Errors
/// A recorder is installed already.
pub fn install() -> Result<PrometheusHandle, String> {
    let builder = PrometheusBuilder::new()
        .set_buckets_for_metric(Matcher::Suffix("_seconds".to_owned()), &SECONDS)
        .and_then(|builder| builder.set_buckets_for_metric(Matcher::Full(INTAKE_BATCH_EVENTS.to_owned()), &EVENTS));
    let handle = builder.and_then(PrometheusBuilder::install_recorder).map_err(|error| error.to_string())?;
    describe_counter!(INTAKE_DELIVERIES, "Deliveries settled, by lane and outcome, and by tenant where it has a queue");
    describe_gauge!(INTAKE_LIMIT, "Events a second that this instance takes of a tenant");
    describe_counter!(INTAKE_LIMITED, Unit::Seconds, "Time for which a tenant's queue waited for its limit");
    describe_counter!(INTAKE_STRAYS, "Events that came by the front door though their tenant has a queue");
    describe_counter!(INTAKE_REJECTED, "Events rejected, by reason");
    describe_counter!(INTAKE_HELD, "Events held, by reason");
    describe_histogram!(INTAKE_BATCH_EVENTS, "Events in a batch");
    describe_counter!(INTAKE_REDIS_AWAY, "Batches that went on without Redis");
    describe_histogram!(JOURNAL_POST_SECONDS, Unit::Seconds, "Duration of a posting transaction");
    describe_counter!(JOURNAL_DRAFTS, "Batches decided ahead of their turn, by whether they were written so");
    describe_counter!(JOURNAL_RETRIES, "Posting transactions tried again because PostgreSQL was away");
    describe_counter!(OUTBOX_PUBLISHED, "Messages published and confirmed, by kind");
    describe_counter!(OUTBOX_UNCONFIRMED, "Messages that came back or were refused, to be sent again");
    describe_gauge!(OUTBOX_TENANTS_WAITING, "Tenants whose messages wait because one came back or was refused");
    describe_gauge!(OUTBOX_RELAYING, "1 while this instance relays; 0 while it stands by");
    describe_counter!(OUTBOX_MIRRORED, "Journal events confirmed on the mirror's exchange");
    describe_counter!(
        OUTBOX_MIRROR_FAILED,
        "Messages that the mirror gave back or refused, and sessions that it lost; all are tried again"
    );
    describe_counter!(
        PARKING_PARKED,
        "Messages taken from the dead-letter queue, by whether the pipeline had recorded them"
    );
    describe_gauge!(INTAKE_PREFETCH, Unit::Count, "Deliveries that the broker may send ahead, by lane and tenant");
    describe_gauge!(PARKING_OPEN, "Dead letters that are parked or on their way back, by reason");
    describe_gauge!(PARKING_OPEN_MONEY, "What they say they are worth, by currency");
    describe_gauge!(PARKING_OLDEST, Unit::Seconds, "Age of the oldest open dead letter");
    describe_gauge!(PART_AWAY, "1 while a part is away");
    Ok(handle)
}

/// The lane of a queue, and its tenant where the queue is a tenant's own.
fn road(lane: &'static str, tenant: Option<&str>) -> Vec<Label> {
    let tenant = tenant.map(|tenant| Label::new("tenant", tenant.to_owned()));
    std::iter::once(Label::new("lane", lane)).chain(tenant).collect()
}

pub fn deliveries(lane: &'static str, tenant: Option<&str>, outcome: &'static str, count: u64) {
    let mut labels = road(lane, tenant);
    labels.push(Label::new("outcome", outcome));
    counter!(INTAKE_DELIVERIES, labels).increment(count);
}

pub fn limit(tenant: &str, per_second: u32) {
    gauge!(INTAKE_LIMIT, "tenant" => tenant.to_owned()).set(per_second);
}

pub fn limited(tenant: &str, seconds: u64) {
    counter!(INTAKE_LIMITED, "tenant" => tenant.to_owned()).increment(seconds);
}

pub fn stray(tenant: &str) {
    counter!(INTAKE_STRAYS, "tenant" => tenant.to_owned()).increment(1);
}

pub fn rejected(reason: &'static str) {
    counter!(INTAKE_REJECTED, "reason" => reason).increment(1);
}

pub fn held(reason: &'static str) {
    counter!(INTAKE_HELD, "reason" => reason).increment(1);
}

pub fn batch(events: usize) {
    histogram!(INTAKE_BATCH_EVENTS).record(u32::try_from(events).unwrap_or(u32::MAX));
}

pub fn prefetch(lane: &'static str, tenant: Option<&str>, bound: u16) {
    gauge!(INTAKE_PREFETCH, road(lane, tenant)).set(bound);
}

pub fn redis_away() {
    counter!(INTAKE_REDIS_AWAY).increment(1);
}

pub fn posted_in(duration: Duration) {
    histogram!(JOURNAL_POST_SECONDS).record(duration);
}

/// `true`, `moved` or `false`.
pub fn drafted(kept: &'static str) {
    counter!(JOURNAL_DRAFTS, "kept" => kept).increment(1);
}

pub fn post_retried() {
    counter!(JOURNAL_RETRIES).increment(1);
}

pub fn published(kind: &'static str, count: u64) {
    counter!(OUTBOX_PUBLISHED, "kind" => kind).increment(count);
}

pub fn unconfirmed(count: u64) {
    counter!(OUTBOX_UNCONFIRMED).increment(count);
}

pub fn tenants_waiting(count: usize) {
    gauge!(OUTBOX_TENANTS_WAITING).set(u32::try_from(count).unwrap_or(u32::MAX));
}

pub fn relaying(relaying: bool) {
    gauge!(OUTBOX_RELAYING).set(u8::from(relaying));
}

pub fn mirrored(count: u64) {
    counter!(OUTBOX_MIRRORED).increment(count);
}

pub fn mirror_failed(count: u64) {
    counter!(OUTBOX_MIRROR_FAILED).increment(count);
}

pub fn parked(recorded: bool, count: u64) {
    let recorded = if recorded { "yes" } else { "no" };
    counter!(PARKING_PARKED, "recorded" => recorded).increment(count);
}

pub fn open_letters(reason: &'static str, letters: i64) {
    gauge!(PARKING_OPEN, "reason" => reason).set(u32::try_from(letters).unwrap_or(u32::MAX));
}

/// A figure for a dashboard; the exact one is in the table.
pub fn open_money(currency: String, units: f64) {
    gauge!(PARKING_OPEN_MONEY, "currency" => currency).set(units);
}

pub fn oldest_letter(seconds: i64) {
    gauge!(PARKING_OLDEST).set(u32::try_from(seconds.max(0)).unwrap_or(u32::MAX));
}

pub fn part_away(part: &'static str, away: bool) {
    gauge!(PART_AWAY, "part" => part).set(u8::from(away));
}
