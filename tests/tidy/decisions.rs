//! Decisions: every ADR stands in the index, with the title and the status that its own text says.

use crate::source::{files_below, project};
use crate::{bites, hold};

/// The row that the index must have for an ADR, or what its text lacks.
fn row(file: &str, text: &str) -> Result<String, String> {
    let mut lines = text.lines();
    let title = lines.next().and_then(|line| line.strip_prefix("# ")).and_then(|line| line.split_once(". "));
    let Some((number, title)) = title.filter(|(number, _)| file.starts_with(&format!("{number:0>4}-"))) else {
        return Err(format!("docs/adr/{file}: begins with `# N. Title`, where N is the number of the file"));
    };
    let Some((_, status)) = lines.nth(1).and_then(|line| line.split_once(" · ")) else {
        return Err(format!("docs/adr/{file}: the third line is `date · status`"));
    };
    let superseded = status.split(" · ").find_map(|part| part.strip_prefix("superseded by "));
    let status = if superseded.is_some() { "superseded".to_owned() } else { status.replace(" · ", ", ") };
    Ok(format!("| {number} | [{title}]({file}) | {status} | {} |", superseded.unwrap_or("–")))
}

/// Rows that the index lacks, and rows that no ADR asks for.
fn index_faults(index: &str, decisions: &[(String, String)]) -> Vec<String> {
    let (mut complaints, mut rows) = (Vec::new(), Vec::new());
    for (file, text) in decisions {
        match row(file, text) {
            Ok(row) => rows.push(row),
            Err(complaint) => complaints.push(complaint),
        }
    }
    let listed: Vec<&str> = index.lines().filter(|line| line.contains(".md) |")).collect();
    let missing = rows.iter().filter(|row| !listed.contains(&row.as_str()));
    complaints.extend(missing.map(|row| format!("docs/adr/README.md lacks the row\n    {row}")));
    let strange = listed.iter().filter(|line| !rows.iter().any(|row| row == *line));
    complaints.extend(strange.map(|line| format!("docs/adr/README.md has a row that no ADR asks for\n    {line}")));
    complaints
}

#[test]
fn every_decision_stands_in_the_index_with_its_status() {
    let mut decisions = Vec::new();
    for path in files_below(&project().join("docs/adr"), "md") {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if name != "README.md" {
            decisions.push((name, std::fs::read_to_string(path).unwrap()));
        }
    }
    assert!(decisions.len() > 20, "the decisions are not where they are looked for");
    hold(&index_faults(&std::fs::read_to_string(project().join("docs/adr/README.md")).unwrap(), &decisions));
}

#[test]
fn the_rule_of_the_index_bites() {
    let decision =
        |status: &str| [("0006-a.md".to_owned(), format!("# 6. A reader\n\n2026-11-16 · {status}\n\n**Context."))];
    let accepted = "| 6 | [A reader](0006-a.md) | accepted | – |\n";
    hold(&index_faults(accepted, &decision("accepted")));
    hold(&index_faults("| 6 | [A reader](0006-a.md) | superseded | 28 |", &decision("superseded by 28")));
    hold(&index_faults("| 6 | [A reader](0006-a.md) | accepted, adds to 2 | – |", &decision("accepted · adds to 2")));
    bites(&index_faults("", &decision("accepted")), "lacks the row\n    | 6 | [A reader](0006-a.md) | accepted");
    bites(&index_faults(accepted, &decision("superseded by 28")), "| superseded | 28 |");
    bites(&index_faults(accepted, &[]), "no ADR asks for");
    let wrong = |text: &str| index_faults("", &[("0006-a.md".to_owned(), text.to_owned())]);
    bites(&wrong("# 7. A reader\n\n2026-11-16 · accepted\n"), "where N is the number");
    bites(&wrong("# 6. A reader\n\n**Context.** No status.\n"), "`date · status`");
}
