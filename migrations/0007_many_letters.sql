-- Moving many dead letters at once. No table changes.
--
-- The log of moves joins the letters of a statement as they were with what they became. PostgreSQL plans that once a session, by the
-- number of letters in the first statement: after a single letter it would compare each with each for ever after, a
-- quarter of a million comparisons for a batch of five hundred.

alter function fis_letter_moves() set enable_nestloop = off;
