//! What a check found, and how it is told.
//!
//! Enters: findings. Leaves: text for people (`--json` serialises the findings themselves). What must never
//! happen: a remedy that has to be pieced together; a command stands alone on its line, ready to copy.

use std::fmt;

use serde::Serialize;

/// The severity of a difference. Ordered: the worst first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// Messages can be lost: `fis run` must not start.
    Lossy,
    /// Could not be seen with what was at hand.
    Unverified,
    /// Not as written, but nothing can be lost by it.
    Differs,
}

/// One object that is not, or not provably, as the definitions say. Fields hold one fact per line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    pub object: String,
    pub expected: String,
    pub found: String,
    pub remedy: String,
    pub severity: Severity,
}

/// True where `fis run` must not start.
pub fn is_lossy(findings: &[Finding]) -> bool {
    findings.iter().any(|finding| finding.severity == Severity::Lossy)
}

/// All findings as text, the worst first; a single line where there are none.
pub fn report(findings: &[Finding]) -> String {
    if findings.is_empty() {
        return "the broker's topology is as defined\n".to_owned();
    }
    let mut sorted: Vec<&Finding> = findings.iter().collect();
    sorted.sort_by_key(|finding| finding.severity);
    let blocks: Vec<String> = sorted.into_iter().map(block).collect();
    blocks.join("\n")
}

fn block(finding: &Finding) -> String {
    let rows = [
        ("object", format!("{} ({})", finding.object, finding.severity)),
        ("expected", finding.expected.clone()),
        ("found", finding.found.clone()),
        ("remedy", finding.remedy.clone()),
    ];
    let mut text = String::new();
    for (label, value) in rows {
        let mut label = label;
        for line in value.lines() {
            text.push_str(&format!("{label:<10}{line}\n"));
            // Further lines of one field stand under the first one.
            label = "";
        }
    }
    text
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Lossy => "can lose messages",
            Self::Unverified => "not verified",
            Self::Differs => "differs, harmless",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finding(object: &str, severity: Severity) -> Finding {
        Finding {
            object: object.to_owned(),
            expected: "a = 1\nb = 2".to_owned(),
            found: "none".to_owned(),
            remedy: "fis topology apply".to_owned(),
            severity,
        }
    }

    #[test]
    fn the_report_is_aligned_and_starts_with_the_worst() {
        let findings = [finding("queue b", Severity::Differs), finding("queue a", Severity::Lossy)];
        let expected = "\
object    queue a (can lose messages)
expected  a = 1
          b = 2
found     none
remedy    fis topology apply

object    queue b (differs, harmless)
expected  a = 1
          b = 2
found     none
remedy    fis topology apply
";
        assert_eq!(report(&findings), expected);
        assert!(is_lossy(&findings));
    }

    #[test]
    fn a_clean_check_says_so() {
        assert_eq!(report(&[]), "the broker's topology is as defined\n");
        assert!(!is_lossy(&[]));
    }
}
