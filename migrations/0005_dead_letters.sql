-- Dead letters at work: states that only move as they may, replays whose selection is frozen, edits beside the untouched
-- original, and a log of every move.
--
-- Invariants held here:
--   * a letter is resolved exactly when it says how (resolved_as), and settled_at is the moment at which it left the open ones
--   * a letter moves only along the roads of fis_letter_moves, and every move leaves a row in fis_operator_log: the trigger
--     writes it, so no statement can forget it. Who and why are the transaction's settings fis.by and fis.why; without
--     them it was the service itself
--   * an open letter cannot be deleted, by nobody; the log, the edits and the entries' edits are append-only
--   * a replay's selection (fis_replay_letter) never changes; whether a letter of it is sent is decided by the letter's own
--     state when its turn comes, so two replays of one letter send it once

-- What is left of a detail without what differs from event to event: values in quotes, and every word with a digit.
create function fis_fingerprint(detail text) returns text
language sql immutable strict parallel safe
return left(regexp_replace(regexp_replace(detail, '"[^"]*"|''[^'']*''', '"…"', 'g'),
                           '[A-Za-z0-9_.:/+-]*[0-9][A-Za-z0-9_.:/+-]*', '#', 'g'), 200);

create function fis_rule_of(detail text) returns text
language sql immutable strict parallel safe
return substring(detail from '^rule `([^`]*)`');

alter table fis_dead_letter
    add column payload_hash text,
    -- The last replay that sent it.
    add column replay_id    bigint,
    add column resolved_as  text check (resolved_as in ('posted', 'duplicate', 'ignored', 'superseded')),
    -- Where it was booked; null for what a rule ignores.
    add column entry_id     text,
    add column settled_at   timestamptz,
    add column rule_name    text generated always as (fis_rule_of(detail)) stored,
    add column fingerprint  text not null generated always as (fis_fingerprint(detail)) stored,
    add column group_id     text not null generated always as
        (left(md5(reason || ' ' || coalesce(fis_rule_of(detail), '') || ' ' || fis_fingerprint(detail)), 8)) stored,
    add constraint fis_dead_letter_resolved_how check ((status = 'resolved') = (resolved_as is not null)),
    add constraint fis_dead_letter_settled_when check ((status in ('resolved', 'discarded')) = (settled_at is not null));

-- Looking: everything that a filter asks for stands in the index, so that a million letters are searched without their bodies.
-- The index by reason goes: for a filter by reason and something else it would lead into the table, row by row.
drop index fis_dead_letter_open;
create index fis_dead_letter_look on fis_dead_letter (first_seen_at, id)
    include (status, tenant_id, reason, routing_key, amount, currency, group_id, detail)
    where status in ('parked', 'replaying');
create index fis_dead_letter_groups on fis_dead_letter (group_id, first_seen_at, id) where status in ('parked', 'replaying');
-- Posting: is there an open letter of this event?
create index fis_dead_letter_event on fis_dead_letter (tenant_id, event_id) where status in ('parked', 'replaying');
-- Replays: what is on its way.
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
    -- chosen: shown, not yet confirmed; open: confirmed; done: all sent; cancelled: given up before all was sent
    state        text        not null default 'chosen' check (state in ('chosen', 'open', 'done', 'cancelled')),
    created_at   timestamptz not null default now(),
    ended_at     timestamptz
);

create table fis_replay_letter (
    replay_id bigint  not null,
    n         bigint  not null check (n > 0),
    letter_id text    not null,
    -- What it said it was worth, so that a selection's money is told without reading the letters.
    currency  text,
    amount    numeric,
    -- The edited copy to send instead of the original.
    edit_no   integer,
    -- skipped: when its turn came the letter was not parked any more
    state     text    not null default 'waiting' check (state in ('waiting', 'sent', 'skipped')),
    primary key (replay_id, n)
);
create index fis_replay_letter_waiting on fis_replay_letter (replay_id, n) where state = 'waiting';

-- Edited copies. copy_id is the content id of the copy, as letters have one: whoever sees the message can tell whose copy it is,
-- and nothing that a publisher writes into a header can.
create table fis_dead_letter_edit (
    letter_id text        not null,
    edit_no   integer     not null check (edit_no > 0),
    copy_id   text        not null,
    body      bytea       not null,
    edited_by text        not null,
    why       text        not null,
    edited_at timestamptz not null default now(),
    primary key (letter_id, edit_no)
);
create index fis_dead_letter_edit_copy on fis_dead_letter_edit (copy_id);

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
    act         text        not null check (act in ('replay', 'release', 'resolve', 'fail', 'reopen', 'discard', 'edit', 'again', 'prune')),
    why         text        not null,
    letter_id   text,
    replay_id   bigint,
    from_status text,
    to_status   text,
    -- The letter's reason and detail after the move, or what was done.
    reason      text,
    detail      text        not null
);
create index fis_operator_log_letter on fis_operator_log (letter_id, id) where letter_id is not null;
create index fis_operator_log_replay on fis_operator_log (replay_id, to_status) where from_status = 'replaying';

create trigger fis_operator_log_append_only before update or delete or truncate on fis_operator_log
    for each statement execute function fis_refuse_change();
create trigger fis_dead_letter_edit_append_only before update or delete or truncate on fis_dead_letter_edit
    for each statement execute function fis_refuse_change();
create trigger fis_entry_edit_append_only before update or delete or truncate on fis_entry_edit
    for each statement execute function fis_refuse_change();

-- parked → replaying → resolved | parked; parked → resolved (superseded) | discarded; what comes again is parked again.
create function fis_letter_moves() returns trigger
language plpgsql as $$
declare
    astray record;
    whose text := coalesce(current_setting('fis.by', true), '');
begin
    select o.id, o.status as was, n.status as became
      into astray
      from old_letters o
      join new_letters n using (id)
     where (o.status in ('resolved', 'discarded') and n.status not in (o.status, 'parked'))
        or (o.status = 'replaying' and n.status = 'discarded')
     limit 1;
    if found then
        raise exception 'dead letter % cannot go from % to %', astray.id, astray.was, astray.became
            using errcode = 'check_violation';
    end if;
    insert into fis_operator_log (by, act, why, letter_id, replay_id, from_status, to_status, reason, detail)
    select case whose when '' then 'fis' else whose end,
           case when n.status = o.status then 'again'
                when n.status = 'replaying' then 'replay'
                when n.status = 'resolved' then 'resolve'
                when n.status = 'discarded' then 'discard'
                when o.status <> 'replaying' then 'reopen'
                when whose = '' then 'fail'
                else 'release' end,
           coalesce(nullif(current_setting('fis.why', true), ''), n.resolved_as, n.reason),
           n.id, n.replay_id, o.status, n.status, n.reason, n.detail
      from old_letters o
      join new_letters n using (id)
     where n.status <> o.status or n.reason <> o.reason
     order by n.first_seen_at, n.id;
    return null;
end
$$;

create trigger fis_dead_letter_moves after update on fis_dead_letter
    referencing old table as old_letters new table as new_letters
    for each statement execute function fis_letter_moves();

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
