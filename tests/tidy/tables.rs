//! Tables: where SQL is written, and one file that writes each table. Whoever reads that file knows every way in which a row
//! comes to be.

use std::collections::{BTreeMap, BTreeSet};

use crate::source::{Source, identifier, sources, words};
use crate::{bites, hold, one};

/// Where SQL is written: tables are known in the store; the pool only sets up its sessions.
const SQL_PLACES: &[&str] = &["platform/postgres", "store/"];

/// SQL that stands elsewhere for now, and why. Nothing may join it.
const SQL_EXCEPTIONS: &[(&str, &str)] = &[];

/// The sentence for the one posting statement.
const POSTING: &str = "the posting statement of store/journal/write.rs: a round trip more would be a pause of everybody who waits for the head";
/// The sentence for what is counted in the statement that decides it.
const COUNTING: &str = "a letter that is parked or removed is counted in the same statement, by what it has found";

/// Tables that several files write: all of them, and why. Nothing may join them.
const SEVERAL_WRITERS: &[(&str, &[&str], &str)] = &[
    ("fis_chain_head", &["store/heads.rs", "store/journal/write.rs"], POSTING),
    ("fis_outbox", &["store/journal/write.rs", "store/outbox.rs"], POSTING),
    ("fis_received", &["store/dead_letters/write.rs", "store/journal/write.rs", "store/received.rs"], COUNTING),
];

/// Folders of tools that write tables beside the product, and why.
const TOOLS: &[(&str, &str)] = &[];

fn sql_out_of_place(sources: &[Source]) -> Vec<String> {
    let writes_sql = |source: &Source| {
        ["sqlx::query", "sqlx::raw_sql", "QueryBuilder"].iter().any(|call| words(&source.code, call).next().is_some())
    };
    let excepted = |source: &Source| SQL_EXCEPTIONS.iter().any(|(place, _)| source.is_in(&[place]));
    sources
        .iter()
        .filter(|source| !source.is_in(SQL_PLACES) && !excepted(source) && writes_sql(source))
        .map(|source| format!("src/{}: SQL is written in {} alone", source.path, SQL_PLACES.join(", ")))
        .collect()
}

/// The tables that a file inserts into, updates or deletes from.
fn tables_written(source: &Source) -> BTreeSet<String> {
    let said = source.said.to_lowercase();
    let mut tables = BTreeSet::new();
    for act in ["insert", "update", "delete", "truncate", "merge"] {
        for at in words(&said, act) {
            let mut rest = said[at + act.len()..]
                .split_whitespace()
                .skip_while(|word| ["into", "from", "only", "table"].contains(word));
            let table = identifier(rest.next().unwrap_or_default());
            if table.starts_with("fis_") {
                tables.insert(table.to_owned());
            }
        }
    }
    tables
}

fn several_writers(sources: &[Source], known: &[(&str, &[&str], &str)], tools: &[(&str, &str)]) -> Vec<String> {
    let mut writers: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    let (mut complaints, mut needed) = (Vec::new(), BTreeSet::new());
    for source in sources.iter().filter(|source| !source.is_test()) {
        let tables = tables_written(source);
        match tools.iter().find(|(folder, _)| source.is_in(&[folder])) {
            Some((folder, _)) if !tables.is_empty() => _ = needed.insert(*folder),
            Some(_) => {}
            None => tables.into_iter().for_each(|table| writers.entry(table).or_default().push(&source.path)),
        }
    }
    for (table, files) in &writers {
        let listed = known.iter().find(|(name, _, _)| name == table).map_or(&[][..], |(_, files, _)| files);
        let strangers: Vec<&str> = files.iter().copied().filter(|file| !listed.contains(file)).collect();
        if files.len() > 1 && !strangers.is_empty() {
            let strangers = strangers.join(", ");
            complaints.push(format!("`{table}` is written by {strangers}: a table is written by one file"));
        }
    }
    for (table, listed, reason) in known {
        let now = writers.get(*table).map_or(&[][..], Vec::as_slice);
        for file in listed.iter().filter(|file| !now.contains(file)) {
            complaints
                .push(format!("src/{file} writes `{table}` no more ({reason}); take it off tidy's SEVERAL_WRITERS"));
        }
        if now.len() < 2 {
            complaints.push(format!("`{table}` has one writer; take it off tidy's SEVERAL_WRITERS"));
        }
    }
    for (folder, reason) in tools.iter().filter(|(folder, _)| !needed.contains(folder)) {
        complaints.push(format!("src/{folder} writes no table any more ({reason}); take it off tidy's TOOLS"));
    }
    complaints
}

