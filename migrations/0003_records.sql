-- What a held event waits for, and how far a publisher's batch is.
--
-- Invariants held here:
--   * fis_held.due_at is the due time of its waiting row in fis_outbox, so that (due_at, outbox_id) finds the row by the
--     index of waiting rows; a release moves both in one statement
--   * a member is counted once, in the counter that its outcome names: posted + rejected + ignored = count of members
--   * a posted member stays posted; completed_at is set once and stays
-- All of it changes under the lock of the tenant's head alone.

-- event:ID, rate:FROM,…/TO@DATE, period:DATE[,DATE]; null: nobody knows, it comes back when it is due.
alter table fis_held
    add column waits_for text,
    add column outbox_id bigint;

create index fis_held_cause on fis_held (tenant_id, waits_for);

-- Events that are held already: their cause stands in the detail; their row is the only one with their due time, or is
-- not linked.
update fis_held
   set waits_for = case reason
           when 'original_not_posted'
               then 'event:' || substring(detail from '^event `(.*)`, which this one reverses, is not posted$')
           when 'fx_rate_missing'
               then regexp_replace(substring(detail from '^no rate from [A-Z]{3} to [A-Z]{3} on \d{4}-\d\d-\d\d$'),
                                   '^no rate from (...) to (...) on (.*)$', 'rate:\1/\2@\3')
           when 'period_not_open' then 'period:' || substring(detail from '^\d{4}-\d\d-\d\d')
       end;
update fis_held h
   set outbox_id = o.id
  from (select tenant_id, due_at, min(id) as id
          from fis_outbox
         where due_at is not null
         group by tenant_id, due_at
        having count(*) = 1) o
 where o.tenant_id = h.tenant_id and o.due_at = h.due_at
   and not exists (select from fis_held twin
                    where twin.tenant_id = h.tenant_id and twin.due_at = h.due_at and twin.event_id <> h.event_id);

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

-- A receipt asks what became of one event.
create index fis_dead_letter_of_event on fis_dead_letter (tenant_id, event_id);
