//! A plan on paper: what an apply would change enters, lines for people or JSON for scripts leave.

use serde_json::json;

use crate::domain::books::{Act, Change, Thing};
use crate::journal::books::Outlook;

pub fn print(outlook: &Outlook) {
    if outlook.plan.is_empty() {
        return;
    }
    match outlook.version {
        None => println!("new books for {}:", outlook.tenant_id),
        Some(version) => println!("changes to version {version} of the books of {}:", outlook.tenant_id),
    }
    for change in &outlook.plan.changes {
        print_change(change);
    }
    let acts = [Act::Added, Act::Changed, Act::Closed, Act::Reopened, Act::Removed];
    let counts = acts.into_iter().map(|act| (outlook.plan.count(act), act)).filter(|(count, _)| *count > 0);
    let counts: Vec<String> = counts.map(|(count, act)| format!("{count} {}", word(act))).collect();
    println!("{}", counts.join(", "));
}

/// What is new or gone takes one line, unless it is a rule; what changed takes one line per field.
fn print_change(change: &Change) {
    let Change { act, thing, name, details } = change;
    let (mark, title) = (mark(*act), title(*thing, name));
    match act {
        Act::Added | Act::Removed => {
            let value = |detail: &crate::domain::books::Detail| {
                let value = detail.new.as_deref().or(detail.old.as_deref()).unwrap_or_default();
                format!("{} {}", detail.field, quoted(value))
            };
            let values: Vec<String> = details.iter().map(value).collect();
            if *act == Act::Added && matches!(thing, Thing::Rule | Thing::Settings) {
                println!("  {mark} {title}");
                for value in values {
                    println!("      {value}");
                }
            } else {
                println!("  {mark} {title}: {}", values.join(", "));
            }
        }
        Act::Changed | Act::Closed | Act::Reopened => {
            let word = if *act == Act::Changed { String::new() } else { format!(": {}", word(*act)) };
            println!("  {mark} {title}{word}");
            for detail in details {
                let side = |value: &Option<String>| value.as_deref().map_or("nothing".to_owned(), quoted);
                println!("      {} {} → {}", detail.field, side(&detail.old), side(&detail.new));
            }
        }
    }
}

/// A value with nothing in it must still be seen.
fn quoted(value: &str) -> String {
    format!("`{value}`")
}

fn title(thing: Thing, name: &str) -> String {
    match thing {
        Thing::Settings => "settings".to_owned(),
        Thing::Account => format!("account `{name}`"),
        Thing::Period => format!("period `{name}`"),
        Thing::Rate => format!("rate {name}"),
        Thing::Rule => format!("rule `{name}`"),
    }
}

fn mark(act: Act) -> char {
    match act {
        Act::Added => '+',
        Act::Changed | Act::Reopened => '~',
        Act::Closed => 'x',
        Act::Removed => '-',
    }
}

fn word(act: Act) -> &'static str {
    match act {
        Act::Added => "added",
        Act::Changed => "changed",
        Act::Closed => "closed",
        Act::Reopened => "reopened",
        Act::Removed => "removed",
    }
}

/// The plan, and whether it was applied; `version` is the one in force now.
pub fn print_json(outlook: &Outlook, applied: bool, released: u64) -> anyhow::Result<()> {
    crate::cli::print_json(&json!({
        "tenantId": outlook.tenant_id.as_str(),
        "version": outlook.version,
        "applied": applied,
        "released": released,
        "changes": outlook.plan.changes,
    }))
}
