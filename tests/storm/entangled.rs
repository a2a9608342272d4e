//! The events whose end depends on others, on the books or on the calendar.

use rust_decimal::Decimal;

use crate::books::{CLOSED_DAY, LATE_CURRENCY, Late, NEVER_CURRENCY, OPEN_SINCE, REOPENED_DAY, TENANTS};
use crate::dialects;
use crate::json::{number, object, text};
use crate::model::{Batch, Draft, Entry, Fate, Meaning, Message};
use crate::script::{Writer, converted, line, variant_of};

/// What the admin sets a mendable order's total to.
pub const MENDED_TOTAL: &str = "119.00";
const CANCELLED: &str = "ecommerce.order.cancelled";

impl Writer {
    /// An earlier message once more: the same bytes, or the same event written by somebody else.
    pub fn duplicate(&mut self) {
        let Some(mut message) = self.rng.choice(&self.script.messages).cloned() else { return };
        if let Meaning::Event { case, variant } = message.meaning
            && self.script.cases[case].edited.is_none()
            && self.rng.bool()
        {
            let draft = self.script.cases[case].variants[variant].draft.clone();
            if let Some(written) = dialects::again(&draft, &mut self.rng) {
                message = dialects::message(written, message.meaning, &mut self.rng);
            }
        }
        self.publish(message);
    }

    fn take_plain(&mut self) -> Option<usize> {
        (!self.plain.is_empty()).then(|| {
            let place = self.rng.usize(..self.plain.len());
            self.plain.swap_remove(place)
        })
    }

    /// The same event id with other content: whichever comes first is posted.
    pub fn conflict(&mut self) {
        let Some(case) = self.take_plain() else { return self.order() };
        let first = &self.script.cases[case].variants[0];
        if first.draft.time.is_none() || first.draft.event_type != "ecommerce.order.completed" {
            return self.order();
        }
        let mut draft = first.draft.clone();
        let date = draft.time.clone();
        let Fate::Posted(entry) = first.fate.clone() else { return self.order() };
        let (payload, lines) = self.order_of(draft.tenant, "EUR");
        (draft.payload, draft.time) = (payload, date);
        let message = self.variant(case, draft, Fate::Posted(Entry { lines, ..entry }));
        self.publish(message);
    }

    /// Something that cannot be booked, and its correction under the same id, in either order.
    pub fn corrected(&mut self) {
        let tenant = self.tenant();
        let (payload, lines) = self.order_of(tenant, "EUR");
        let (good, date) = self.draft(tenant, "ecommerce.order.completed", payload);
        let bad = Draft { payload: good.payload.clone().with("total", text("119.001")), ..good.clone() };
        let entry = Entry { rule: "order-completed", date: Some(date), original_date: None, lines };
        let (case, first) = self.case(bad, Fate::Dead("bad_amount"));
        let second = self.variant(case, good, Fate::Posted(entry));
        let (first, second) = if self.rng.u8(..4) == 0 { (second, first) } else { (first, second) };
        self.publish(first);
        let after = self.number + self.rng.usize(..200);
        self.later.push((after, second));
    }

    /// Something that cannot be booked until the admin has corrected its letter. All are worth the same, so that one command mends many.
    pub fn mendable(&mut self) {
        let tenant = self.tenant();
        let (payload, _) = self.order_of(tenant, "EUR");
        let payload = payload.with("tax", text("19.00"));
        let (mut draft, date) = self.draft(tenant, "ecommerce.order.completed", payload);
        let amounts = [("1100", true, 11_900), ("4000", false, 10_000), ("2200", false, 1_900)];
        let lines = amounts.map(|(account, debit, cents)| line(account, debit, Decimal::new(cents, 2), "EUR"));
        let entry = Entry {
            rule: "order-completed",
            date: Some(date),
            original_date: None,
            lines: converted(tenant, lines.to_vec()),
        };
        let mended = Draft { payload: draft.payload.clone().with("total", text(MENDED_TOTAL)), ..draft.clone() };
        draft.payload = draft.payload.with("total", text("119.001"));
        let written = dialects::canonical(&draft, &mut self.rng);
        let (case, message) = self.case_written(draft, Fate::Dead("bad_amount"), written);
        self.script.cases[case].edited = Some(variant_of(mended, Fate::Posted(entry)));
        self.publish(message);
    }

    fn reversal(&mut self, of: usize) -> (usize, Message) {
        let original = self.script.cases[of].event_id.clone();
        let tenant = self.script.cases[of].variants[0].draft.tenant;
        let payload = object([("orderEventId", text(original)), ("number", number(self.number))]);
        let (draft, _) = self.draft(tenant, CANCELLED, payload);
        self.case(draft, Fate::Reversal { of })
    }

    pub fn cancellation(&mut self) {
        let Some(of) = self.take_plain() else { return self.order() };
        let (case, message) = self.reversal(of);
        self.publish(message);
        if self.rng.u8(..5) == 0 {
            // Twice: one of them comes too late.
            self.number += 1;
            let (_, second) = self.reversal(of);
            let after = self.number + self.rng.usize(..50);
            self.later.push((after, second));
        } else {
            self.reversals.push(case);
        }
    }

