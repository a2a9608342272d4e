-- Records beside the ledger: what was received, what was ignored, how far a publisher's batch is, how far the mirror is, and every event's lifecycle.
--
-- Invariants held here:
--   * for every tenant and day of receipt: the events and the money of `posted` are those of the entries with that received_on,
--     of `held` those of fis_held, of `parked` those of the letters that are open or discarded. `duplicate`, `ignored` and
--     `discarded` (letters that retention has removed) are proven by no row and stand here alone
--   * an event is counted once per message, on the tenant's day on which the message came; where it moves (held and then
--     posted, parked and then posted), row and count move together, in one transaction, and keep that day
--   * nothing but a row's absence or change can make a difference: no statement reads these totals to write rows
--   * an event that the books ignored has a row in fis_ignored for 30 days from its receipt; the row decides nothing about the event
--   * a member of a batch is counted once, in the counter that its outcome names: posted + rejected + ignored = count of members
--   * a posted member stays posted; completed_at is set once and stays
--   * every entry of a tenant from the mirror's beginning up to seq was confirmed by the broker, on that exchange; a cursor only
--     moves forward; a tenant without a cursor is one that the mirror's beginning did not see: all of its entries are mirrored
-- received_on is null for what names no tenant and for what an operator posted by hand: none of it is counted. A held event that
-- is a dead letter's replay has none either, the letter stands for it.

-- What was received, counted when it was decided: the control totals that `fis tie-out` compares with the rows.
create table fis_received (
    tenant_id   text    not null,
    received_on date    not null,
    outcome     text    not null check (outcome in ('posted', 'duplicate', 'ignored', 'held', 'parked', 'discarded')),
    -- Empty: no money, or none that could be read.
    currency    text    not null,
    -- An event with money in several currencies is counted beside the first.
    events      bigint  not null,
    amount      numeric not null,
    primary key (tenant_id, received_on, outcome, currency)
) with (fillfactor = 50);

-- One row per event that the books ignored, so that its publisher can tell it from one that was lost. Sent again, it is decided anew.
create table fis_ignored (
    tenant_id     text        not null,
    event_id      text        not null,
    -- Null: no rule matched, and the books ignore what none matches.
    rule_name     text,
    books_version integer     not null,
    received_on   date        not null,
    ignored_at    timestamptz not null,
    primary key (tenant_id, event_id)
);
-- By it the old ones are found and removed.
create index fis_ignored_received_on on fis_ignored (received_on);

-- One row per batch of a publisher. size: the greatest that a member named; null until one does.
create table fis_batch (
    tenant_id     text        not null,
    batch_id      text        not null,
    size          bigint      check (size > 0),
    posted        bigint      not null check (posted >= 0),
    rejected      bigint      not null check (rejected >= 0),
    ignored       bigint      not null check (ignored >= 0),
    -- Grows with every transaction that touched the batch: tells an old copy of these numbers from a new one.
    revision      bigint      not null check (revision > 0),
    first_seen_at timestamptz not null,
    updated_at    timestamptz not null,
    completed_at  timestamptz,
    primary key (tenant_id, batch_id)
) with (fillfactor = 50);

-- One row per member that has come to an end. Held members are not here yet.
create table fis_batch_member (
    tenant_id text not null,
    batch_id  text not null,
    event_id  text not null,
    outcome   text not null check (outcome in ('posted', 'rejected', 'ignored')),
    primary key (tenant_id, batch_id, event_id)
);

-- How far the journal has been published to a second exchange, while readers of the feed move there.
-- To begin a mirror anew at the heads of its day: delete its row; the cursors go with it.
create table fis_mirror (
    exchange text        primary key,
    began_at timestamptz not null default now()
);

create table fis_mirror_cursor (
    exchange  text   not null references fis_mirror on delete cascade,
    tenant_id text   not null,
    seq       bigint not null check (seq >= 0),
    primary key (exchange, tenant_id)
) with (fillfactor = 50);

-- Every event's lifecycle, derived: no second row is written for a posted event.
create view fis_job_log as
    select case lane when 'hand' then null when 'live' then 'fis.ingestion.queue' else 'fis.' || lane || '.queue' end as queue,
           message_id, correlation_id, tenant_id, event_id as idempotency_key, event_type as action,
           'posted' as status, 1 as attempts, null::text as last_error, null::timestamptz as next_retry_at,
           posted_at as created_at, posted_at as updated_at
      from fis_journal_entry
    union all
    select 'fis.' || case lane when 'live' then 'ingestion' else lane end || '.queue',
           message_id, correlation_id, tenant_id, event_id, event_type,
           'held', attempts, reason || ': ' || detail, due_at, first_held_at, last_held_at
      from fis_held
    union all
    select case lane when 'unknown' then null when 'live' then 'fis.ingestion.queue' else 'fis.' || lane || '.queue' end,
           message_id, correlation_id, tenant_id, event_id, event_type,
           case status when 'parked' then 'rejected' else status end, attempts, reason || ': ' || detail, null,
           first_seen_at, last_seen_at
      from fis_dead_letter;
