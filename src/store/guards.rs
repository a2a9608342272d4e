//! The guards of the tables: constraints, unique indexes, triggers and their functions, as the migrations make them (`guards.txt`), compared with those of a
//! database; and whether the role of a session could do without them. What must never happen: a guard that is gone or off is passed over in
//! silence.

use std::collections::{BTreeMap, BTreeSet};

use sqlx::PgPool;

/// A line for each guard, as [`lines`] reads them from a database that was just migrated. `UPDATE_GUARDS=1 cargo test --test flow guards` writes
/// it anew.
pub const EXPECTED: &str = include_str!("guards.txt");

/// The guards of a database, a line for each, in order.
///
/// # Errors
/// The database is away.
pub async fn lines(pool: &PgPool) -> Result<Vec<String>, sqlx::Error> {
    sqlx::query_scalar(
        r#"with tables as (
             select oid, relname from pg_class
              where relnamespace = 'public'::regnamespace and relkind = 'r' and relname like 'fis\_%'
         )
         select guard from (
             select format('constraint %s on %s: %s', c.conname, t.relname, pg_get_constraintdef(c.oid)) as guard
               from pg_constraint c join tables t on t.oid = c.conrelid
              where c.contype in ('c', 'f', 'p', 'u')
             union all
             select format('index %s on %s: %s%s', i.indexrelid::regclass, t.relname, pg_get_indexdef(i.indexrelid),
                           case when i.indisvalid then '' else ' INVALID' end)
               from pg_index i join tables t on t.oid = i.indrelid
              where i.indisunique and not exists (select from pg_constraint c where c.conindid = i.indexrelid)
             union all
             select format('trigger %s on %s: %s%s', g.tgname, t.relname, pg_get_triggerdef(g.oid),
                           case when g.tgenabled in ('O', 'A') then '' else ' DISABLED' end)
               from pg_trigger g join tables t on t.oid = g.tgrelid
              where not g.tgisinternal
             union all
             select format('function %s: %s', p.proname, md5(p.prosrc))
               from pg_proc p
              where p.pronamespace = 'public'::regnamespace and p.proname like 'fis\_%' and p.prorettype = 'trigger'::regtype
         ) guards
         order by guard collate "C""#,
    )
    .fetch_all(pool)
    .await
}

/// The guards that a database should have and has not, or not as they should be. What somebody has added is left alone.
///
/// # Errors
/// The database is away.
pub async fn faults(pool: &PgPool) -> Result<Vec<String>, sqlx::Error> {
    Ok(compare(EXPECTED, &lines(pool).await?))
}

fn compare(expected: &str, found: &[String]) -> Vec<String> {
    let whole: BTreeSet<&str> = found.iter().map(String::as_str).collect();
    let by_name: BTreeMap<&str, &str> = found.iter().filter_map(|line| line.split_once(": ")).collect();
    let broken = expected.lines().filter(|line| !whole.contains(line)).filter_map(|line| line.split_once(": "));
    broken
        .map(|(name, _)| match by_name.get(name) {
            None => format!("{name} is missing"),
            Some(text) if text.ends_with(" DISABLED") => format!("{name} is switched off"),
            Some(_) => format!("{name} is not as the migrations made it"),
        })
        .collect()
}

/// Tells whether the role of this session could alter the journal: as a superuser, as its owner, or by a right to.
///
/// # Errors
/// The database is away.
pub async fn may_alter_journal(pool: &PgPool) -> Result<bool, sqlx::Error> {
    sqlx::query_scalar(
        "select exists (
             select from pg_class t
              where t.relnamespace = 'public'::regnamespace and t.relname in ('fis_journal_entry', 'fis_journal_line')
                and (pg_has_role(t.relowner, 'member') or has_table_privilege(t.oid, 'update, delete, truncate'))
         )",
    )
    .fetch_one(pool)
    .await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guard_that_is_gone_off_or_altered_is_told_and_one_that_was_added_is_not() {
        let expected = "constraint a on t: CHECK (x)\ntrigger b on t: B\ntrigger c on t: C\n";
        let lines = |text: &str| text.lines().map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(compare(expected, &lines(&format!("{expected}trigger d on t: D"))), Vec::<String>::new());
        let found = lines("constraint a on t: CHECK (true)\ntrigger b on t: B DISABLED");
        let told = [
            "constraint a on t is not as the migrations made it",
            "trigger b on t is switched off",
            "trigger c on t is missing",
        ];
        assert_eq!(compare(expected, &found), told);
    }
}
