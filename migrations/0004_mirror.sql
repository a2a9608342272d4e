-- How far the journal has been published to a second exchange, while readers of the feed move there.
--
-- Invariants held here:
--   * every entry of a tenant from the mirror's beginning up to seq was confirmed by the broker, on that exchange
--   * a cursor only moves forward
--   * a tenant without a cursor is one that the mirror's beginning did not see: all of its entries are mirrored
-- To begin a mirror anew at the heads of its day: delete its row from fis_mirror; the cursors go with it.

create table fis_mirror (
    exchange text        primary key,
    began_at timestamptz not null default now()
);

create table fis_mirror_cursor (
    exchange  text   not null references fis_mirror on delete cascade,
    tenant_id text   not null,
    seq       bigint not null check (seq >= 0),
    primary key (exchange, tenant_id)
) with (fillfactor = 50);
