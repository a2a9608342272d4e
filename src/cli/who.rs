//! The person behind a command that writes. `--by` and the environment enter, an operator with a name leaves. An act that nobody can be named for
//! is refused: the record must never say that nobody did it.

use std::os::unix::fs::MetadataExt;

use super::exit::WrongUsage;
use crate::domain::operator::{Operator, OperatorError, Through, WHY_BYTES_MAX};

/// The one argument of every command that writes.
#[derive(clap::Args, Clone)]
pub struct Who {
    /// The operator's name, for the record [default: $FIS_OPERATOR, else $USER, else the login name]
    #[arg(long, value_name = "NAME")]
    by: Option<String>,
}

impl Who {
    /// The operator with a reason; an empty one where the act needs none.
    pub fn acting(&self, why: &str) -> Result<Operator, WrongUsage> {
        let variable = |name: &str| std::env::var(name).ok();
        let (place, name) = named(self.by.clone(), variable, login_name).ok_or_else(|| {
            WrongUsage(
                "nobody can be named for the record, and nothing was done: give --by NAME, or set FIS_OPERATOR"
                    .to_owned(),
            )
        })?;
        Operator::new(&name, why, Through::CommandLine).map_err(|error| {
            WrongUsage(match error {
                OperatorError::LongReason => format!("--why is longer than {WHY_BYTES_MAX} bytes"),
                OperatorError::Nobody | OperatorError::LongName | OperatorError::BadName => format!("{place}: {error}"),
            })
        })
    }
}

/// The place that a name was found in, and the name. What is said in the command is taken even where it is empty, and refused later; an empty variable
/// is one that is not set.
fn named(
    by: Option<String>,
    variable: impl Fn(&str) -> Option<String>,
    login: impl FnOnce() -> Option<String>,
) -> Option<(&'static str, String)> {
    let set = |name: &'static str| Some((name, variable(name).filter(|value| !value.trim().is_empty())?));
    by.map(|by| ("--by", by))
        .or_else(|| set("FIS_OPERATOR"))
        .or_else(|| set("USER"))
        .or_else(|| Some(("the login name", login()?)))
}

/// The name that the password file has for whom this process runs as.
fn login_name() -> Option<String> {
    let user = std::fs::metadata("/proc/self").ok()?.uid();
    name_of(user, &std::fs::read_to_string("/etc/passwd").ok()?)
}

fn name_of(user: u32, passwords: &str) -> Option<String> {
    let of_user = |line: &str| {
        let mut fields = line.split(':');
        let name = fields.next().filter(|name| !name.is_empty())?;
        (fields.nth(1)?.parse() == Ok(user)).then(|| name.to_owned())
    };
    passwords.lines().find_map(of_user)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_who_is_named_does_it() {
        let login = || Some("root".to_owned());
        let rows = [
            (Some("anna"), Some("bob"), Some("carl"), ("--by", "anna")),
            (Some(""), Some("bob"), Some("carl"), ("--by", "")),
            (None, Some("bob"), Some("carl"), ("FIS_OPERATOR", "bob")),
            (None, Some(" "), Some("carl"), ("USER", "carl")),
            (None, None, None, ("the login name", "root")),
        ];
        for (by, operator, user, (place, name)) in rows {
            let variable = |name: &str| if name == "USER" { user } else { operator }.map(str::to_owned);
            let found = named(by.map(str::to_owned), variable, login);
            assert_eq!(found, Some((place, name.to_owned())), "{by:?} {operator:?} {user:?}");
        }
        assert_eq!(named(None, |_| None, || None), None);
    }

    #[test]
    fn a_login_name_is_that_of_the_number() {
        let passwords = "root:x:0:0::/root:/bin/sh\nbroken\n:x:7:7::/:/\nanna:x:1000:1000:Anna:/home/anna:/bin/sh\n";
        assert_eq!(name_of(1000, passwords).as_deref(), Some("anna"));
        assert_eq!(name_of(0, passwords).as_deref(), Some("root"));
        assert_eq!(name_of(7, passwords), None);
        assert_eq!(name_of(1, passwords), None);
    }

    #[test]
    fn a_wrong_name_is_refused_with_its_place() {
        let by = |name: &str| Who { by: Some(name.to_owned()) }.acting("").map_err(|error| error.to_string());
        assert_eq!(by("anna").unwrap().by(), "anna");
        assert_eq!(by(" ").unwrap_err(), "--by: nobody is named who does it");
        assert!(by("an\nna").unwrap_err().contains("control character"));
        assert!(by(&"a".repeat(201)).unwrap_err().contains("longer than 200 bytes"));
    }
}
