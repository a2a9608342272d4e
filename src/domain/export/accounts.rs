//! Account names for plain-text accounting. A code of the books enters, a name that beancount and hledger both accept leaves:
//! `1100` becomes `Assets:1100`. Two accounts never get one name.

use std::collections::{BTreeMap, HashMap};

use sha2::{Digest, Sha256};

use crate::domain::books::{AccountType, Books};

/// Hex digits that tell two codes apart that would else have one name.
const MARK_DIGITS: usize = 8;

/// Codes with their names.
pub struct AccountNames(BTreeMap<String, String>);

impl AccountNames {
    pub fn of(books: &Books) -> Self {
        let plain: Vec<(String, String)> = books
            .accounts()
            .map(|account| {
                let code = account.code.as_str();
                (code.to_owned(), format!("{}:{}", root(account.kind), plain_name(code)))
            })
            .collect();
        let mut owners: HashMap<&str, usize> = HashMap::new();
        for (_, name) in &plain {
            *owners.entry(name).or_default() += 1;
        }
        let named = plain.iter().map(|(code, name)| {
            let is_shared = owners.get(name.as_str()).is_some_and(|owners| *owners > 1);
            // A code that is a name by itself keeps it; the ones that had to be changed to fit get a mark.
            let is_itself = name.split_once(':').is_some_and(|(_, rest)| rest == code);
            let name = if is_shared && !is_itself { format!("{name}-{}", mark(code)) } else { name.clone() };
            (code.clone(), name)
        });
        Self(named.collect())
    }

    pub fn get(&self, code: &str) -> Option<&str> {
        self.0.get(code).map(String::as_str)
    }

    /// Codes and names, in the order of the codes.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(code, name)| (code.as_str(), name.as_str()))
    }
}

fn root(kind: AccountType) -> &'static str {
    match kind {
        AccountType::Asset => "Assets",
        AccountType::Liability => "Liabilities",
        AccountType::Equity => "Equity",
        AccountType::Income => "Income",
        AccountType::Expense => "Expenses",
    }
}

/// Each part between colons starts with a capital or a digit and goes on with letters, digits and hyphens.
fn plain_name(code: &str) -> String {
    let mut name = String::with_capacity(code.len() + 1);
    for part in code.split(':') {
        if !name.is_empty() {
            name.push(':');
        }
        let mut characters = part.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' });
        match characters.next() {
            Some(first) if first != '-' => name.push(first.to_ascii_uppercase()),
            Some(first) => name.extend(['X', first]),
            None => name.push('X'),
        }
        name.extend(characters);
    }
    name
}

fn mark(code: &str) -> String {
    hex::encode(Sha256::digest(code)).chars().take(MARK_DIGITS).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_stays_recognisable() {
        let rows = [
            ("1100", "1100"),
            ("4000:10", "4000:10"),
            ("bank-eur", "Bank-eur"),
            ("a.b_c", "A-b-c"),
            (":x", "X:X"),
            ("_", "X-"),
            ("a::b", "A:X:B"),
        ];
        for (code, name) in rows {
            assert_eq!(plain_name(code), name, "{code}");
        }
    }

    #[test]
    fn two_accounts_never_get_one_name() {
        let account = |code: &str| format!("[[accounts]]\ncode = \"{code}\"\ntype = \"asset\"\n");
        let source: String = ["A-b", "a-b", "a.b", "a_b", "A:X", "a:"].map(account).concat();
        let books = Books::parse(&format!("tenant = \"t\"\nbase_currency = \"EUR\"\n{source}"), 1).unwrap();
        let names = AccountNames::of(&books);
        let unique: std::collections::BTreeSet<&str> = names.iter().map(|(_, name)| name).collect();
        assert_eq!(unique.len(), 6, "{unique:?}");
        assert_eq!(names.get("A-b"), Some("Assets:A-b"), "a code that is a name keeps it");
    }
}
