//! Who may send for whom: the setting `intake.publishers` enters, and for an event the user who sent it, as the broker has validated it. Leaves: nothing,
//! or the reason why the event is refused. What must never happen: a user who is not listed sends for a tenant.

use std::collections::{BTreeMap, BTreeSet};

use crate::domain::disposition::{Failure, Reason};
use crate::domain::ids::TenantId;

/// The users of the broker and their tenants. None at all: everybody sends for everybody.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Publishers(BTreeMap<String, Tenants>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Tenants {
    All,
    Named(BTreeSet<TenantId>),
}

impl Publishers {
    /// Reads `USER=TENANT,TENANT USER=*`: users with spaces in between, each with its tenants.
    ///
    /// # Errors
    /// The text is wrong; the error says how, in words.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut users = BTreeMap::new();
        for part in text.split_whitespace() {
            // At the last one: a name may have this sign, a tenant may not.
            let (user, tenants) = part.rsplit_once('=').ok_or_else(|| format!("`{part}` is not USER=TENANT,TENANT"))?;
            if user.is_empty() {
                return Err(format!("`{part}` names no user"));
            }
            let tenants = match tenants {
                "*" => Tenants::All,
                names => Tenants::Named(
                    names
                        .split(',')
                        .map(|name| TenantId::parse(name).map_err(|error| format!("tenant of user `{user}`: {error}")))
                        .collect::<Result<_, _>>()?,
                ),
            };
            if users.insert(user.to_owned(), tenants).is_some() {
                return Err(format!("user `{user}` is named twice"));
            }
        }
        Ok(Self(users))
    }

    /// Refuses an event whose sender may not send for its tenant.
    ///
    /// # Errors
    /// The reason.
    pub fn check(&self, user: Option<&str>, tenant: &TenantId) -> Result<(), Failure> {
        if self.0.is_empty() {
            return Ok(());
        }
        let Some(user) = user else {
            let detail = format!("the message has no user_id, and only known users may send for tenant `{tenant}`");
            return Err(Failure::new(Reason::TenantNotAllowed, detail));
        };
        let allowed = match self.0.get(user) {
            None => false,
            Some(Tenants::All) => true,
            Some(Tenants::Named(tenants)) => tenants.contains(tenant),
        };
        if allowed {
            return Ok(());
        }
        let detail = format!("user `{user}` may not send for tenant `{tenant}`");
        Err(Failure::new(Reason::TenantNotAllowed, detail))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tenant(name: &str) -> TenantId {
        TenantId::parse(name).unwrap()
    }

    #[test]
    fn a_user_sends_for_its_own_tenants_alone() {
        let publishers = Publishers::parse("shop=acme,beta  importer=* a=b=acme").unwrap();
        let may = |user: &str, name: &str| publishers.check(Some(user), &tenant(name)).is_ok();
        assert!(may("shop", "acme") && may("shop", "beta") && !may("shop", "gamma"));
        assert!(may("importer", "gamma") && may("a=b", "acme"));
        assert!(!may("stranger", "acme") && !may("", "acme") && !may("Shop", "acme"));
        let nobody = publishers.check(None, &tenant("acme")).unwrap_err();
        assert_eq!(nobody.reason, Reason::TenantNotAllowed);
    }

    #[test]
    fn without_users_everybody_sends_for_everybody() {
        let publishers = Publishers::parse(" ").unwrap();
        assert!(
            publishers.check(None, &tenant("acme")).is_ok() && publishers.check(Some("x"), &tenant("acme")).is_ok()
        );
    }

    #[test]
    fn a_wrong_list_is_refused_with_the_place() {
        for (text, word) in [
            ("shop", "`shop` is not"),
            ("=acme", "names no user"),
            ("shop=", "user `shop`"),
            ("shop=acme,", "user `shop`"),
            ("shop=a/b", "user `shop`"),
            ("shop=acme shop=beta", "named twice"),
        ] {
            let error = Publishers::parse(text).unwrap_err();
            assert!(error.contains(word), "{text}: {error}");
        }
    }
}
