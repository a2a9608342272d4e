//! Mistakes of a books file. Findings enter in any order, with byte offsets; sentences with line and column leave, in the
//! order of the file. Nothing is told twice, and nothing is told without its place where the file has one.

/// A place in a text as an editor counts: both from 1, columns in characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
pub struct Position {
    pub line: usize,
    pub column: usize,
}

/// A mistake in a books file: where, in which thing, and what.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Mistake {
    /// None where only the ledger tells the mistake.
    #[serde(flatten)]
    pub position: Option<Position>,
    /// The thing that is wrong: ``rule `x`, line 2``. Empty where the text is not TOML.
    pub place: String,
    pub message: String,
}

impl std::fmt::Display for Mistake {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.place.is_empty() { f.write_str(&self.message) } else { write!(f, "{}: {}", self.place, self.message) }
    }
}

/// Collects, instead of stopping at the first.
#[derive(Debug, Default)]
pub struct Mistakes(Vec<Found>);

#[derive(Debug)]
struct Found {
    at: usize,
    place: String,
    message: String,
}

impl Mistakes {
    pub fn add(&mut self, at: usize, place: &str, message: impl Into<String>) {
        self.0.push(Found { at, place: place.to_owned(), message: message.into() });
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// In the order of the file; those of one place in the order they were found.
    #[must_use]
    pub fn told(mut self, text: &str) -> Vec<Mistake> {
        self.0.sort_by_key(|found| found.at);
        self.0.dedup_by(|b, a| a.at == b.at && a.place == b.place && a.message == b.message);
        let mut told = Vec::with_capacity(self.0.len());
        let (mut line, mut line_start, mut seen) = (1, 0, 0);
        for Found { at, place, message } in self.0 {
            let at = at.min(text.len());
            // The file is walked once, however many mistakes it has.
            for (offset, _) in text.get(seen..at).unwrap_or_default().match_indices('\n') {
                line += 1;
                line_start = seen + offset + 1;
            }
            seen = at;
            let column = text.get(line_start..at).unwrap_or_default().chars().count() + 1;
            told.push(Mistake { position: Some(Position { line, column }), place, message });
        }
        told
    }
}

/// The line of an offset, for messages that point to another place.
#[must_use]
pub fn line_of(text: &str, at: usize) -> usize {
    text.get(..at).unwrap_or_default().matches('\n').count() + 1
}
