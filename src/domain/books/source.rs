//! The books file: TOML enters, compiled books or a list of every mistake leaves. Settings, accounts, periods and rates are
//! compiled here, rules in `compile_rule.rs`.

use std::collections::{HashMap, HashSet};

use toml::de::DeTable;

use super::fields::Text;
use super::file::{AccountSource, File, PeriodSource, RateSource};
use super::index::RuleIndex;
use super::mistake::{Mistakes, line_of};
use super::{Account, AccountType, Books, Mistake};
use crate::domain::expr::closest;
use crate::domain::fx::{Rate, Rates};
use crate::domain::ids::{AccountCode, TenantId};
use crate::domain::json::decimal_from_str;
use crate::domain::money::Currency;
use crate::domain::period::{Calendar, Period};

/// A chart beyond this is a mistake in the generator that wrote it.
const ACCOUNTS_MAX: usize = 200_000;
/// The most syntax mistakes that are told; those behind the first broken lines are mostly their echo.
const SYNTAX_MISTAKES_MAX: usize = 20;

pub(super) fn parse(text: &str, version: i32) -> Result<Books, Vec<Mistake>> {
    let mut mistakes = Mistakes::default();
    let (root, errors) = DeTable::parse_recoverable(text);
    for error in errors.iter().take(SYNTAX_MISTAKES_MAX) {
        let at = error.span().map_or(0, |span| span.start);
        let hint = if is_decimal_comma(text, at) { "; decimals have a point: 1.19" } else { "" };
        mistakes.add(at, "", format!("{}{hint}", error.message().replace('\n', ", ")));
    }
    // What a broken text seems to say is not worth complaining about.
    if !mistakes.is_empty() {
        return Err(mistakes.told(text));
    }
    let file = File::read(text, root.get_ref(), &mut mistakes);
    let mut compiler = Compiler { text, mistakes, accounts: HashMap::new(), doubtful: HashSet::new() };
    match compiler.books(file, version) {
        Some(books) if compiler.mistakes.is_empty() => Ok(books),
        _ => Err(compiler.mistakes.told(text)),
    }
}

/// Tells whether a comma between two digits stands here: `1,19` is no number of a TOML file.
fn is_decimal_comma(text: &str, at: usize) -> bool {
    let is_digit = |at: Option<usize>| at.and_then(|at| text.as_bytes().get(at)).is_some_and(u8::is_ascii_digit);
    text.as_bytes().get(at) == Some(&b',') && is_digit(at.checked_sub(1)) && is_digit(at.checked_add(1))
}

/// Goes through the whole file and writes down every mistake, instead of stopping at the first.
pub(super) struct Compiler<'t> {
    text: &'t str,
    pub mistakes: Mistakes,
    pub accounts: HashMap<String, Account>,
    /// Codes of accounts that are wrong themselves: a rule that uses one is not complained about.
    doubtful: HashSet<String>,
}

