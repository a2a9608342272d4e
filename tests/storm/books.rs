//! The tenants of the storm and their books, as files for `fis books apply` and as the oracle understands them. There are two
//! versions: the second brings the rate and opens the period for which some events are held.

use rust_decimal::{Decimal, RoundingStrategy};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Late {
    NextOpen,
    Reject,
    Hold,
}

#[derive(Debug)]
pub struct Tenant {
    pub name: &'static str,
    pub base: &'static str,
    pub late: Late,
    pub unmatched_ignored: bool,
    /// Local time is UTC plus one hour in winter; elsewhere UTC.
    pub eastern: bool,
}

/// The last one's name is as long, and has such characters, as a name may.
pub const TENANTS: [Tenant; 5] = [
    Tenant { name: "alder", base: "EUR", late: Late::NextOpen, unmatched_ignored: false, eastern: true },
    Tenant { name: "birch", base: "EUR", late: Late::Reject, unmatched_ignored: false, eastern: false },
    Tenant { name: "cedar", base: "EUR", late: Late::Hold, unmatched_ignored: false, eastern: false },
    Tenant { name: "dune", base: "USD", late: Late::NextOpen, unmatched_ignored: true, eastern: false },
    Tenant { name: EDGE_TENANT, base: "EUR", late: Late::Reject, unmatched_ignored: false, eastern: false },
];

const EDGE_TENANT: &str = "-._Zz09-._Zz09-._Zz09-._Zz09-._Zz09-._Zz09-._Zz09-._Zz09-._Zz09-";

/// The first day of the period that is open in both versions.
pub const OPEN_SINCE: &str = "2026-01-01";
/// Days in periods that are closed: this one is opened by the second version for whoever holds, …
pub const REOPENED_DAY: &str = "2025-12-10";
/// … and this one never.
pub const CLOSED_DAY: &str = "2025-11-10";
/// The rate that only the second version has, and the one that nobody brings.
pub const LATE_CURRENCY: &str = "GBP";
pub const NEVER_CURRENCY: &str = "CHF";

/// One unit of a currency in the tenant's own; of the second version.
pub fn rate(tenant: &Tenant, currency: &str) -> Option<Decimal> {
    let text = match (tenant.base, currency) {
        (base, same) if base == same => "1",
        ("EUR", "USD") => "0.9200",
        ("EUR", "JPY") => "0.006",
        ("EUR", "GBP") => "1.17",
        ("USD", "EUR") => "1.0850",
        ("USD", "JPY") => "0.0067",
        ("USD", "GBP") => "1.25",
        // So little that a few of them are nothing at all.
        (_, "VND") => "0.00004",
        (_, "IDR") => "0.00006",
        _ => return None,
    };
    Some(Decimal::from_str_exact(text).unwrap())
}

pub fn in_base(tenant: &Tenant, amount: Decimal, currency: &str) -> Decimal {
    let rate = rate(tenant, currency).unwrap();
    (amount * rate).round_dp_with_strategy(2, RoundingStrategy::MidpointNearestEven)
}

pub fn books(tenant: &Tenant, version: u8) -> String {
    let late = match tenant.late {
        Late::NextOpen => "next_open",
        Late::Reject => "reject",
        Late::Hold => "hold",
    };
    let second = version > 1;
    let reopened = if second && tenant.late == Late::Hold { "open" } else { "closed" };
    let mut file = format!(
        "tenant = \"{}\"\nname = \"{}\"\nbase_currency = \"{}\"\ntimezone = \"{}\"\nlate_events = \"{late}\"\n\
         unmatched = \"{}\"\nrounding_account = \"6999\"\n",
        tenant.name,
        tenant.name,
        tenant.base,
        if tenant.eastern { "Europe/Berlin" } else { "UTC" },
        if tenant.unmatched_ignored { "ignore" } else { "reject" },
    );
    for (code, kind) in ACCOUNTS {
        file.push_str(&format!("[[accounts]]\ncode = \"{code}\"\nname = \"{code}\"\ntype = \"{kind}\"\n"));
    }
    file.push_str("closed = true\n"); // the last of them
    let periods = [
        ("old", "2000-01-01", "2025-11-30", "closed"),
        ("2025-12", "2025-12-01", "2025-12-31", reopened),
        ("since", OPEN_SINCE, "2099-12-31", "open"),
    ];
    for (name, starts, ends, status) in periods {
        file.push_str(&format!(
            "[[periods]]\nname = \"{name}\"\nstarts = {starts}\nends = {ends}\nstatus = \"{status}\"\n"
        ));
    }
    for currency in ["USD", "EUR", "JPY", "VND", "IDR", LATE_CURRENCY] {
        if currency != tenant.base && (second || currency != LATE_CURRENCY) {
            let rate = rate(tenant, currency).unwrap();
            file.push_str(&format!(
                "[[rates]]\nfrom = \"{currency}\"\nto = \"{}\"\ndate = 2020-01-01\nrate = \"{rate}\"\n",
                tenant.base
            ));
        }
    }
    file.push_str(RULES);
    file
}

const ACCOUNTS: [(&str, &str); 10] = [
    ("1000", "asset"),
    ("1010", "asset"),
    ("1100", "asset"),
    ("2200", "liability"),
    ("2300", "liability"),
    ("4000", "income"),
    ("6010", "expense"),
    ("6020", "expense"),
    ("6999", "expense"),
    ("7000", "expense"),
];

const RULES: &str = include_str!("../support/books/storm.toml");
