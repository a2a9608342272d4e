//! One rule: an event that it matches enters, a balanced entry, a request to reverse or `Ignored` leaves. Expressions are
//! compiled once per version and total: an event can make them fail, never run away.

use std::borrow::Cow;

use chrono::{DateTime, NaiveDate, Utc};

use super::Books;
use super::topic::TopicPattern;
use crate::domain::disposition::{Failure, Reason};
use crate::domain::entry::{BalancedEntry, DraftEntry, DraftLine, LINES_MAX, Side};
use crate::domain::event::InboundEvent;
use crate::domain::expr::{EvalError, Expr, ITEM, Scope, Template};
use crate::domain::ids::EventId;
use crate::domain::json::Json;
use crate::domain::retry::RetryPolicy;

/// The names a rule's expressions may start from; `item` only where the rule says `each`.
pub const ROOTS: [&str; 7] = ["payload", ITEM, "eventType", "eventId", "tenantId", "occurredAt", "correlationId"];

#[derive(Debug)]
pub struct Rule {
    pub name: String,
    pub on: TopicPattern,
    pub when: Option<Expr>,
    pub action: Action,
    pub retry: Option<RetryPolicy>,
}

#[derive(Debug)]
pub enum Action {
    Ignore,
    Reverse(Box<ReverseAction>),
    Post(Box<PostAction>),
}

#[derive(Debug)]
pub struct ReverseAction {
    pub original: Expr,
    pub date: Option<Expr>,
    pub description: Option<Template>,
}

#[derive(Debug)]
pub struct PostAction {
    pub each: Option<Expr>,
    pub date: Option<Expr>,
    pub currency: Expr,
    pub description: Template,
    pub lines: Vec<LineRule>,
}

#[derive(Debug)]
pub struct LineRule {
    pub side: Side,
    pub account: Template,
    pub amount: Expr,
    pub currency: Option<Expr>,
    pub when: Option<Expr>,
}

/// The result of mapping an event by the books.
#[derive(Debug)]
pub enum Mapped {
    /// The rule that says so; `None`: no rule matches, and the books ignore what none matches.
    Ignored {
        rule: Option<String>,
    },
    Entry {
        entry: BalancedEntry,
        rule: String,
    },
    Reversal(ReversalRequest),
}

/// The event asks to reverse another one's entry; only the ledger knows whether that entry exists.
#[derive(Debug)]
pub struct ReversalRequest {
    pub original: EventId,
    /// The date that an operator has asked for.
    pub asked_date: Option<NaiveDate>,
    /// The reversal's own date, used where the original's period is closed.
    pub own_date: NaiveDate,
    pub description: Option<String>,
    pub rule: String,
}

/// The lines that a rule has proposed so far.
struct Drafts<'v> {
    lines: Vec<DraftLine<'v>>,
    /// The rule's currency, once it is known, where it is the same for every item.
    currency: Option<Cow<'v, str>>,
}

impl Rule {
    /// Tells whether this rule is about an event whose type has these words.
    ///
    /// # Errors
    /// The condition cannot be evaluated for this event.
    pub fn matches(&self, words: &[&str], scope: &Scope<'_>) -> Result<bool, Failure> {
        let (is_named, looks) = self.on.matches(words);
        if !scope.spend(looks) {
            return Err(self.failed(&EvalError::too_many_steps(&self.on.text())));
        }
        if !is_named {
            return Ok(false);
        }
        self.when.as_ref().map_or(Ok(true), |when| when.eval_bool(scope).map_err(|error| self.failed(&error)))
    }

