//! Every way in which an event can fail to become an entry: its stable code, whether it may succeed later, the operator's next step,
//! and the advice in a sentence. A new reason does not compile until it has all four; no second table says what to do about one.

use std::fmt;

use super::waits_for::WaitsFor;

/// The fate of an event that fails for a reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Disposition {
    /// The event may succeed later, without anybody touching it: stored with a due time and retried.
    Hold,
    /// The event cannot succeed as it is: rejected to the dead letters.
    Reject,
}

/// The next step of an operator towards an event that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NextStep {
    /// New books, then a replay of all that failed alike.
    ApplyBooks,
    /// New books where the rule is wrong, an edited copy where the event is.
    ApplyBooksOrMendEvent,
    /// An edited copy with the field at fault set.
    MendField,
    /// An edited copy with another body.
    MendBody,
    /// Another event from the publisher; this one is given up.
    AskPublisher,
    /// Nothing is missing; this one is given up.
    Discard,
    /// Another event has to come first; then a replay.
    Wait,
    /// A replay, once the cause in the detail is gone.
    TryAgain,
    /// A close look at this one alone; nothing is known of the others.
    InspectAlone,
}

impl NextStep {
    /// True where an event may post under new books without anybody touching it.
    #[must_use]
    pub fn books_may_mend(self) -> bool {
        match self {
            Self::ApplyBooks | Self::ApplyBooksOrMendEvent | Self::Wait | Self::TryAgain => true,
            Self::MendField | Self::MendBody | Self::AskPublisher | Self::Discard | Self::InspectAlone => false,
        }
    }
}

macro_rules! reasons {
    ($($variant:ident $code:literal $disposition:ident $next:ident $advice:literal;)*) => {
        /// A stable reason code. The same codes appear in metrics, dead letters, outbound rejections and logs.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Reason { $($variant,)* }

        impl Reason {
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            #[must_use]
            pub fn code(self) -> &'static str {
                match self { $(Self::$variant => $code,)* }
            }

            #[must_use]
            pub fn disposition(self) -> Disposition {
                match self { $(Self::$variant => Disposition::$disposition,)* }
            }

            #[must_use]
            pub fn next_step(self) -> NextStep {
                match self { $(Self::$variant => NextStep::$next,)* }
            }

            /// The next step in a sentence, with what is particular about the reason.
            #[must_use]
            pub fn advice(self) -> &'static str {
                match self { $(Self::$variant => $advice,)* }
            }
        }
    };
}

