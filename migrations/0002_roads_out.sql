-- What leaves, what waits and what could not be booked.
--
-- Invariants held here:
--   * an outbox row is either a pointer to a journal entry (its bytes are made from the journal, so that a later
--     resend is identical) or a whole message of its own, never both
--   * a held event always has the outbox row that brings it back
--   * a dead letter is in one of four states, and its id names its content: the same bad event twice is one row

create table fis_outbox (
    id          bigint      not null generated always as identity,
    tenant_id   text,
    -- pointer to a journal entry, with the number of its lines …
    seq         bigint,
    lines       integer,
    -- … or a message of its own
    exchange    text,
    routing_key text,
    message_id  text,
    properties  text,
    body        bytea,
    -- null: at once, in id order per tenant. Otherwise not before.
    due_at      timestamptz,
    created_at  timestamptz not null default now(),
    check (
        (seq is not null and lines > 0 and tenant_id is not null and due_at is null
             and exchange is null and routing_key is null and message_id is null and properties is null and body is null)
        or (seq is null and lines is null and exchange is not null and routing_key is not null and message_id is not null
             and properties is not null and body is not null)
    )
);

-- Two roads through the table, each with its own small index: rows that leave at once, and rows that wait.
create unique index fis_outbox_ready on fis_outbox (id) where due_at is null;
create index fis_outbox_waiting on fis_outbox (due_at, id) where due_at is not null;
-- Rows live for milliseconds: vacuum often, or the index fills with the dead.
alter table fis_outbox set (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 5000,
                            autovacuum_vacuum_cost_delay = 0);

-- Events that may succeed later. The message itself waits in fis_outbox; this row says why and since when.
create table fis_held (
    tenant_id      text        not null,
    event_id       text        not null,
    event_type     text        not null,
    payload_hash   text        not null,
    routing_key    text        not null,
    reason         text        not null,
    detail         text        not null,
    attempts       integer     not null check (attempts > 0),
    due_at         timestamptz not null,
    lane           text        not null check (lane in ('urgent', 'live', 'backfill')),
    message_id     text,
    correlation_id text,
    first_held_at  timestamptz not null default now(),
    last_held_at   timestamptz not null default now(),
    primary key (tenant_id, event_id)
);

create table fis_dead_letter (
    id             text        primary key,
    tenant_id      text,
    event_id       text,
    event_type     text,
    routing_key    text        not null,
    lane           text        not null check (lane in ('urgent', 'live', 'backfill', 'unknown')),
    reason         text        not null,
    detail         text        not null,
    status         text        not null default 'parked'
                   check (status in ('parked', 'replaying', 'resolved', 'discarded')),
    attempts       integer     not null default 1 check (attempts > 0),
    amount         numeric,
    currency       text,
    message_id     text,
    correlation_id text,
    properties     text        not null,
    body           bytea       not null,
    first_seen_at  timestamptz not null default now(),
    last_seen_at   timestamptz not null default now()
);

create index fis_dead_letter_open on fis_dead_letter (reason, first_seen_at) where status in ('parked', 'replaying');

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
