-- The hand through which an act came, beside who did it and why.
--
-- Invariants held here:
--   * every line of the operators' log names the hand: the transaction's setting fis.through, without which it was the service itself

alter table fis_operator_log add column through text not null default 'service' check (through in ('cli', 'service'));
alter table fis_operator_log alter column through drop default;

-- (A replaced function forgets its settings: enable_nestloop is that of migration 7.)
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
    insert into fis_operator_log (by, act, why, through, letter_id, replay_id, from_status, to_status, reason, detail)
    select case whose when '' then 'fis' else whose end,
           case when n.status = o.status then 'again'
                when n.status = 'replaying' then 'replay'
                when n.status = 'resolved' then 'resolve'
                when n.status = 'discarded' then 'discard'
                when o.status <> 'replaying' then 'reopen'
                when whose = '' then 'fail'
                else 'release' end,
           coalesce(nullif(current_setting('fis.why', true), ''), n.resolved_as, n.reason),
           coalesce(nullif(current_setting('fis.through', true), ''), 'service'),
           n.id, n.replay_id, o.status, n.status, n.reason, n.detail
      from old_letters o
      join new_letters n using (id)
     where n.status <> o.status or n.reason <> o.reason
     order by n.first_seen_at, n.id;
    return null;
end
$$;