    pub fn cancelled_cancellation(&mut self) {
        let Some(of) = self.reversals.pop() else { return self.order() };
        let (_, message) = self.reversal(of);
        self.publish(message);
    }

    /// The reversal is published well before what it reverses.
    pub fn early_cancellation(&mut self) {
        let tenant = self.tenant();
        let (payload, lines) = self.order_of(tenant, "EUR");
        let (draft, date) = self.draft(tenant, "ecommerce.order.completed", payload);
        let entry = Entry { rule: "order-completed", date: Some(date), original_date: None, lines };
        let (of, original) = self.case(draft, Fate::Posted(entry));
        self.number += 1;
        let (_, message) = self.reversal(of);
        self.publish(message);
        let after = self.number + self.rng.usize(..400);
        self.later.push((after, original));
    }

    /// Dated into a closed period.
    pub fn late(&mut self) {
        let tenant = self.tenant();
        let (payload, lines) = self.order_of(tenant, "EUR");
        let (mut draft, _) = self.draft(tenant, "ecommerce.order.completed", payload);
        draft.time = Some(format!("{REOPENED_DAY}T10:00:00Z"));
        let day = Some(REOPENED_DAY.to_owned());
        let entry = |date, original_date| Entry { rule: "order-completed", date, original_date, lines };
        let fate = match TENANTS[tenant].late {
            Late::NextOpen => Fate::Posted(entry(Some(OPEN_SINCE.to_owned()), day)),
            Late::Reject => Fate::Dead("period_closed"),
            Late::Hold => Fate::Posted(entry(day, None)),
        };
        self.plain(draft, fate);
    }

    pub fn awaits_a_rate(&mut self) {
        let tenant = self.tenant();
        let (payload, lines) = self.order_of(tenant, LATE_CURRENCY);
        let (draft, date) = self.draft(tenant, "ecommerce.order.completed", payload);
        let entry = Entry { rule: "order-completed", date: Some(date), original_date: None, lines };
        self.plain(draft, Fate::Posted(entry));
    }

    pub fn held_for_ever(&mut self) {
        let tenant = self.tenant();
        let holds = TENANTS.iter().position(|tenant| tenant.late == Late::Hold).unwrap();
        match self.rng.u8(..3) {
            0 => {
                let (payload, _) = self.order_of(tenant, NEVER_CURRENCY);
                let (draft, _) = self.draft(tenant, "ecommerce.quote.accepted", payload);
                self.plain(draft, Fate::Held("fx_rate_missing"));
            }
            1 => {
                let (payload, _) = self.order_of(holds, "EUR");
                let (mut draft, _) = self.draft(holds, "ecommerce.quote.accepted", payload);
                draft.time = Some(format!("{CLOSED_DAY}T10:00:00Z"));
                self.plain(draft, Fate::Held("period_not_open"));
            }
            _ => {
                let payload = object([("orderEventId", text("never-published")), ("number", number(self.number))]);
                let (draft, _) = self.draft(tenant, "ecommerce.order.refunded", payload);
                self.plain(draft, Fate::Held("original_not_posted"));
            }
        }
    }

    /// Its publisher wants it tried only a few times, and what it waits for never comes.
    pub fn exhausted(&mut self) {
        let tenant = self.tenant();
        let payload = object([("orderEventId", text("never-published")), ("number", number(self.number))]);
        let (mut draft, _) = self.draft(tenant, CANCELLED, payload);
        draft.attempts_max = Some(self.rng.u32(1..3));
        self.plain(draft, Fate::Dead("attempts_exhausted"));
    }

    pub fn ignored(&mut self) {
        let tenant = self.tenant();
        let unmatched = TENANTS[tenant].unmatched_ignored && self.rng.bool();
        let event_type = if unmatched { "weather.storm.seen" } else { "ecommerce.cart.updated" };
        let (mut draft, _) = self.draft(tenant, event_type, object([("items", number(self.number))]));
        // Its batch is the only witness of an event that leaves no other trace.
        draft.batch = Some(self.join(tenant, 0, 0, 1));
        self.plain(draft, Fate::Ignored);
    }

    /// Membership in the batch that the tenant's publisher is filling; the last member tells the size.
    pub fn join(&mut self, tenant: usize, posted: i64, rejected: i64, ignored: i64) -> (String, Option<usize>) {
        let number = self.number;
        let batch = self.filling.entry(tenant).or_insert_with(|| Batch {
            tenant: TENANTS[tenant].name,
            id: format!("run-{number}"),
            ..Batch::default()
        });
        batch.posted += posted;
        batch.rejected += rejected;
        batch.ignored += ignored;
        let id = batch.id.clone();
        let count = usize::try_from(batch.posted + batch.rejected + batch.ignored).unwrap();
        if count < 6 + number % 9 {
            return (id, None);
        }
        let mut full = self.filling.remove(&tenant).unwrap();
        full.size = Some(count);
        self.script.batches.push(full);
        (id, Some(count))
    }
}