#[test]
fn sql_is_written_where_the_tables_are_known() {
    hold(&sql_out_of_place(sources()));
}

#[test]
fn every_exception_for_sql_is_still_needed() {
    let sources = sources();
    for (place, reason) in SQL_EXCEPTIONS {
        let needed = sources.iter().any(|source| source.is_in(&[place]) && source.code.contains("sqlx::"));
        assert!(needed, "src/{place} writes no SQL any more ({reason}); take it off tidy's SQL_EXCEPTIONS");
    }
}

#[test]
fn the_sql_rule_bites() {
    bites(&sql_out_of_place(&one("pipeline.rs", "sqlx::query(\"select 1\")")), "pipeline.rs");
    bites(&sql_out_of_place(&one("cli/new.rs", "sqlx::query_as::<_, T>(\"select 1\")")), "cli/new.rs");
    hold(&sql_out_of_place(&one("store/heads.rs", "sqlx::query(\"select 1\")")));
    bites(&sql_out_of_place(&one("journal/held.rs", "sqlx::query(\"select 1\")")), "journal/held.rs");
}

#[test]
fn every_table_is_written_by_one_file() {
    hold(&several_writers(sources(), SEVERAL_WRITERS, TOOLS));
}

#[test]
fn the_tables_that_a_statement_writes_are_found() {
    let text = r#"sqlx::query("with x as (INSERT INTO fis_a (id) select 1), y as (update fis_b set z = 1)
                  delete
                    from fis_c using x where exists (select from fis_d for update)");
                  raw_sql("truncate fis_e"); // insert into fis_f"#;
    let tables = tables_written(&Source::new("journal/x.rs", text));
    assert_eq!(tables.into_iter().collect::<Vec<_>>(), ["fis_a", "fis_b", "fis_c", "fis_e"]);
}

#[test]
fn the_rule_of_one_writer_bites() {
    let file = |path: &str, sql: &str| Source::new(path, &format!("sqlx::query(\"{sql}\")"));
    let (a, b) = (file("journal/a.rs", "insert into fis_x values (1)"), file("outbox/b.rs", "delete from fis_x"));
    let two = [a, b];
    bites(&several_writers(&two, &[], &[]), "`fis_x` is written by journal/a.rs, outbox/b.rs");
    let listed = ["journal/a.rs", "outbox/b.rs"];
    hold(&several_writers(&two, &[("fis_x", &listed, "for now")], &[]));
    bites(&several_writers(&two, &[("fis_x", &listed[..1], "for now")], &[]), "written by outbox/b.rs");
    bites(&several_writers(&two[..1], &[("fis_x", &listed, "for now")], &[]), "outbox/b.rs writes `fis_x` no more");
    bites(&several_writers(&two[..1], &[("fis_x", &listed, "for now")], &[]), "has one writer");
    hold(&several_writers(&two, &[], &[("outbox/", "a tool")]));
    bites(&several_writers(&two[..1], &[], &[("outbox/", "a tool")]), "src/outbox/ writes no table");
    hold(&several_writers(
        &[file("journal/a.rs", "update fis_x set y = 1"), file("outbox/b.rs", "select from fis_x")],
        &[],
        &[],
    ));
}
