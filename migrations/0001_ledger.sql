-- The books and the journal: what was decided, in the order it was decided.
--
-- Invariants held here:
--   * an event is posted at most once:            unique (tenant_id, event_id)
--   * a tenant's sequence has no twin:            primary key (tenant_id, seq); no gap because the head row is locked
--   * an entry is reversed at most once:          unique (tenant_id, reverses_entry_id)
--   * entries, lines and books are append-only:   fis_refuse_change on update, delete and truncate
--   * who acts is what a command says; beside it stands the role that had logged in (login), which a trigger writes and no statement
--     can choose
--   * a version of the books is sealed by a hash over its text, who applied it and the version before (docs/hash-chain.md)
-- There are no foreign keys between journal tables: one transaction writes them together, `fis verify` proves it,
-- and a key check per line would cost more than the insert itself.

create function fis_refuse_change() returns trigger
language plpgsql as $$
begin
    raise exception '% on % is refused: the table is append-only', tg_op, tg_table_name
        using errcode = 'restrict_violation',
              hint = 'Correct an entry by posting its reversal.';
end
$$;

create function fis_note_login() returns trigger
language plpgsql as $$
begin
    new.login := session_user;
    return new;
end
$$;

create function fis_netstring(content text) returns text
language sql stable strict
return octet_length(convert_to(content, 'UTF8'))::text || ':' || content || ',';

create function fis_seal_books() returns trigger
language plpgsql as $$
declare
    previous text := (select hash from fis_books where tenant_id = new.tenant_id and version = new.version - 1);
begin
    new.login := session_user;
    new.hash := encode(sha256(convert_to(
        fis_netstring('fis-books-v1') || fis_netstring(new.tenant_id) || fis_netstring(new.version::text)
        || fis_netstring(coalesce(previous, repeat('0', 64)))
        || fis_netstring(to_char(new.applied_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'))
        || fis_netstring(new.applied_by) || fis_netstring(new.login) || fis_netstring(new.source), 'UTF8')), 'hex');
    return new;
end
$$;

-- One row per version of a tenant's books, exactly as applied. The newest is in force.
create table fis_books (
    tenant_id    text        not null,
    version      integer     not null check (version > 0),
    source       text        not null,
    applied_at   timestamptz not null default now(),
    applied_by   text        not null,
    login        text        not null,
    hash         text        not null,
    primary key (tenant_id, version)
);

-- The one row per tenant that a posting transaction locks. Sequence order is commit order because of it, and a
-- change of books takes the same lock, so an entry is posted wholly under one version.
create table fis_chain_head (
    tenant_id     text    primary key,
    seq           bigint  not null check (seq >= 0),
    hash          text    not null check (length(hash) = 64),
    books_version integer not null check (books_version > 0)
) with (fillfactor = 50);

create table fis_journal_entry (
    tenant_id         text        not null,
    seq               bigint      not null check (seq > 0),
    entry_id          text        not null generated always as (tenant_id || '/' || seq::text) stored,
    event_id          text        not null,
    event_type        text        not null,
    payload_hash      text        not null,
    accounting_date   date        not null,
    -- The event's own date, where its period was closed and the entry was dated into the next open one.
    original_date     date,
    posted_at         timestamptz not null,
    description       text        not null,
    rule_name         text        not null,
    rule_version      integer     not null,
    reverses_entry_id text,
    previous_hash     text        not null,
    hash              text        not null,
    -- Where it came from; carried on to the outbound event and shown in fis_job_log. `hand`: an operator's reversal.
    lane              text        not null check (lane in ('urgent', 'live', 'backfill', 'hand')),
    message_id        text,
    correlation_id    text,
    traceparent       text,
    -- The tenant's day of receipt; null for what an operator posted by hand.
    received_on       date,
    primary key (tenant_id, seq),
    unique (tenant_id, event_id)
);

create unique index fis_journal_entry_reversed_once
    on fis_journal_entry (tenant_id, reverses_entry_id)
    where reverses_entry_id is not null;

-- Entries are appended by the day, so a summary of each stretch of the table finds a day, and costs a posting nothing. The
-- late ones among them (events that had been held or parked) would spoil a plain minimum and maximum.
create index fis_journal_entry_received on fis_journal_entry using brin (received_on date_minmax_multi_ops);

-- The upper bounds also keep NaN out: in PostgreSQL NaN is greater than every number.
create table fis_journal_line (
    tenant_id    text     not null,
    seq          bigint   not null,
    line_no      smallint not null check (line_no > 0),
    account_code text     not null,
    side         text     not null check (side in ('debit', 'credit')),
    amount       numeric  not null check (amount > 0 and amount < 1e15),
    currency     text     not null check (length(currency) = 3),
    base_amount  numeric  not null check (base_amount >= 0 and base_amount < 1e18),
    primary key (tenant_id, seq, line_no)
);

-- The sums of the lines, kept in the posting transaction; `fis verify` recomputes them.
create table fis_account_balance (
    tenant_id    text    not null,
    account_code text    not null,
    currency     text    not null,
    debit        numeric not null default 0 check (debit >= 0 and debit < 1e25),
    credit       numeric not null default 0 check (credit >= 0 and credit < 1e25),
    primary key (tenant_id, account_code, currency)
) with (fillfactor = 50);

create trigger fis_books_seal before insert on fis_books for each row execute function fis_seal_books();
create trigger fis_books_append_only before update or delete or truncate on fis_books
    for each statement execute function fis_refuse_change();
create trigger fis_journal_entry_append_only before update or delete or truncate on fis_journal_entry
    for each statement execute function fis_refuse_change();
create trigger fis_journal_line_append_only before update or delete or truncate on fis_journal_line
    for each statement execute function fis_refuse_change();
