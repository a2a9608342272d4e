//! A plan on paper: what an apply would change enters, lines for people leave.

use crate::desk::books::BooksChange;
use crate::domain::books::{Act, Change, Detail, Thing};

pub fn print(plan: &BooksChange) {
    if plan.changes.is_empty() {
        return;
    }
    match plan.version {
        None => println!("new books for {}:", plan.tenant_id),
        Some(version) => println!("changes to version {version} of the books of {}:", plan.tenant_id),
    }
    for change in &plan.changes {
        print_change(change);
    }
    let acts = [Act::Added, Act::Changed, Act::Closed, Act::Reopened, Act::Removed];
    let count = |act: Act| plan.changes.iter().filter(|change| change.act == act).count();
    let counts = acts.into_iter().map(|act| (count(act), act)).filter(|(count, _)| *count > 0);
    let counts: Vec<String> = counts.map(|(count, act)| format!("{count} {}", word(act))).collect();
    println!("{}", counts.join(", "));
}

/// What is new or gone takes one line, unless it is a rule; what changed takes one line per field.
fn print_change(change: &Change) {
    let Change { act, thing, name, details } = change;
    let (mark, title) = (mark(*act), title(*thing, name));
    match act {
        Act::Added | Act::Removed => {
            let value = |detail: &Detail| {
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
