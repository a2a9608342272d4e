-- Which ledger this is. One row, made here; it stays with the ledger through a fail-over, a restore and a dump.
--
-- Invariants held here:
--   * there is one row, and it is never taken away: who has none believes no key in Redis, and starts on no virtual host
--   * id names the ledger at the broker: a virtual host belongs to one ledger
--   * secret proves to fis that a key in Redis was written for this ledger by fis; it is written nowhere else, and no reader needs it
-- A copy that is to live on as a ledger of its own, beside the one it was copied from, is given an identity of its own:
--   update fis_ledger set id = gen_random_uuid(), secret = sha256((gen_random_uuid()::text || gen_random_uuid())::bytea);

create table fis_ledger (
    one    boolean primary key default true check (one),
    id     uuid    not null,
    secret bytea   not null check (length(secret) = 32)
);

-- Two random UUIDs are 244 random bits.
insert into fis_ledger (id, secret)
values (gen_random_uuid(), sha256((gen_random_uuid()::text || gen_random_uuid())::bytea));

-- The instances of fis that serve this ledger: each writes its own row every few seconds and takes it away when it ends.
--
-- Invariants held here:
--   * a row is for people alone: the broker decides who relays, fis_lease who follows the inbox
--   * seen_at is the database's clock: a row that has grown old is an instance that died, or that cannot reach PostgreSQL
create table fis_instance (
    id          text        primary key check (length(id) = 32),
    host        text        not null,
    pid         bigint      not null,
    version     text        not null,
    http_addr   text        not null,
    is_ready    boolean     not null,
    is_relaying boolean     not null,
    started_at  timestamptz not null default now(),
    seen_at     timestamptz not null default now()
);

create index fis_instance_seen on fis_instance (seen_at);
