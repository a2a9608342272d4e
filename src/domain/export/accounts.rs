//! Account names for plain-text accounting. A code of the books and its spoken name enter, a name that the program accepts leaves:
//! `4400` with the name "Sales, net" becomes `Income:4400 Sales, net` for hledger and `Income:4400-Sales-net` for beancount, so that
//! their reports show it. Two accounts never get one name.

use std::collections::{BTreeMap, HashMap, HashSet};

use sha2::{Digest, Sha256};

use crate::domain::books::{Account, AccountType, Books};

/// Hex digits that tell two codes apart that would else have one name.
const MARK_DIGITS: usize = 8;
/// Characters of a spoken name that are used; the whole one is in the metadata.
const SPOKEN_MAX: usize = 60;

/// The way in which a program lets a spoken name follow a code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Style {
    /// Letters, digits and hyphens.
    Beancount,
    /// Single blanks and most other characters.
    Hledger,
}

/// Codes with their names.
pub struct AccountNames(BTreeMap<String, String>);

impl AccountNames {
    pub fn of(books: &Books, style: Style) -> Self {
        let full: Vec<(&str, String)> =
            books.accounts().map(|account| (account.code.as_str(), full_name(books, account, style))).collect();
        // A code that needed no change keeps its name; where that does not say who, all of them get a mark.
        let mut owners: HashMap<&str, (usize, usize)> = HashMap::new();
        for (code, name) in &full {
            let (all, unchanged) = owners.entry(name).or_default();
            *all += 1;
            *unchanged += usize::from(is_plain(code));
        }
        let keeps = |code: &str, name: &str| match owners.get(name) {
            Some((1, _)) | None => true,
            Some((_, unchanged)) => *unchanged == 1 && is_plain(code),
        };
        let (kept, shared): (Vec<_>, Vec<_>) = full.iter().partition(|(code, name)| keeps(code, name));
        let mut taken: HashSet<String> = kept.iter().map(|(_, name)| name.clone()).collect();
        let mut names: BTreeMap<String, String> =
            kept.iter().map(|(code, name)| ((*code).to_owned(), name.clone())).collect();
        for (code, name) in shared {
            let digest = hex::encode(Sha256::digest(code));
            let short: String = digest.chars().take(MARK_DIGITS).collect();
            let marked = [short, digest].map(|mark| format!("{name}-{mark}"));
            let free = marked.into_iter().find(|name| taken.insert(name.clone()));
            // Both are only taken if a code of the books spells out the digest of another; the code as hex digits is no other's.
            let free = free.unwrap_or_else(|| format!("{name}-Hex-{}", hex::encode(code)));
            names.insert((*code).to_owned(), free);
        }
        Self(names)
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

/// Type, code and spoken name. A code with colons is a path: where a part of it is an account itself, that part is named as that account is, so
/// that the program shows one below the other.
fn full_name(books: &Books, account: &Account, style: Style) -> String {
    let code = account.code.as_str();
    let mut name = root(account.kind).to_owned();
    let ends = code.match_indices(':').map(|(at, _)| at).chain([code.len()]);
    let mut start = 0;
    for end in ends {
        name.push(':');
        name.push_str(&plain_part(code.get(start..end).unwrap_or_default()));
        let above = code.get(..end).and_then(|code| books.account(code));
        let spoken = above.filter(|above| above.kind == account.kind).map(|above| above.name.as_str());
        name.push_str(&follow(spoken.unwrap_or_default(), style));
        start = end + 1;
    }
    name
}

/// A part between colons starts with a capital or a digit and goes on with letters, digits and hyphens.
fn plain_part(part: &str) -> String {
    let mut characters = part.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' });
    let mut plain = match characters.next() {
        Some(first) if first != '-' => first.to_ascii_uppercase().to_string(),
        Some(first) => format!("X{first}"),
        None => "X".to_owned(),
    };
    plain.extend(characters);
    plain
}

fn is_plain(code: &str) -> bool {
    code.split(':').all(|part| plain_part(part) == part)
}

/// A spoken name as it follows its code. Whatever does not fit is a division between words.
fn follow(spoken: &str, style: Style) -> String {
    let (fits, division): (fn(char) -> bool, char) = match style {
        Style::Beancount => (is_letter_or_digit, '-'),
        Style::Hledger => (is_fit_for_hledger, ' '),
    };
    let cut: String = spoken.chars().take(SPOKEN_MAX).collect();
    let words = cut.split(|c: char| !fits(c)).filter(|word| !word.is_empty());
    words.flat_map(|word| [division.to_string(), word.to_owned()]).collect()
}

/// Beancount takes letters and decimal digits, as Unicode calls them. These are the alphabets of which every character between the ends is one.
fn is_letter_or_digit(c: char) -> bool {
    c.is_ascii_alphanumeric()
        || matches!(c, '\u{c0}'..='\u{d6}' | '\u{d8}'..='\u{f6}' | '\u{f8}'..='\u{24f}' | '\u{391}'..='\u{3a1}')
        || matches!(c, '\u{3a3}'..='\u{3ce}' | '\u{400}'..='\u{481}' | '\u{48a}'..='\u{52f}' | '\u{5d0}'..='\u{5ea}')
        || matches!(c, '\u{3041}'..='\u{3096}' | '\u{30a1}'..='\u{30fa}' | '\u{4e00}'..='\u{9fff}' | '\u{ac00}'..='\u{d7a3}')
}

/// A colon begins an account below, a semicolon a comment, and two blanks end the name.
fn is_fit_for_hledger(c: char) -> bool {
    !(c.is_whitespace()
        || c.is_control()
        || matches!(c, ':' | ';' | '"' | '|' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn books(accounts: &[(&str, &str)]) -> Books {
        let account = |(code, name): &(&str, &str)| {
            format!("[[accounts]]\ncode = \"{code}\"\nname = '''{name}'''\ntype = \"asset\"\n")
        };
        let source: String = accounts.iter().map(account).collect();
        Books::parse(&format!("tenant = \"t\"\nbase_currency = \"EUR\"\n{source}"), 1).unwrap()
    }

    #[test]
    fn a_code_and_its_name_stay_recognisable() {
        let rows = [
            ("1100", "", "1100", "1100"),
            ("1200", "Bank", "1200 Bank", "1200-Bank"),
            ("4000:10", "Web", "4000:10 Web", "4000:10-Web"),
            ("bank-eur", "", "Bank-eur", "Bank-eur"),
            ("a.b_c", "", "A-b-c", "A-b-c"),
            (":x", "", "X:X", "X:X"),
            ("_", "", "X-", "X-"),
            ("a::b", "", "A:X:B", "A:X:B"),
            ("1", "Umsatzerlöse 19 %", "1 Umsatzerlöse 19 %", "1-Umsatzerlöse-19"),
            ("2", "A:  B; \"c\"\t| d", "2 A B c d", "2-A-B-c-d"),
            ("3", "  -- ", "3 --", "3"),
            ("4", "\u{202e}売上　高", "4 売上 高", "4-売上-高"),
        ];
        for (code, spoken, hledger, beancount) in rows {
            let books = books(&[(code, spoken)]);
            for (style, expected) in [(Style::Hledger, hledger), (Style::Beancount, beancount)] {
                let names = AccountNames::of(&books, style);
                assert_eq!(names.get(code), Some(format!("Assets:{expected}").as_str()), "{code} {style:?}");
            }
        }
    }

    #[test]
    fn an_account_is_shown_below_the_one_that_its_code_begins_with() {
        let books = books(&[("12", "Banks"), ("12:1", "Main"), ("12:1:x", "Fees")]);
        let names = AccountNames::of(&books, Style::Hledger);
        assert_eq!(names.get("12:1:x"), Some("Assets:12 Banks:1 Main:X Fees"));
    }

    #[test]
    fn two_accounts_never_get_one_name() {
        let mark: String = hex::encode(Sha256::digest("a.b")).chars().take(MARK_DIGITS).collect();
        let squatter = format!("A-b-{mark}");
        let codes = ["A-b", "a-b", "a.b", "a_b", "A:X", "a:", &squatter];
        let mut accounts = codes.map(|code| (code, "")).to_vec();
        // `C` called "d e" and `C-d` called "e" are alike to beancount.
        accounts.extend([("C", "d e"), ("C-d", "e"), ("F", "same"), ("f", "same")]);
        let books = books(&accounts);
        for style in [Style::Hledger, Style::Beancount] {
            let names = AccountNames::of(&books, style);
            let unique: std::collections::BTreeSet<&str> = names.iter().map(|(_, name)| name).collect();
            assert_eq!(unique.len(), accounts.len(), "{unique:?}");
            assert_eq!(names.get("A-b"), Some("Assets:A-b"), "a code that is a name keeps it");
        }
    }
}
