-- Dead letters: messages that could not be booked, the replays that send them back, edits beside the untouched original, and a log of
-- every move.
--
-- Invariants held here:
--   * a letter's id names its content: the same bad event twice is one row
--   * a letter is in one of four states; it is resolved exactly when it says how (resolved_as), and settled_at is the moment at which it
--     left the open ones
--   * a letter moves only along the roads of fis_letter_moves, and every move leaves a row in fis_operator_log: the trigger
--     writes it, so no statement can forget it (0006 has the rows of its first and its last day). Who, why and through what are the transaction's settings fis.by, fis.why and
--     fis.through; without them it was the service itself
--   * an open letter cannot be deleted, by nobody; the log, the edits and the entries' edits are append-only
--   * a replay's selection (fis_replay_letter) never changes. Every place up to fis_replay.decided has its verdict: the transaction that
--     decides letters moves it on, under the row's lock, from where it found it. A letter that is not parked any more when its
--     turn comes is skipped, so two replays of one letter book it once
--   * a letter is `replaying` where its replay found that it may succeed later: its event is held (fis_held.letter_id). Letters of a
--     running replay whose turn has not come are parked; whoever lists them calls them replaying
-- Moving a letter costs what its indexes cost: every move writes a new version of the row, and an entry into each index that holds it.
-- So no index says twice what another one says, and none holds letters that nobody looks for in it.

-- What is left of a text without what differs from event to event: values in quotes, and every word with a digit. The numbers of our own texts are
-- put back.
create function fis_masked(text text) returns text
language sql immutable strict parallel safe
return replace(replace(replace(
           regexp_replace(regexp_replace(text, '"[^"]*"|''[^'']*''', '"…"', 'g'),
                          '[A-Za-z0-9_.:/+-]*[0-9][A-Za-z0-9_.:/+-]*', '#', 'g'),
           'RFC # time such as #', 'RFC 3339 time such as 2026-02-25T10:00:00Z'),
           'RFC # time', 'RFC 3339 time'),
           'ISO # currency', 'ISO 4217 currency');

-- A rule and its expression are the books' own words, the same for all events, and stay as they are.
create function fis_fingerprint(detail text) returns text
language sql immutable strict parallel safe
return left(coalesce(substring(detail from '^rule `[^`]*`: `[^`]*`'), '')
            || fis_masked(regexp_replace(detail, '^rule `[^`]*`: `[^`]*`', '')), 200);

create function fis_rule_of(detail text) returns text
language sql immutable strict parallel safe
return substring(detail from '^rule `([^`]*)`');

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
    last_seen_at   timestamptz not null default now(),
    payload_hash   text,
    -- The last replay that decided it.
    replay_id      bigint,
    resolved_as    text        check (resolved_as in ('posted', 'duplicate', 'ignored', 'superseded')),
    -- Where it was booked; null for what a rule ignores.
    entry_id       text,
    settled_at     timestamptz,
    -- The cause that it has in common with others.
    rule_name      text        generated always as (fis_rule_of(detail)) stored,
    fingerprint    text        not null generated always as (fis_fingerprint(detail)) stored,
    group_id       text        not null generated always as
        (left(md5(reason || ' ' || coalesce(fis_rule_of(detail), '') || ' ' || fis_fingerprint(detail)), 8)) stored,
    -- The tenant's day on which it is counted; null for what names no tenant.
    received_on    date,
    -- The rule's date or occurredAt where it can be read, else the day of receipt.
    event_date     date,
    -- How often the broker had delivered the message before when it was last rejected. One that comes with a greater count was
    -- rejected, and not yet settled when its session ended: it is the same rejection, and told already.
    deliveries     bigint      not null default 0,
    constraint fis_dead_letter_resolved_how check ((status = 'resolved') = (resolved_as is not null)),
    constraint fis_dead_letter_settled_when check ((status in ('resolved', 'discarded')) = (settled_at is not null))
);

-- Looking: everything that a filter asks for stands in the index, so that a million letters are searched without their bodies.
-- There is no index by reason: for a filter by reason and something else it would lead into the table, row by row.
create index fis_dead_letter_look on fis_dead_letter (first_seen_at, id)
    include (status, tenant_id, reason, routing_key, amount, currency, group_id, detail)
    where status in ('parked', 'replaying');
