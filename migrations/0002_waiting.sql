-- What leaves, and what waits.
--
-- Invariants held here:
--   * an outbox row is either a pointer to a journal entry (its bytes are made from the journal, so that a later
--     resend is identical) or a whole message of its own, never both
--   * a held event always has the outbox row that brings it back: fis_held.due_at is that row's due time, so that
--     (due_at, outbox_id) finds it by the index of waiting rows; a release moves both in one transaction
-- What is held changes under the lock of the tenant's head alone.

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
-- A replay puts tens of thousands of rows here that are due at once; the relay reads and removes them by id, and without this
-- index would walk through all of them for every part.
create unique index fis_outbox_waiting_id on fis_outbox (id) where due_at is not null;
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
    -- event:ID, rate:FROM,…/TO@DATE, period:DATE[,DATE]; null: nobody knows, it comes back when it is due.
    waits_for      text,
    attempts       integer     not null check (attempts > 0),
    due_at         timestamptz not null,
    -- The row that brings it back.
    outbox_id      bigint,
    lane           text        not null check (lane in ('urgent', 'live', 'backfill')),
    message_id     text,
    correlation_id text,
    -- The tenant's day of receipt; null where a dead letter stands for the event, whose replay this is.
    received_on    date,
    -- The rule's date or occurredAt where it can be read, else the day of receipt.
    event_date     date,
    amount         numeric,
    currency       text,
    first_held_at  timestamptz not null default now(),
    last_held_at   timestamptz not null default now(),
    primary key (tenant_id, event_id)
);

create index fis_held_cause on fis_held (tenant_id, waits_for);
