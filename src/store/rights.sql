-- What the roles of ops/roles.sql may do with each table. `fis migrate` runs it after the migrations, as the tables' owner; where a role does
-- not exist, nothing is granted to it. A table of fis that is not named here is readable to all of them, and written by none.
--
-- The journal, the books and the records of who did what take new rows and no changes: not even their triggers have to refuse one.
do $$
declare
    grantee text;
    thing   record;
begin
    foreach grantee in array array['fis_service', 'fis_console', 'fis_reader'] loop
        continue when not exists (select from pg_roles where rolname = grantee);
        for thing in
            select c.oid::regclass::text as name,
                   case grantee when 'fis_service' then rights.service when 'fis_console' then rights.console end as may
              from pg_class c
              left join (values
                       ('fis_journal_entry',    'insert',                 null),
                       ('fis_journal_line',     'insert',                 null),
                       ('fis_books',            'insert',                 null),
                       ('fis_operator_log',     'insert',                 'insert'),
                       ('fis_log_block',        'insert',                 null),
                       ('fis_dead_letter_edit', 'insert',                 'insert'),
                       ('fis_entry_edit',       'insert',                 null),
                       ('fis_chain_head',       'insert, update',         null),
                       ('fis_account_balance',  'insert, update',         null),
                       ('fis_received',         'insert, update',         null),
                       ('fis_batch',            'insert, update',         null),
                       ('fis_batch_member',     'insert, update',         null),
                       ('fis_mirror',           'insert',                 null),
                       ('fis_mirror_cursor',    'insert, update',         null),
                       ('fis_lease',            'insert, update, delete', null),
                       ('fis_instance',         'insert, update, delete', null),
                       ('fis_ledger',           null,                     null),
                       ('fis_outbox',           'insert, delete',         null),
                       ('fis_held',             'insert, update, delete', null),
                       ('fis_dead_letter',      'insert, update, delete', 'update'),
                       ('fis_ignored',          'insert, update, delete', null),
                       ('fis_replay',           'insert, update',         'insert, update'),
                       ('fis_replay_letter',    'insert, delete',         'insert, delete')
                   ) as rights (name, service, console) on rights.name = c.relname
             where c.relnamespace = 'public'::regnamespace and c.relkind in ('r', 'v')
               and (c.relname like 'fis\_%' or c.relname = '_sqlx_migrations')
        loop
            execute format('revoke all on %s from %I', thing.name, grantee);
            -- The secret of the ledger is the service's alone: whoever has it can make Redis deny that an event is new.
            execute format('grant %s on %s to %I',
                           case when thing.name = 'fis_ledger' and grantee <> 'fis_service' then 'select (one, id)'
                                else concat_ws(', ', 'select', thing.may) end,
                           thing.name, grantee);
        end loop;
    end loop;
end
$$;
