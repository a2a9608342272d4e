//! The difference between two bodies on a terminal: a mark, and the line as far as it fits.

use crate::cli::printable_within;
use crate::desk::letters::{Difference, Mark};

pub fn shown(difference: &Difference, width: usize) -> String {
    let lines = match difference {
        Difference::Lines(lines) => lines,
        Difference::Many { old, new } => return format!("    {old} lines become {new} others\n"),
    };
    let mut shown = String::new();
    for (mark, line) in lines {
        let mark = match mark {
            Mark::Same => ' ',
            Mark::Old => '-',
            Mark::New => '+',
        };
        shown.push_str(&format!("  {mark} {}\n", printable_within(line, width.saturating_sub(5))));
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_its_mark_and_cannot_drive_the_terminal() {
        let lines =
            vec![(Mark::Old, "\u{1b}[2J".to_owned()), (Mark::New, "x".to_owned()), (Mark::Same, "y".to_owned())];
        assert_eq!(shown(&Difference::Lines(lines), 80), "  - \\u{1b}[2J\n  + x\n    y\n");
        assert_eq!(shown(&Difference::Many { old: 1, new: 2000 }, 80), "    1 lines become 2000 others\n");
    }
}
