//! The difference between two bodies, line by line, as both are laid out for a person. Two bodies enter, marked lines leave.

use crate::domain::json;

/// Beyond so many differing lines only their number is told; the comparison takes the square of it.
const LINES_MAX: usize = 1_000;

/// The side on which a line stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mark {
    Same,
    Old,
    New,
}

/// The lines from the first that differs to the last.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Difference {
    Lines(Vec<(Mark, String)>),
    /// Too many to compare.
    Many {
        old: usize,
        new: usize,
    },
}

pub(super) fn difference(before: &[u8], after: &[u8]) -> Difference {
    let (before, after) = (text(before), text(after));
    let (old, new): (Vec<&str>, Vec<&str>) = (before.lines().collect(), after.lines().collect());
    let same_head = old.iter().zip(&new).take_while(|(a, b)| a == b).count();
    let (old, new) = (old.get(same_head..).unwrap_or_default(), new.get(same_head..).unwrap_or_default());
    let same_tail = old.iter().rev().zip(new.iter().rev()).take_while(|(a, b)| a == b).count();
    let old = old.get(..old.len() - same_tail).unwrap_or_default();
    let new = new.get(..new.len() - same_tail).unwrap_or_default();
    if old.len().max(new.len()) > LINES_MAX {
        return Difference::Many { old: old.len(), new: new.len() };
    }
    Difference::Lines(changes(old, new).into_iter().map(|(mark, line)| (mark, line.to_owned())).collect())
}

fn text(body: &[u8]) -> String {
    match std::str::from_utf8(body) {
        Ok(text) if json::parse(text).is_ok() => json::laid_out(text),
        _ => String::from_utf8_lossy(body).into_owned(),
    }
}

/// The longest common lines stay; what is only in one of them is marked.
fn changes<'a>(old: &[&'a str], new: &[&'a str]) -> Vec<(Mark, &'a str)> {
    let width = new.len() + 1;
    let mut common = vec![0u32; (old.len() + 1) * width];
    let at = |common: &[u32], i: usize, j: usize| common.get(i * width + j).copied().unwrap_or(0);
    for (i, a) in old.iter().enumerate().rev() {
        for (j, b) in new.iter().enumerate().rev() {
            let longest =
                if a == b { at(&common, i + 1, j + 1) + 1 } else { at(&common, i + 1, j).max(at(&common, i, j + 1)) };
            if let Some(cell) = common.get_mut(i * width + j) {
                *cell = longest;
            }
        }
    }
    let (mut i, mut j, mut changes) = (0, 0, Vec::new());
    loop {
        match (old.get(i), new.get(j)) {
            (Some(a), Some(b)) if a == b => {
                changes.push((Mark::Same, *a));
                (i, j) = (i + 1, j + 1);
            }
            (Some(a), b) if b.is_none() || at(&common, i + 1, j) >= at(&common, i, j + 1) => {
                changes.push((Mark::Old, *a));
                i += 1;
            }
            (_, Some(b)) => {
                changes.push((Mark::New, *b));
                j += 1;
            }
            (_, None) => return changes,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_differs_is_marked() {
        let (before, after) = (br#"{"a":1,"b":2,"c":3}"#, br#"{"a":1,"b":5,"c":3,"d":4}"#);
        let line = |mark, line: &str| (mark, format!("  {line}"));
        let expected = [
            line(Mark::Old, "\"b\": 2,"),
            line(Mark::Old, "\"c\": 3"),
            line(Mark::New, "\"b\": 5,"),
            line(Mark::New, "\"c\": 3,"),
            line(Mark::New, "\"d\": 4"),
        ];
        assert_eq!(difference(before, after), Difference::Lines(expected.into()));
        assert_eq!(difference(before, before), Difference::Lines(Vec::new()));
        let many = "x\n".repeat(LINES_MAX + 1);
        assert_eq!(difference(b"", many.as_bytes()), Difference::Many { old: 0, new: LINES_MAX + 1 });
    }
}
