-- What leaves, and what waits.
--
-- Invariants held here:
--   * an outbox row is either a pointer to a journal entry (its bytes are made from the journal, so that a later
--     resend is identical) or a whole message of its own, never both; nothing in it waits for a time
--   * a held event is its row: the message stands in it, so that the transaction that decides the event removes the row
--   * what is held changes under the lock of the tenant's head alone. Content under an id is held once: a copy of it changes
--     why it waits, never when it comes back; other content under the same id waits beside it

create table fis_outbox (
    id          bigint      generated always as identity primary key,
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
    created_at  timestamptz not null default now(),
    check (
        (seq is not null and lines > 0 and tenant_id is not null
             and exchange is null and routing_key is null and message_id is null and properties is null and body is null)
        or (seq is null and lines is null and exchange is not null and routing_key is not null and message_id is not null
             and properties is not null and body is not null)
    )
);

-- Rows live for milliseconds: vacuum often, or the index fills with the dead.
alter table fis_outbox set (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 5000,
                            autovacuum_vacuum_cost_delay = 0);

-- Events that may succeed later: the message, why it waits, since when and until when.
create table fis_held (
    tenant_id      text        not null,
    event_id       text        not null,
    event_type     text        not null,
    payload_hash   text        not null,
    routing_key    text        not null,
    properties     text        not null,
    body           bytea       not null,
    reason         text        not null,
    detail         text        not null,
    -- event:ID, rate:FROM,…/TO@DATE, period:DATE[,DATE]; null: nobody knows, it comes back when it is due. By bytes, so that an
    -- index finds a kind of cause by its beginning.
    waits_for      text        collate "C",
    attempts       integer     not null check (attempts > 0),
    due_at         timestamptz not null,
    lane           text        not null check (lane in ('urgent', 'live', 'backfill')),
    message_id     text,
    correlation_id text,
    -- The first receipt: an event without a time of its own is dated by it, whenever it is posted.
    received_at    timestamptz not null,
    -- The tenant's day of receipt; null where a dead letter stands for the event, whose replay this is.
    received_on    date,
    -- The rule's date or occurredAt where it can be read, else the day of receipt.
    event_date     date,
    amount         numeric,
    currency       text,
    -- The dead letter that was replayed and is held now, and the edited copy of it that this is.
    letter_id      text,
    edit_no        integer,
    first_held_at  timestamptz not null default now(),
    last_held_at   timestamptz not null default now(),
    primary key (tenant_id, event_id, payload_hash)
);

create index fis_held_cause on fis_held (tenant_id, waits_for);
-- Is anything due? And by turns: which tenants have something due, each tenant's oldest first.
create index fis_held_due on fis_held (due_at);
create index fis_held_turn on fis_held (tenant_id, due_at, event_id);
create index fis_held_letter on fis_held (letter_id) where letter_id is not null;

-- What one instance does for all of them, for as long as it says every few seconds that it lives. A lease saves work and decides nothing:
-- whoever was overtaken finds its rows gone or its place taken, under their locks.
create table fis_lease (
    name   text        primary key,
    owner  text        not null,
    until  timestamptz not null,
    -- Owners that died since one of them has brought held events to their end: one of the events may be what ends them.
    deaths integer     not null default 0 check (deaths >= 0)
);
