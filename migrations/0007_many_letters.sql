-- Moving many dead letters at once.
--
-- The log of moves joins the letters of a statement as they were with what they became. PostgreSQL plans that once a session, by the
-- number of letters in the first statement: after a single letter it would compare each with each for ever after, a
-- quarter of a million comparisons for a batch of five hundred.
alter function fis_letter_moves() set enable_nestloop = off;

-- A replay puts tens of thousands of rows into the outbox that are due at once; the relay reads and removes them by id, and without
-- an index of ids would walk through all of them for every part.
create unique index fis_outbox_waiting_id on fis_outbox (id) where due_at is not null;
