-- The proof of the operators' log, and by it of the letters: the log tells the whole life of a letter, and is chained in blocks.
--
-- Invariants held here:
--   * a letter has a row when it is parked, with the hash of what never changes in it, and one when retention removes it; the moves in between
--     are those of fis_letter_moves. So the newest row of a letter that names a state says what the letter is: its state, its reason, its entry
--   * an edited copy has a row with its hash, and a row says which entry was booked from it
--   * a block is made of the rows behind the block before it, in id order, all of them: whoever writes to the log holds PostgreSQL's lock on the table
--     from before it draws an id until its end, and a block is made of ids that nobody can still fill
--   * blocks are numbered without a gap, each has the hash of the one before it, and they are append-only
-- Nobody who writes to the log waits for a block: they are made behind it, by whoever comes first.

create table fis_log_block (
    no            bigint      primary key check (no > 0),
    first_id      bigint      not null check (first_id > 0),
    last_id       bigint      not null check (last_id >= first_id),
    rows          bigint      not null check (rows > 0),
    previous_hash text        not null check (length(previous_hash) = 64),
    hash          text        not null check (length(hash) = 64),
    sealed_at     timestamptz not null
);

create trigger fis_log_block_append_only before update or delete or truncate on fis_log_block
    for each statement execute function fis_refuse_change();

-- The forms of docs/hash-chain.md, "Letters". A letter's hash covers all that no statement of fis changes after it was parked.
create function fis_letter_parks() returns trigger
language plpgsql as $$
begin
    insert into fis_operator_log (by, act, why, through, letter_id, replay_id, to_status, reason, detail, resolved_as, entry_id, content)
    select coalesce(nullif(current_setting('fis.by', true), ''), 'fis'), 'park', n.reason,
           coalesce(nullif(current_setting('fis.through', true), ''), 'service'),
           n.id, n.replay_id, n.status, n.reason, n.detail, n.resolved_as, n.entry_id,
           encode(sha256(convert_to(
               fis_netstring('fis-letter-v1') || fis_netstring(n.id) || fis_netstring(coalesce(n.tenant_id, ''))
               || fis_netstring(coalesce(n.event_id, '')) || fis_netstring(coalesce(n.event_type, ''))
               || fis_netstring(n.routing_key) || fis_netstring(n.lane)
               || fis_netstring(coalesce(trim_scale(n.amount)::text, '')) || fis_netstring(coalesce(n.currency, ''))
               || fis_netstring(coalesce(n.message_id, '')) || fis_netstring(coalesce(n.correlation_id, ''))
               || fis_netstring(coalesce(n.payload_hash, ''))
               || fis_netstring(to_char(n.first_seen_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'))
               || fis_netstring(n.properties) || fis_netstring(encode(sha256(n.body), 'hex')), 'UTF8')), 'hex')
      from new_letters n
     order by n.id;
    return null;
end
$$;

create function fis_letter_leaves() returns trigger
language plpgsql as $$
begin
    insert into fis_operator_log (by, act, why, through, letter_id, replay_id, from_status, reason, detail, resolved_as, entry_id)
    select coalesce(nullif(current_setting('fis.by', true), ''), 'fis'), 'prune',
           coalesce(current_setting('fis.why', true), ''),
           coalesce(nullif(current_setting('fis.through', true), ''), 'service'),
           o.id, o.replay_id, o.status, o.reason, o.detail, o.resolved_as, o.entry_id
      from old_letters o
     order by o.id;
    return null;
end
$$;

create function fis_copy_kept() returns trigger
language plpgsql as $$
begin
    insert into fis_operator_log (by, act, why, through, letter_id, detail, content)
    select n.edited_by, 'edit', n.why, coalesce(nullif(current_setting('fis.through', true), ''), 'service'),
           n.letter_id, 'edit ' || n.edit_no,
           encode(sha256(convert_to(
               fis_netstring('fis-edit-v1') || fis_netstring(n.letter_id) || fis_netstring(n.edit_no::text)
               || fis_netstring(n.edited_by) || fis_netstring(n.why)
               || fis_netstring(to_char(n.edited_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'))
               || fis_netstring(encode(sha256(n.body), 'hex')), 'UTF8')), 'hex')
      from new_copies n
     order by n.letter_id, n.edit_no;
    return null;
end
$$;

-- Whoever resolves letters asks for their edits in the same statement, and mostly there are none.
create function fis_copy_booked() returns trigger
language plpgsql as $$
begin
    if not exists (select from new_copies) then
        return null;
    end if;
    insert into fis_operator_log (by, act, why, through, letter_id, entry_id, detail)
    select coalesce(nullif(current_setting('fis.by', true), ''), 'fis'), 'book', n.why,
           coalesce(nullif(current_setting('fis.through', true), ''), 'service'),
           n.letter_id, n.entry_id, 'edit ' || n.edit_no
      from new_copies n
     order by n.letter_id, n.edit_no;
    return null;
end
$$;

create trigger fis_dead_letter_parks after insert on fis_dead_letter
    referencing new table as new_letters
    for each statement execute function fis_letter_parks();
create trigger fis_dead_letter_leaves after delete on fis_dead_letter
    referencing old table as old_letters
    for each statement execute function fis_letter_leaves();
create trigger fis_dead_letter_edit_kept after insert on fis_dead_letter_edit
    referencing new table as new_copies
    for each statement execute function fis_copy_kept();
create trigger fis_entry_edit_booked after insert on fis_entry_edit
    referencing new table as new_copies
    for each statement execute function fis_copy_booked();
