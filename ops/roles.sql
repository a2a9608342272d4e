-- The roles of fis in PostgreSQL. A superuser runs it in the database of fis before `fis migrate`, and again whenever he likes:
--
--     psql --dbname=fis --file=ops/roles.sql
--     psql --dbname=fis --command='\password fis_owner' --command='\password fis_service'
--
-- | role          | for                                   | may                                                            |
-- |---------------|---------------------------------------|----------------------------------------------------------------|
-- | `fis_owner`   | `fis migrate`, and nothing else       | everything with the tables of fis: they are its own            |
-- | `fis_service` | `fis run` and every command but that  | add to the journal, never alter it; work with everything else  |
-- | `fis_console` | a person who mends dead letters       | read all; replay, edit and discard letters; book nothing       |
-- | `fis_reader`  | reports, auditors, `fis verify`       | read all                                                       |
--
-- What a role may do with each table stands in src/store/rights.sql; `fis migrate` grants it after the migrations, every time. None of
-- them is a superuser, and none but the owner can alter a table or switch one of its triggers off. They have no password yet, so that nobody
-- logs in by one that stands in a file. A person or a machine of its own gets a role of its own: `create role anna login in role fis_console`;
-- `fis_operator_log` and `fis_books` then name it, in the column `login`, beside whoever the command says it was.

do $$
declare
    name  text;
    thing record;
begin
    foreach name in array array['fis_owner', 'fis_service', 'fis_console', 'fis_reader'] loop
        if not exists (select from pg_roles where rolname = name) then
            execute format('create role %I login', name);
        end if;
        execute format('grant connect on database %I to %I', current_database(), name);
        execute format('grant usage on schema public to %I', name);
    end loop;
    -- Nobody else has any business here: neither an object beside ours, nor a schema that would be searched before it.
    execute format('revoke create, temporary on database %I from public', current_database());
    revoke create on schema public from public;
    grant create on schema public to fis_owner;
    -- A database that another role has migrated is handed over.
    for thing in
        select case c.relkind when 'v' then 'view' else 'table' end as kind, c.oid::regclass::text as name
          from pg_class c
         where c.relnamespace = 'public'::regnamespace and c.relkind in ('r', 'v')
           and (c.relname like 'fis\_%' or c.relname = '_sqlx_migrations') and c.relowner <> 'fis_owner'::regrole
        union all
        select 'function', p.oid::regprocedure::text
          from pg_proc p
         where p.pronamespace = 'public'::regnamespace and p.proname like 'fis\_%' and p.proowner <> 'fis_owner'::regrole
    loop
        execute format('alter %s %s owner to fis_owner', thing.kind, thing.name);
    end loop;
end
$$;
