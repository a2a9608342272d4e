-- Moving a dead letter costs what its indexes cost: every move writes a new version of the row, and an entry into each index that
-- holds it. So no index says twice what another one says, and none holds letters that nobody looks for in it.

-- All letters of an event are found by fis_dead_letter_of_event; few have more than one, so that the open ones need no index.
drop index fis_dead_letter_event;

-- A resolved letter is not counted as a letter any more: its entry is.
drop index fis_dead_letter_received;
create index fis_dead_letter_received on fis_dead_letter (tenant_id, received_on)
    include (status, event_date, amount, currency)
    where status <> 'resolved';

-- Which letters of a replay failed again. How many are resolved follows from those that are still on their way.
drop index fis_operator_log_replay;
create index fis_operator_log_failed on fis_operator_log (replay_id)
    where from_status = 'replaying' and to_status = 'parked';

-- A posting that looks for letters it supersedes mostly finds none; then there is nothing to compare. (A replaced function forgets its
-- settings: enable_nestloop is that of migration 7.)
create or replace function fis_letter_moves() returns trigger
language plpgsql
set enable_nestloop = off
as $$
declare
    astray record;
    whose text := coalesce(current_setting('fis.by', true), '');
begin
    if not exists (select from new_letters) then
        return null;
    end if;
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