    pub(super) fn map<'v>(
        &'v self,
        event: &InboundEvent<'_>,
        scope: &mut Scope<'v>,
        books: &Books,
        received_at: DateTime<Utc>,
    ) -> Result<Mapped, Failure> {
        match &self.action {
            Action::Ignore => Ok(Mapped::Ignored { rule: Some(self.name.clone()) }),
            Action::Reverse(reverse) => {
                let ReverseAction { original, date, description } = reverse.as_ref();
                let own_date = self.date(date.as_ref(), scope, event, books, received_at)?;
                let text = original.eval_text(scope).map_err(|error| self.failed(&error))?;
                let original = EventId::parse(&text).map_err(|error| {
                    Failure::new(Reason::RuleFailed, format!("rule `{}`: the event to reverse {error}", self.name))
                })?;
                let description = description.as_ref().map(|template| self.text(template, scope)).transpose()?;
                Ok(Mapped::Reversal(ReversalRequest {
                    original,
                    asked_date: None,
                    own_date,
                    description,
                    rule: self.name.clone(),
                }))
            }
            Action::Post(post) => {
                let date = self.date(post.date.as_ref(), scope, event, books, received_at)?;
                let description = self.text(&post.description, scope)?;
                let mut drafts = Drafts { lines: Vec::with_capacity(post.lines.len()), currency: None };
                match &post.each {
                    None => self.lines(post, scope, &mut drafts)?,
                    Some(each) => {
                        for item in each.eval_list(scope).map_err(|error| self.failed(&error))? {
                            scope.bind_json(ITEM, item);
                            self.lines(post, scope, &mut drafts)?;
                        }
                    }
                }
                let draft = DraftEntry { date, description, lines: drafts.lines };
                let entry = BalancedEntry::balance(draft, books)?;
                Ok(Mapped::Entry { entry, rule: self.name.clone() })
            }
        }
    }

    /// The accounting date alone; `None` where the rule has none, or it cannot be read.
    pub fn event_date(
        &self,
        event: &InboundEvent<'_>,
        scope: &Scope<'_>,
        books: &Books,
        received_at: DateTime<Utc>,
    ) -> Option<NaiveDate> {
        let date = match &self.action {
            Action::Ignore => return None,
            Action::Reverse(reverse) => reverse.date.as_ref(),
            Action::Post(post) => post.date.as_ref(),
        };
        self.date(date, scope, event, books, received_at).ok()
    }

    fn lines<'v>(&self, post: &'v PostAction, scope: &Scope<'v>, drafts: &mut Drafts<'v>) -> Result<(), Failure> {
        let failed = |error: EvalError| self.failed(&error);
        for line in &post.lines {
            if let Some(when) = &line.when
                && !when.eval_bool(scope).map_err(failed)?
            {
                continue;
            }
            if drafts.lines.len() >= LINES_MAX {
                let detail = format!("rule `{}` makes more than {LINES_MAX} lines", self.name);
                return Err(Failure::new(Reason::RuleFailed, detail));
            }
            let account = line.account.eval(scope).map_err(failed)?;
            let amount = line.amount.eval_decimal(scope).map_err(failed)?;
            let currency = match (&line.currency, &drafts.currency) {
                (Some(own), _) => own.eval_text(scope).map_err(failed)?,
                (None, Some(known)) => known.clone(),
                (None, None) => {
                    let text = post.currency.eval_text(scope).map_err(failed)?;
                    drafts.currency = (!post.currency.uses(ITEM)).then(|| text.clone());
                    text
                }
            };
            drafts.lines.push(DraftLine { account, side: line.side, amount, currency });
        }
        Ok(())
    }

    /// The accounting date: the rule's, else the event's, else the day of receipt, always in the tenant's zone.
    fn date(
        &self,
        date: Option<&Expr>,
        scope: &Scope<'_>,
        event: &InboundEvent<'_>,
        books: &Books,
        received_at: DateTime<Utc>,
    ) -> Result<NaiveDate, Failure> {
        let Some(date) = date else {
            return Ok(books.calendar.local_date(event.occurred_at.unwrap_or(received_at)));
        };
        let text = date.eval_text(scope).map_err(|error| self.failed(&error))?;
        // chrono also reads blanks, signs and single digits; a date has one spelling.
        if let Ok(day) = text.parse::<NaiveDate>()
            && day.to_string() == text
        {
            return Ok(day);
        }
        let instant = DateTime::parse_from_rfc3339(&text).map_err(|_| {
            let detail = format!("rule `{}`: `{}` is neither a date nor an RFC 3339 time", self.name, date.source());
            Failure::new(Reason::RuleFailed, detail)
        })?;
        Ok(books.calendar.local_date(instant.to_utc()))
    }

    fn text(&self, template: &Template, scope: &Scope<'_>) -> Result<String, Failure> {
        template.eval(scope).map(Cow::into_owned).map_err(|error| self.failed(&error))
    }

    fn failed(&self, error: &EvalError) -> Failure {
        Failure::new(Reason::RuleFailed, format!("rule `{}`: {error}", self.name))
    }
}

/// For `scope`, which borrows it.
pub(super) fn occurred_text(event: &InboundEvent<'_>) -> Option<String> {
    event.occurred_at.map(crate::domain::chain::instant_text)
}

static MISSING: Json<'static> = Json::Null;

/// The part of an event that expressions see. Bound in the order of `ROOTS`, which makes look-ups cheapest. What the event lacks is null.
pub(super) fn scope<'a>(event: &'a InboundEvent<'a>, occurred_at: Option<&'a str>) -> Scope<'a> {
    let mut scope = Scope::new();
    scope.bind_json("payload", &event.payload);
    scope.bind_json(ITEM, &MISSING);
    scope.bind_text("eventType", event.event_type.as_str());
    scope.bind_text("eventId", event.event_id.as_str());
    scope.bind_text("tenantId", event.tenant_id.as_str());
    match occurred_at {
        Some(text) => scope.bind_text("occurredAt", text),
        None => scope.bind_json("occurredAt", &MISSING),
    }
    match &event.correlation_id {
        Some(text) => scope.bind_text("correlationId", text),
        None => scope.bind_json("correlationId", &MISSING),
    }
    scope
}
