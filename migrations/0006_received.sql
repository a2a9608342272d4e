-- What was received, counted when it was decided: the control totals that `fis tie-out` compares with the rows. And the date
-- of an event that is not in the books, so that closing a period can tell whose money is missing.
--
-- Invariants held here:
--   * for every tenant and day of receipt: the events and the money of `posted` are those of the entries with that received_on,
--     of `held` those of fis_held, of `parked` those of the letters that are open or discarded. `duplicate`, `ignored` and
--     `discarded` (letters that retention has removed) leave no row and stand here alone
--   * an event is counted once per message, on the tenant's day on which the message came; where it moves (held and then
--     posted, parked and then posted), row and count move together, in one transaction, and keep that day
--   * nothing but a row's absence or change can make a difference: no statement reads these totals to write rows
-- received_on is null for what came before this migration, for what names no tenant, and for what an operator posted by hand: none
-- of it is counted. A held event that is a dead letter's replay has none either, the letter stands for it.

create table fis_received (
    tenant_id   text    not null,
    received_on date    not null,
    outcome     text    not null check (outcome in ('posted', 'duplicate', 'ignored', 'held', 'parked', 'discarded')),
    -- Empty: no money, or none that could be read.
    currency    text    not null,
    -- An event with money in several currencies is counted beside the first.
    events      bigint  not null,
    amount      numeric not null,
    primary key (tenant_id, received_on, outcome, currency)
) with (fillfactor = 50);

alter table fis_journal_entry add column received_on date;
-- Entries are appended by the day, so a summary of each stretch of the table finds a day, and costs a posting nothing. The
-- late ones among them (events that had been held or parked) would spoil a plain minimum and maximum.
create index fis_journal_entry_received on fis_journal_entry using brin (received_on date_minmax_multi_ops);

alter table fis_held
    add column received_on date,
    add column event_date  date,
    add column amount      numeric,
    add column currency    text;
update fis_held set event_date = (first_held_at at time zone 'UTC')::date;

-- event_date: the rule's date or occurredAt where it can be read, else the day of receipt.
-- deliveries: how often the broker had delivered the message before when it was last rejected. One that comes with a greater count
-- was rejected, and not yet settled when its session ended: it is the same rejection, and told already.
alter table fis_dead_letter
    add column received_on date,
    add column event_date  date,
    add column deliveries  bigint not null default 0;
update fis_dead_letter
   set event_date = (first_seen_at at time zone 'UTC')::date
 where status in ('parked', 'replaying');

create index fis_dead_letter_received on fis_dead_letter (tenant_id, received_on)
    include (status, event_date, amount, currency);
