//! The sources as rules read them: a file's text enters; its path, its code without comments and strings, and what it says leave.

use std::path::{Path, PathBuf};
use std::sync::LazyLock;

/// A file of the sources.
pub struct Source {
    /// Below `src/`, with forward slashes.
    pub path: String,
    pub text: String,
    /// The text with comments and the insides of strings blanked out; lines stay where they are.
    pub code: String,
    /// The text with comments blanked out: what the program says, to PostgreSQL for instance.
    pub said: String,
}

impl Source {
    pub fn new(path: &str, text: &str) -> Self {
        Self { path: path.to_owned(), text: text.to_owned(), code: code_only(text), said: without_comments(text) }
    }

    /// Tests of a module, in files of their own.
    pub fn is_test(&self) -> bool {
        self.path.ends_with("/tests.rs") || self.path.contains("/tests/")
    }

    pub fn is_in(&self, places: &[&str]) -> bool {
        places.iter().any(|place| self.path.starts_with(place))
    }

    /// The room this file belongs to.
    pub fn room(&self) -> &str {
        self.path.split('/').next().unwrap_or_default().trim_end_matches(".rs")
    }

    /// The code's lines, numbered from 1.
    pub fn code_lines(&self) -> impl Iterator<Item = (usize, &str)> {
        self.code.lines().enumerate().map(|(index, line)| (index + 1, line))
    }
}

pub fn project() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

pub fn files_below(folder: &Path, extension: &str) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display())) {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files.extend(files_below(&path, extension));
        } else if path.extension().is_some_and(|found| found == extension) {
            files.push(path);
        }
    }
    files.sort();
    files
}

/// The product's sources, read once.
pub fn sources() -> &'static [Source] {
    static SOURCES: LazyLock<Vec<Source>> = LazyLock::new(|| sources_of("src"));
    &SOURCES
}

/// The Rust files of a folder of the project; none where there is no such folder.
pub fn sources_of(folder: &str) -> Vec<Source> {
    let root = project().join(folder);
    if !root.exists() {
        return Vec::new();
    }
    let source = |file: PathBuf| {
        let path = file.strip_prefix(&root).unwrap().to_string_lossy().replace('\\', "/");
        Source::new(&path, &std::fs::read_to_string(&file).unwrap())
    };
    files_below(&root, "rs").into_iter().map(source).collect()
}

/// Blanks out comments and the insides of strings and characters.
pub fn code_only(text: &str) -> String {
    blanked(text, true)
}

/// Blanks out comments only.
pub fn without_comments(text: &str) -> String {
    blanked(text, false)
}

fn blanked(text: &str, strings_too: bool) -> String {
    let characters: Vec<char> = text.chars().collect();
    let at = |index: usize| characters.get(index).copied().unwrap_or('\0');
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let mut code = String::with_capacity(text.len());
    let mut index = 0;
    while index < characters.len() {
        let end = match (at(index), at(index + 1)) {
            ('/', '/') => (index..characters.len()).find(|&i| at(i) == '\n').unwrap_or(characters.len()),
            ('/', '*') => {
                let (mut depth, mut i) = (1, index + 2);
                while depth > 0 && i < characters.len() {
                    match (at(i), at(i + 1)) {
                        ('/', '*') => (depth, i) = (depth + 1, i + 2),
                        ('*', '/') => (depth, i) = (depth - 1, i + 2),
                        _ => i += 1,
                    }
                }
                i
            }
            ('r', '"' | '#') if index == 0 || !is_word(at(index - 1)) || at(index - 1) == 'b' => {
                let hashes = (index + 1..).take_while(|&i| at(i) == '#').count();
                if at(index + 1 + hashes) != '"' {
                    code.push(at(index));
                    index += 1;
                    continue;
                }
                let closes = |&i: &usize| at(i) == '"' && (1..=hashes).all(|n| at(i + n) == '#');
                let close = (index + 2 + hashes..characters.len()).find(closes);
                close.map_or(characters.len(), |i| i + 1 + hashes)
            }
            ('"', _) => after_quote(&characters, index, '"'),
            // A character, not a lifetime: it closes after one character, or begins with a backslash.
            ('\'', '\\') => after_quote(&characters, index, '\''),
            ('\'', _) if at(index + 2) == '\'' => index + 3,
            (other, _) => {
                code.push(other);
                index += 1;
                continue;
            }
        };
        let end = end.min(characters.len());
        let keep = !strings_too && at(index) != '/';
        // Line ends stay, so that numbers of lines do.
        code.extend(characters[index..end].iter().map(|c| if keep || *c == '\n' { *c } else { ' ' }));
        index = end;
    }
    code
}

fn after_quote(characters: &[char], start: usize, quote: char) -> usize {
    let mut index = start + 1;
    while index < characters.len() && characters[index] != quote {
        index += if characters[index] == '\\' { 2 } else { 1 };
    }
    index + 1
}

/// Where `word` stands in `code` as a word of its own (on the left side; the right side is the caller's).
pub fn words<'c>(code: &'c str, word: &'c str) -> impl Iterator<Item = usize> + 'c {
    code.match_indices(word).map(|(at, _)| at).filter(move |&at| {
        let before = code[..at].chars().next_back();
        !before.is_some_and(|c| c.is_alphanumeric() || c == '_')
    })
}

pub fn line_of(code: &str, at: usize) -> usize {
    code[..at].matches('\n').count() + 1
}

pub fn identifier(text: &str) -> &str {
    let end = text.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(text.len());
    &text[..end]
}

#[test]
fn comments_and_strings_are_no_code() {
    let text = "a // x\nb /* y /* z */ */ c \"d\\\"e\" r#\"f\"g\"# 'h' '\\'' &'i str br\"j\"";
    let code = code_only(text);
    assert_eq!(code.lines().count(), 2);
    for gone in ["x", "y", "z", "d", "e", "f", "g", "h", "j"] {
        assert!(!code.split_whitespace().any(|word| word == gone), "{gone} in {code:?}");
    }
    for kept in ["a", "b", "c", "&'i"] {
        assert!(code.split_whitespace().any(|word| word == kept), "{kept} in {code:?}");
    }
    assert_eq!(without_comments("a // x\n\"b // c\" /* y */ d"), "a     \n\"b // c\"         d");
}
