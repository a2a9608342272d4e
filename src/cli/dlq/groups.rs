//! `fis dlq groups`: what the letters have in common, most frequent first, with the money that waits in each.

use std::collections::BTreeMap;
use std::process::ExitCode;

use serde_json::json;

use super::args::Which;
use super::{age, columns, money_text, plural};
use crate::cli::printable_within;
use crate::platform::config::Config;
use crate::platform::time;
use crate::store::dead_letters::{GroupMoney, GroupName, Scope, groups};

#[derive(clap::Args)]
pub struct Groups {
    #[command(flatten)]
    which: Which,
    #[arg(long)]
    json: bool,
}

struct Group {
    name: GroupName,
    money: Vec<GroupMoney>,
}

impl Group {
    fn sum(&self, count: impl Fn(&GroupMoney) -> i64) -> i64 {
        self.money.iter().map(count).sum()
    }

    fn letters(&self) -> i64 {
        self.sum(|money| money.letters)
    }

    fn oldest(&self) -> Option<chrono::DateTime<chrono::Utc>> {
        self.money.iter().map(|money| money.oldest).min()
    }

    fn newest(&self) -> Option<chrono::DateTime<chrono::Utc>> {
        self.money.iter().map(|money| money.newest).max()
    }

    fn money(&self) -> Vec<(Option<String>, i64, Option<rust_decimal::Decimal>)> {
        self.money.iter().map(|money| (money.currency.clone(), money.letters, money.amount)).collect()
    }
}

impl Groups {
    pub async fn run(self, config: &Config) -> anyhow::Result<ExitCode> {
        let postgres = crate::cli::database(config).await?;
        let filter = self.which.filter(Scope::Open, Vec::new());
        let now = time::now();
        let mut db = postgres.pool.acquire().await?;
        let (names, money) = groups(&mut db, &filter, now).await?;
        let mut by_id: BTreeMap<String, Vec<GroupMoney>> = BTreeMap::new();
        for money in money {
            by_id.entry(money.group_id.clone()).or_default().push(money);
        }
        let mut groups: Vec<Group> = names
            .into_iter()
            .map(|name| Group { money: by_id.remove(&name.group_id).unwrap_or_default(), name })
            .collect();
        groups.sort_by_key(|group| (-group.letters(), group.name.group_id.clone()));
        if self.json {
            crate::cli::print_json(&json!({ "groups": groups.iter().map(as_json).collect::<Vec<_>>() }))?;
            return Ok(ExitCode::SUCCESS);
        }
        let width = columns();
        let mut text = String::new();
        for group in &groups {
            let name = &group.name;
            let rule = name.rule_name.as_deref().map(|rule| format!("  rule {rule}")).unwrap_or_default();
            let oldest = group.oldest().map(|at| age(now, at)).unwrap_or_default();
            let first = format!("{}  {:>8}  {}{rule}", name.group_id, group.letters(), name.reason);
            text.push_str(&printable_within(&first, width.saturating_sub(1)));
            text.push('\n');
            let (today, yesterday) = (group.sum(|money| money.today), group.sum(|money| money.yesterday));
            let trend = format!("{today} new since yesterday (day before: {yesterday})");
            let facts = format!("{}; oldest {oldest}; {trend}", money_text(&group.money()));
            for line in [&facts, &name.fingerprint] {
                text.push_str(&format!("          {}\n", printable_within(line, width.saturating_sub(11))));
            }
        }
        let letters: i64 = groups.iter().map(Group::letters).sum();
        let count = plural(i64::try_from(groups.len()).unwrap_or(i64::MAX), "group");
        text.push_str(&format!("{} in {count}\n", plural(letters, "open dead letter")));
        if let Some(group) = groups.first() {
            text.push_str(&format!("look closer with `fis dlq list --group {}`\n", group.name.group_id));
        }
        crate::cli::print_text(&text)?;
        Ok(ExitCode::SUCCESS)
    }
}

fn as_json(group: &Group) -> serde_json::Value {
    json!({
        "group": group.name.group_id, "reason": group.name.reason, "rule": group.name.rule_name,
        "fingerprint": group.name.fingerprint, "letters": group.letters(),
        "money": group.money.iter().filter_map(|money| Some(json!({
            "currency": money.currency.as_ref()?, "letters": money.letters, "amount": money.amount?.to_string(),
        }))).collect::<Vec<_>>(),
        "oldest": group.oldest(), "newest": group.newest(),
        "sinceYesterday": group.sum(|money| money.today), "dayBefore": group.sum(|money| money.yesterday),
    })
}