impl Compiler<'_> {
    fn books(&mut self, file: File, version: i32) -> Option<Books> {
        let tenant_id = file.tenant.and_then(|tenant| {
            TenantId::parse(&tenant.value)
                .map_err(|error| self.mistakes.add(tenant.at, "tenant", error.to_string()))
                .ok()
        });
        let base_currency = file.base_currency.and_then(|code| self.currency("base_currency", &code));
        let timezone = file.timezone.map_or(Some(chrono_tz::UTC), |name| self.timezone(&name));
        self.accounts(file.accounts);
        let periods = self.periods(file.periods);
        // Overlaps have been told already, with their places.
        let calendar = Calendar::new(timezone.unwrap_or(chrono_tz::UTC), file.late_events, periods).ok();
        let rates = self.rates(&file.rates);
        let rounding_account = file.rounding_account.and_then(|code| self.rounding_account(&code, base_currency));
        let rules = self.rules(file.rules);
        Some(Books {
            tenant_id: tenant_id?,
            version,
            name: file.name,
            base_currency: base_currency?,
            calendar: calendar?,
            rates: Rates::new(rates),
            rounding_account,
            unmatched: file.unmatched,
            auto_replay: file.auto_replay,
            accounts: std::mem::take(&mut self.accounts),
            index: RuleIndex::new(&rules),
            rules,
        })
    }

    /// Complains about the second of two things with one name; true for the first.
    pub(super) fn once(&mut self, seen: &mut HashMap<String, usize>, place: &str, name: &str, at: usize) -> bool {
        let Some(first) = seen.get(name) else {
            seen.insert(name.to_owned(), at);
            return true;
        };
        let message = format!("appears twice, first on line {}", line_of(self.text, *first));
        self.mistakes.add(at, place, message);
        false
    }

    pub(super) fn currency(&mut self, place: &str, code: &Text) -> Option<Currency> {
        self.currency_at(place, code.at, &code.value)
    }

    pub(super) fn currency_at(&mut self, place: &str, at: usize, code: &str) -> Option<Currency> {
        let currency = Currency::parse(code);
        if currency.is_none() {
            // `eur` and `EURO` are the usual slips.
            let near = code.trim().get(..3).map(str::to_uppercase).filter(|near| Currency::parse(near).is_some());
            let hint = near.map(|near| format!(", did you mean `{near}`?")).unwrap_or_default();
            self.mistakes.add(at, place, format!("`{code}` is not an ISO 4217 currency{hint}"));
        }
        currency
    }

    fn timezone(&mut self, name: &Text) -> Option<chrono_tz::Tz> {
        let zone = name.value.parse::<chrono_tz::Tz>().ok();
        if zone.is_none() {
            let names = || chrono_tz::TZ_VARIANTS.iter().map(|zone| zone.name());
            let of_city =
                |zone: &&str| zone.rsplit('/').next().is_some_and(|city| city.eq_ignore_ascii_case(&name.value));
            let hint = match names().find(of_city).or_else(|| closest(&name.value, names())) {
                Some(near) => format!(", did you mean `{near}`?"),
                None => " such as Europe/Berlin".to_owned(),
            };
            self.mistakes.add(name.at, "timezone", format!("`{}` is not a time zone{hint}", name.value));
        }
        zone
    }

    fn accounts(&mut self, sources: Vec<AccountSource>) {
        if sources.len() > ACCOUNTS_MAX {
            self.mistakes.add(0, "accounts", format!("there are more than {ACCOUNTS_MAX}"));
            return;
        }
        let mut seen = HashMap::with_capacity(sources.len());
        for source in sources {
            let place = &source.place;
            let currency = source.currency.and_then(|currency| self.currency(place, &currency));
            self.doubtful.extend(source.number);
            let Some(text) = source.code else { continue };
            self.once(&mut seen, place, &text.value, text.at);
            match AccountCode::parse(&text.value) {
                Err(error) => {
                    self.mistakes.add(text.at, place, format!("the code {error}"));
                    self.doubtful.insert(text.value);
                }
                Ok(code) => {
                    // Without its type the file is refused; the account is still known to the rules.
                    let kind = source.kind.unwrap_or(AccountType::Asset);
                    let account = Account { code, name: source.name, kind, currency, closed: source.closed };
                    self.accounts.insert(text.value, account);
                }
            }
        }
    }

    pub(super) fn known_account(&mut self, place: &str, at: usize, code: &str) {
        if self.accounts.contains_key(code) || self.doubtful.contains(code) {
            return;
        }
        // The least code of those that are equally near, so that the same file is always told the same.
        let mut codes: Vec<&str> = self.accounts.keys().map(String::as_str).collect();
        codes.sort_unstable();
        let hint = closest(code, codes).map(|near| format!(", did you mean `{near}`?")).unwrap_or_default();
        self.mistakes.add(at, place, format!("unknown account `{code}`{hint}"));
    }

    /// Finds the rounding account. What conversion leaves over is in the base currency, so this account must take that.
    fn rounding_account(&mut self, text: &Text, base: Option<Currency>) -> Option<AccountCode> {
        let place = "rounding_account";
        self.known_account(place, text.at, &text.value);
        let (code, only) = self.accounts.get(&text.value).map(|account| (account.code.clone(), account.currency))?;
        if let (Some(only), Some(base)) = (only, base)
            && only != base
        {
            self.mistakes.add(text.at, place, format!("account `{code}` takes {only} only, residues are in {base}"));
        }
        Some(code)
    }

    fn periods(&mut self, sources: Vec<PeriodSource>) -> Vec<Period> {
        let mut seen = HashMap::new();
        let mut placed = Vec::with_capacity(sources.len());
        for source in sources {
            let Some(name) = source.name else { continue };
            self.once(&mut seen, &source.place, &name.value, name.at);
            let (Some((at, starts)), Some((ends_at, ends))) = (source.starts, source.ends) else { continue };
            if ends < starts {
                self.mistakes.add(ends_at, &source.place, format!("ends before it starts, which is on {starts}"));
                continue;
            }
            let period = Period { name: name.value, starts, ends, open: source.open.unwrap_or(false) };
            placed.push((at, source.place, period));
        }
        placed.sort_by_key(|(_, _, period)| period.starts);
        // The one that reaches farthest so far: a long period may cover several short ones.
        let mut farthest: Option<&Period> = None;
        for (at, place, period) in &placed {
            if let Some(before) = farthest.filter(|before| period.starts <= before.ends) {
                let Period { name, starts, ends, .. } = before;
                self.mistakes.add(*at, place, format!("overlaps period `{name}`, which is from {starts} to {ends}"));
            }
            farthest = farthest.filter(|before| before.ends >= period.ends).or(Some(period));
        }
        placed.into_iter().map(|(_, _, period)| period).collect()
    }

    fn rates(&mut self, sources: &[RateSource]) -> Vec<Rate> {
        let mut seen = HashMap::new();
        let mut rates = Vec::with_capacity(sources.len());
        for source in sources {
            let place = source.place.as_str();
            let from = source.from.as_ref().and_then(|code| self.currency(place, code));
            let to = source.to.as_ref().and_then(|code| self.currency(place, code));
            let (Some(from), Some(to), Some((_, date)), Some(text)) = (from, to, source.date, &source.rate) else {
                continue;
            };
            self.once(&mut seen, place, place, source.at);
            match decimal_from_str(&text.value).ok().and_then(|rate| Rate::new(from, to, date, rate)) {
                Some(rate) => rates.push(rate),
                None => {
                    let rate = &text.value;
                    let needed = "a positive rate of at most 12 digits between two currencies";
                    let hint = if rate.contains(',') { "; decimals have a point, as in 0.9200" } else { "" };
                    self.mistakes.add(text.at, place, format!("`{rate}` is not {needed}{hint}"));
                }
            }
        }
        rates
    }
}
