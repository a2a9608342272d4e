//! The difference between two bodies, line by line, as both are laid out for a person.

use super::body::laid_out;
use crate::cli::printable_within;
use crate::domain::json;

/// Beyond so many differing lines only their number is told; the comparison takes the square of it.
const LINES_MAX: usize = 1_000;

pub fn shown(before: &[u8], after: &[u8], width: usize) -> String {
    let (before, after) = (text(before), text(after));
    let (old, new): (Vec<&str>, Vec<&str>) = (before.lines().collect(), after.lines().collect());
    let same_head = old.iter().zip(&new).take_while(|(a, b)| a == b).count();
    let (old, new) = (old.get(same_head..).unwrap_or_default(), new.get(same_head..).unwrap_or_default());
    let same_tail = old.iter().rev().zip(new.iter().rev()).take_while(|(a, b)| a == b).count();
    let old = old.get(..old.len() - same_tail).unwrap_or_default();
    let new = new.get(..new.len() - same_tail).unwrap_or_default();
    if old.len().max(new.len()) > LINES_MAX {
        return format!("    {} lines become {} others\n", old.len(), new.len());
    }
    let mut shown = String::new();
    for (mark, line) in changes(old, new) {
        shown.push_str(&format!("  {mark} {}\n", printable_within(line, width.saturating_sub(5))));
    }
    shown
}

fn text(body: &[u8]) -> String {
    match std::str::from_utf8(body) {
        Ok(text) if json::parse(text).is_ok() => laid_out(text),
        _ => String::from_utf8_lossy(body).into_owned(),
    }
}

/// The longest common lines stay; what is only in one of them is marked.
fn changes<'a>(old: &[&'a str], new: &[&'a str]) -> Vec<(char, &'a str)> {
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
                changes.push((' ', *a));
                (i, j) = (i + 1, j + 1);
            }
            (Some(a), b) if b.is_none() || at(&common, i + 1, j) >= at(&common, i, j + 1) => {
                changes.push(('-', *a));
                i += 1;
            }
            (_, Some(b)) => {
                changes.push(('+', *b));
                j += 1;
            }
            (_, None) => return changes,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::shown;

    #[test]
    fn only_what_differs_is_marked() {
        let (before, after) = (br#"{"a":1,"b":2,"c":3}"#, br#"{"a":1,"b":5,"c":3,"d":4}"#);
        let text = shown(before, after, 80);
        assert_eq!(text, "  -   \"b\": 2,\n  -   \"c\": 3\n  +   \"b\": 5,\n  +   \"c\": 3,\n  +   \"d\": 4\n");
        assert_eq!(shown(before, before, 80), "");
        assert!(shown(b"\x1b[2J", b"x", 80).contains("\\u{1b}"));
    }
}