create index fis_dead_letter_groups on fis_dead_letter (group_id, first_seen_at, id) where status in ('parked', 'replaying');
-- What became of one event; and for a posting, is there an open letter of it? Few events have more than one.
create index fis_dead_letter_of_event on fis_dead_letter (tenant_id, event_id);
-- The tie-out of a day. A resolved letter is not counted as a letter any more: its entry is.
create index fis_dead_letter_received on fis_dead_letter (tenant_id, received_on)
    include (status, event_date, amount, currency)
    where status <> 'resolved';
-- Replays: whose events are held.
create index fis_dead_letter_replaying on fis_dead_letter (replay_id) where status = 'replaying';
-- Retention.
create index fis_dead_letter_settled on fis_dead_letter (settled_at) where status in ('resolved', 'discarded');
-- A scan of the index alone needs the visibility map; keep it fresh while letters pour in.
alter table fis_dead_letter set (autovacuum_vacuum_insert_scale_factor = 0.02, autovacuum_vacuum_scale_factor = 0.02,
                                 autovacuum_analyze_scale_factor = 0.02);

create table fis_replay (
    id           bigint      generated always as identity primary key,
    by           text        not null,
    why          text        not null,
    -- What was asked for, in words.
    selection    text        not null,
    letters      bigint      not null default 0 check (letters >= 0),
    canary       boolean     not null,
    rate         integer     check (rate > 0),
    max_failures bigint      check (max_failures >= 0),
    -- chosen: shown, not yet confirmed; running: the service takes it; paused: by hand or by a limit, may go on;
    -- stopped: given up; done: every place has its verdict
    state        text        not null default 'chosen' check (state in ('chosen', 'running', 'paused', 'stopped', 'done')),
    -- Why it is paused or stopped.
    note         text,
    decided      bigint      not null default 0 check (decided >= 0 and decided <= letters),
    -- Of those that are decided: the letter was not parked any more when its turn came; it was rejected again.
    skipped      bigint      not null default 0 check (skipped >= 0),
    failed       bigint      not null default 0 check (failed >= 0),
    -- Instances that died since its last step while they followed the inbox: one of its letters may be what ends them.
    deaths       integer     not null default 0 check (deaths >= 0),
    created_at   timestamptz not null default now(),
    ended_at     timestamptz
);
create index fis_replay_running on fis_replay (id) where state = 'running';

create table fis_replay_letter (
    replay_id bigint  not null,
    n         bigint  not null check (n > 0),
    letter_id text    not null,
    -- What it said it was worth, so that a selection's money is told without reading the letters.
    currency  text,
    amount    numeric,
    -- The edited copy to book instead of the original.
    edit_no   integer,
    primary key (replay_id, n)
);
-- Which replays has a letter been selected by?
create index fis_replay_letter_of on fis_replay_letter (letter_id);

-- Edited copies.
create table fis_dead_letter_edit (
    letter_id text        not null,
    edit_no   integer     not null check (edit_no > 0),
    body      bytea       not null,
    edited_by text        not null,
    why       text        not null,
    edited_at timestamptz not null default now(),
    primary key (letter_id, edit_no)
);

-- The record of an entry that was booked from an edited copy. It outlives the letter.
create table fis_entry_edit (
    entry_id  text        not null,
    letter_id text        not null,
    edit_no   integer     not null,
    edited_by text        not null,
    why       text        not null,
    edited_at timestamptz not null,
    primary key (entry_id, letter_id)
);

create table fis_operator_log (
    id          bigint      generated always as identity primary key,
    at          timestamptz not null default now(),
    by          text        not null,
    -- The role that had logged in, whoever `by` says it was.
    login       text        not null,
    act         text        not null check (act in ('park', 'replay', 'pause', 'resume', 'stop', 'hold', 'resolve', 'fail', 'reopen', 'discard', 'restore', 'edit', 'book', 'again', 'prune', 'revert', 'close', 'release', 'resend')),
    why         text        not null,
    -- The hand through which the act came.
    through     text        not null check (through in ('cli', 'service')),
    letter_id   text,
    replay_id   bigint,
    from_status text,
    to_status   text,
    -- The letter's reason and detail after the move, or what was done.
    reason      text,
    detail      text        not null,
    -- The way in which the letter was resolved, and its entry, after the move.
    resolved_as text,
    entry_id    text,
    -- The hash of what was parked or edited (docs/hash-chain.md).
    content     text
);
create index fis_operator_log_letter on fis_operator_log (letter_id, id) where letter_id is not null;
-- Which letters of a replay failed again, and why.
create index fis_operator_log_failed on fis_operator_log (replay_id) where act = 'fail';