reasons! {
    MalformedJson "malformed_json" Reject MendBody "have the publisher send valid JSON; the offset in the detail points to the fault";
    NotUtf8 "not_utf8" Reject MendBody "have the publisher encode the body as UTF-8";
    TooLarge "too_large" Reject AskPublisher "have the publisher keep events within 256 KiB, for example by splitting a batch";
    MissingField "missing_field" Reject MendField "have the publisher add the field named in the detail";
    BadField "bad_field" Reject MendField "have the publisher correct the field named in the detail";
    UnknownTenant "unknown_tenant" Reject ApplyBooks "apply books for the tenant, then replay; or correct the tenant's name";
    RuleNotFound "rule_not_found" Reject ApplyBooks "add a rule for the event type to the tenant's books, then replay";
    RuleFailed "rule_failed" Reject ApplyBooksOrMendEvent "compare the expression in the detail with the event; mend the rule or the event, then replay";
    Unbalanced "unbalanced" Reject ApplyBooks "mend the rule so that debits equal credits for this event, then replay";
    BadAmount "bad_amount" Reject ApplyBooksOrMendEvent "an amount is zero, negative, too large or finer than its currency; correct the event or the rule";
    UnknownAccount "unknown_account" Reject ApplyBooks "add the account to the tenant's books, then replay";
    AccountClosed "account_closed" Reject ApplyBooks "reopen the account or change the rule, then replay";
    BadCurrency "bad_currency" Reject ApplyBooksOrMendEvent "use an ISO 4217 code that the account accepts";
    PeriodClosed "period_closed" Reject ApplyBooks "open the period or set late_events to next_open, then replay";
    IdempotencyConflict "idempotency_conflict" Reject AskPublisher "the same event id was posted with other content; have the publisher use a new id";
    AlreadyReversed "already_reversed" Reject Discard "nothing: the entry is reversed already; discard this one";
    AttemptsExhausted "attempts_exhausted" Reject TryAgain "remove the cause named in the detail, then replay";
    DeliveryLimit "delivery_limit" Reject InspectAlone "the event kept ending the process or its connection; inspect it before replaying it alone";
    DatabaseRefused "database_refused" Reject InspectAlone "look the SQLSTATE in the detail up; this is a fault in fis or in its schema";
    TenantNotAllowed "tenant_not_allowed" Reject AskPublisher "have the publisher send it as the user that intake.publishers allows for the tenant; or allow the user named in the detail, restart fis and replay";
    FxRateMissing "fx_rate_missing" Hold ApplyBooks "add a rate for the currency and date to the tenant's books";
    OriginalNotPosted "original_not_posted" Hold Wait "wait for the event that this one reverses, or have it sent again";
    PeriodNotOpen "period_not_open" Hold ApplyBooks "add or open the accounting period in the tenant's books";
    BooksUnreadable "books_unreadable" Hold ApplyBooks "apply books for the tenant that this version can read; the detail says what is wrong with those in force";
}

impl Reason {
    #[must_use]
    pub fn from_code(code: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|reason| reason.code() == code)
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.code())
    }
}

impl serde::Serialize for Reason {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.code())
    }
}

/// A reason with the facts of one event.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason}: {detail}")]
pub struct Failure {
    pub reason: Reason,
    pub detail: String,
    /// The thing that the event waits for, where it may succeed later.
    pub waits_for: Option<WaitsFor>,
}

impl Failure {
    pub fn new(reason: Reason, detail: impl Into<String>) -> Self {
        Self { reason, detail: clip(detail.into()), waits_for: None }
    }

    /// A failure that ends when something comes.
    #[must_use]
    pub fn until(mut self, waits_for: WaitsFor) -> Self {
        self.waits_for = Some(waits_for);
        self
    }
}

/// A detail quotes the event, and the event may be hostile: bounded, so that a dead letter stays readable.
const DETAIL_BYTES_MAX: usize = 1000;

fn clip(mut detail: String) -> String {
    if detail.len() > DETAIL_BYTES_MAX {
        let mut end = DETAIL_BYTES_MAX;
        while !detail.is_char_boundary(end) {
            end -= 1;
        }
        detail.truncate(end);
        detail.push('…');
    }
    // PostgreSQL text cannot hold NUL.
    if detail.contains('\0') { detail.replace('\0', "\u{fffd}") } else { detail }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_is_unique_and_found_again() {
        for reason in Reason::ALL {
            assert_eq!(Reason::from_code(reason.code()), Some(*reason));
        }
    }

    #[test]
    fn an_event_that_must_change_is_not_mended_by_books() {
        for reason in [Reason::MalformedJson, Reason::MissingField, Reason::TooLarge, Reason::AlreadyReversed] {
            assert!(!reason.next_step().books_may_mend(), "{reason}");
        }
        for reason in Reason::ALL.iter().filter(|reason| reason.disposition() == Disposition::Hold) {
            assert!(reason.next_step().books_may_mend(), "{reason}");
        }
    }

    #[test]
    fn a_hostile_detail_is_clipped_on_a_character_and_has_no_nul() {
        let failure = Failure::new(Reason::BadField, format!("{}\0", "é".repeat(900)));
        assert!(failure.detail.len() <= DETAIL_BYTES_MAX + '…'.len_utf8());
        assert_eq!(Failure::new(Reason::BadField, "a\0b").detail, "a\u{fffd}b");
    }
}
