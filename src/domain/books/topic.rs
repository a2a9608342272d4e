//! Topic patterns over event types. A pattern and a type enter, whether they match leaves, as the broker would say it; no
//! pattern takes more than a few steps per word.

/// A topic pattern: words separated by dots, `*` for one word, `#` for any number of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopicPattern(Vec<Word>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Word {
    Exactly(String),
    One,
    Any,
}

impl TopicPattern {
    #[must_use]
    pub fn new(text: &str) -> Self {
        let word = |word: &str| match word {
            "*" => Word::One,
            "#" => Word::Any,
            other => Word::Exactly(other.to_owned()),
        };
        Self(text.split('.').map(word).collect())
    }

    /// The text of the pattern, as the books file spells it.
    #[must_use]
    pub fn text(&self) -> String {
        let word = |word: &Word| match word {
            Word::Exactly(text) => text.clone(),
            Word::One => "*".to_owned(),
            Word::Any => "#".to_owned(),
        };
        self.0.iter().map(word).collect::<Vec<_>>().join(".")
    }

    /// The one type that it matches, where it has no wildcard.
    #[must_use]
    pub fn only_type(&self) -> Option<String> {
        let words = self.0.iter().map(|word| match word {
            Word::Exactly(text) => Some(text.as_str()),
            Word::One | Word::Any => None,
        });
        words.collect::<Option<Vec<_>>>().map(|words| words.join("."))
    }

    /// Tells whether it matches the words of a key, and how many words were compared to find out.
    #[must_use]
    pub fn matches(&self, words: &[&str]) -> (bool, u32) {
        // Two fingers and one place to go back to: linear for one `#`, never exponential for many.
        let (mut p, mut w, mut back, mut looks) = (0, 0, None, 1);
        while w < words.len() {
            looks += 1;
            match (self.0.get(p), words.get(w)) {
                (Some(Word::Any), _) => {
                    back = Some((p, w));
                    p += 1;
                    continue;
                }
                (Some(Word::One), Some(_)) => {}
                (Some(Word::Exactly(expected)), Some(word)) if expected == word => {}
                _ => match back {
                    Some((any, from)) => {
                        back = Some((any, from + 1));
                        (p, w) = (any + 1, from + 1);
                        continue;
                    }
                    None => return (false, looks),
                },
            }
            p += 1;
            w += 1;
        }
        (self.0.iter().skip(p).all(|word| *word == Word::Any), looks)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_topic_pattern_matches_as_the_broker_would() {
        for (pattern, key, expected) in [
            ("a.b.c", "a.b.c", true),
            ("a.b.c", "a.b", false),
            ("a.*.c", "a.b.c", true),
            ("a.*", "a.b.c", false),
            ("a.#", "a", true),
            ("a.#", "a.b.c", true),
            ("#", "anything.at.all", true),
            ("#.c", "a.b.c", true),
            ("#.c", "a.b.c.d", false),
            ("#.b.#", "a.b.c", true),
            ("#.b.#.c", "b.x.b.y.c", true),
            ("*.*.*", "a.b", false),
            ("#.#.#", "a", true),
        ] {
            let words: Vec<&str> = key.split('.').collect();
            assert_eq!(TopicPattern::new(pattern).matches(&words).0, expected, "{pattern} on {key}");
        }
    }
}