create trigger fis_operator_log_login before insert on fis_operator_log for each row execute function fis_note_login();
create trigger fis_operator_log_append_only before update or delete or truncate on fis_operator_log
    for each statement execute function fis_refuse_change();
create trigger fis_dead_letter_edit_append_only before update or delete or truncate on fis_dead_letter_edit
    for each statement execute function fis_refuse_change();
create trigger fis_entry_edit_append_only before update or delete or truncate on fis_entry_edit
    for each statement execute function fis_refuse_change();

-- parked → resolved | discarded | replaying; replaying → resolved | parked; discarded → parked where somebody restores it; what comes again is
-- parked again. A replay's verdict names the
-- replay, so that one that changes nothing else is a move too: the letter failed again.
--
-- The log joins the letters of a statement as they were with what they became. PostgreSQL plans that once a session, by the number of
-- letters in the first statement: after a single letter it would compare each with each for ever after, a quarter of a million
-- comparisons for a batch of five hundred; hence enable_nestloop. A posting that looks for letters it supersedes mostly finds none; then
-- there is nothing to compare.
create function fis_letter_moves() returns trigger
language plpgsql
set enable_nestloop = off
as $$
declare
    whose text := coalesce(current_setting('fis.by', true), '');
begin
    if not exists (select from new_letters) then
        return null;
    end if;
    insert into fis_operator_log (by, act, why, through, letter_id, replay_id, from_status, to_status, reason, detail, resolved_as, entry_id)
    select case whose when '' then 'fis' else whose end,
           case when n.status = 'resolved' then 'resolve'
                when n.status = 'discarded' then 'discard'
                when n.status = 'replaying' then 'hold'
                when o.status = 'replaying' or n.replay_id is distinct from o.replay_id then 'fail'
                when o.status = 'parked' then 'again'
                -- Nobody signs where a letter comes again: the service parks it.
                when o.status = 'discarded' and whose <> '' then 'restore'
                else 'reopen' end,
           coalesce(nullif(current_setting('fis.why', true), ''), n.resolved_as, n.reason),
           coalesce(nullif(current_setting('fis.through', true), ''), 'service'),
           n.id, n.replay_id, o.status, n.status, n.reason, n.detail, n.resolved_as, n.entry_id
      from old_letters o
      join new_letters n using (id)
     where n.status <> o.status or n.reason <> o.reason or n.detail <> o.detail or n.replay_id is distinct from o.replay_id
     order by n.first_seen_at, n.id;
    return null;
end
$$;

create trigger fis_dead_letter_moves after update on fis_dead_letter
    referencing old table as old_letters new table as new_letters
    for each statement execute function fis_letter_moves();

create function fis_refuse_move() returns trigger
language plpgsql as $$
begin
    raise exception 'dead letter % cannot go from % to %', old.id, old.status, new.status using errcode = 'check_violation';
end
$$;

create trigger fis_dead_letter_astray after update of status on fis_dead_letter
    for each row when (old.status in ('resolved', 'discarded') and new.status not in (old.status, 'parked')
                       or old.status = 'replaying' and new.status = 'discarded')
    execute function fis_refuse_move();

create function fis_keep_open_letters() returns trigger
language plpgsql as $$
begin
    raise exception 'dead letter % is %: only resolved and discarded letters may be removed', old.id, old.status
        using errcode = 'restrict_violation';
end
$$;

create trigger fis_dead_letter_keep_open before delete on fis_dead_letter
    for each row when (old.status in ('parked', 'replaying')) execute function fis_keep_open_letters();
create trigger fis_dead_letter_keep before truncate on fis_dead_letter
    for each statement execute function fis_refuse_change();
