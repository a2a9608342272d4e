//! Which rules may match an event type, in file order, without asking all of them: rules that name one type are looked up, rules
//! with wildcards are few and are asked.

use std::collections::HashMap;

use super::rule::Rule;

#[derive(Debug)]
pub struct RuleIndex {
    /// Places of the rules that name exactly this type.
    named: HashMap<String, Vec<usize>>,
    /// Places of the rules with wildcards.
    patterns: Vec<usize>,
}

impl RuleIndex {
    #[must_use]
    pub fn new(rules: &[Rule]) -> Self {
        let mut index = Self { named: HashMap::new(), patterns: Vec::new() };
        for (place, rule) in rules.iter().enumerate() {
            match rule.on.only_type() {
                Some(event_type) => index.named.entry(event_type).or_default().push(place),
                None => index.patterns.push(place),
            }
        }
        index
    }

    /// The places to ask, in file order; both lists are in order already.
    pub fn candidates<'a>(&'a self, event_type: &str) -> impl Iterator<Item = usize> + 'a {
        let mut named = self.named.get(event_type).map_or(&[][..], Vec::as_slice).iter().copied().peekable();
        let mut patterns = self.patterns.iter().copied().peekable();
        std::iter::from_fn(move || match (named.peek(), patterns.peek()) {
            (Some(a), Some(b)) if a < b => named.next(),
            (_, Some(_)) => patterns.next(),
            (_, None) => named.next(),
        })
    }
}
