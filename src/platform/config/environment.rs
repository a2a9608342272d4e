//! The environment's variables: a name enters; the setting that it gives leaves, or that it is none. What must never happen: a
//! variable that somebody else put there, as Kubernetes does for a Service named `fis`, stops the start.

/// The environment's short names of the settings that every deployment has.
const SHORT_NAMES: [(&str, &str); 4] = [
    ("FIS_AMQP_URL", "amqp.url"),
    ("FIS_REDIS_URL", "redis.url"),
    ("FIS_DATABASE_URL", "database.url"),
    ("FIS_HTTP_ADDR", "http.addr"),
];
/// Variables of ours that are no settings: the file's path, a test's crash point or deliberate bug, who is at the keyboard, whose
/// ledger is meant. `FIS_DEV_…` belongs to `./dev`.
const NOT_SETTINGS: [&str; 5] = ["FIS_CONFIG", "FIS_FAILPOINT", "FIS_MUTANT", "FIS_OPERATOR", "FIS_TENANT"];

/// The meaning of a variable's name.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Variable {
    /// The dotted name of a setting, known or not.
    Setting(String),
    /// A name of the form `FIS_…` that says nothing to fis.
    Stranger,
    /// A variable that is none of our business, or ours and no setting.
    Other,
}

pub(super) fn variable(name: &str) -> Variable {
    if let Some((_, setting)) = SHORT_NAMES.iter().find(|(short, _)| *short == name) {
        return Variable::Setting((*setting).to_owned());
    }
    if let Some(rest) = name.strip_prefix("FIS__") {
        return Variable::Setting(rest.to_lowercase().replace("__", "."));
    }
    if !name.starts_with("FIS_") || name.starts_with("FIS_DEV_") || NOT_SETTINGS.contains(&name) {
        return Variable::Other;
    }
    Variable::Stranger
}

/// A warning that names every variable of the form `FIS_…` that is no setting; `None` where there is none. Whoever misspelt
/// `FIS_AMQP_URL` must learn why a default is used. The values stay out: one of them may be a password.
#[must_use]
pub fn strangers(names: impl Iterator<Item = String>) -> Option<String> {
    let mut strangers: Vec<String> = names.filter(|name| variable(name) == Variable::Stranger).collect();
    strangers.sort();
    let known = SHORT_NAMES.map(|(short, _)| short).join(", ");
    (!strangers.is_empty()).then(|| {
        format!(
            "ignored, because no setting has this name: {}; settings are {known} and FIS__SECTION__KEY",
            strangers.join(", ")
        )
    })
}
