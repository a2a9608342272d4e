//! The script of a storm, from a seed: which messages are published in which order, and what each must come to. The same seed
//! and count give the same script, byte by byte.

use std::collections::HashMap;

use fastrand::Rng;
use rust_decimal::Decimal;

use crate::books::{NEVER_CURRENCY, TENANTS, in_base};
use crate::dialects::{self, Written};
use crate::json::{Json, number, object, payload_hash, sha256, text};
use crate::model::{Batch, Case, Draft, Entry, Fate, Line, Meaning, Message, Script, Variant};
use crate::{hostile, poison};

/// One event in so many begins a rush of so many plain ones.
const RUSHES: u32 = 700;
const RUSH: std::ops::Range<usize> = 200..800;
/// From this number on the kinds of events are plain ones.
const PLAIN: u32 = 470;

pub struct Writer {
    pub rng: Rng,
    pub script: Script,
    pub number: usize,
    /// Cases that nobody has reversed or contradicted yet.
    pub plain: Vec<usize>,
    /// Reversals that are alone, and may be reversed themselves.
    pub reversals: Vec<usize>,
    /// Messages that are published later, with the number behind which they come.
    pub later: Vec<(usize, Message)>,
    /// The batch that a tenant's publisher is filling.
    pub filling: HashMap<usize, Batch>,
    /// So many events are left of a rush of plain ones in one lane: whole batches of them are decided ahead.
    rush: usize,
    rushed: usize,
    /// What the hostile publisher has in hand: each kind once before any comes again.
    pub hand: Vec<hostile::Kind>,
}

pub fn script(seed: u64, count: usize) -> Script {
    let mut writer = Writer {
        rng: Rng::with_seed(seed),
        script: Script::default(),
        number: 0,
        plain: Vec::new(),
        reversals: Vec::new(),
        later: Vec::new(),
        filling: HashMap::new(),
        rush: 0,
        rushed: 0,
        hand: Vec::new(),
    };
    // A rush takes no time.
    while writer.script.messages.len() - writer.rushed < count {
        writer.number += 1;
        writer.one();
        writer.publish_due(writer.number);
    }
    writer.publish_due(usize::MAX);
    let unfinished = std::mem::take(&mut writer.filling);
    writer.script.batches.extend(unfinished.into_values());
    writer.script.batches.sort_by(|a, b| (a.tenant, &a.id).cmp(&(b.tenant, &b.id)));
    writer.script
}

impl Writer {
    fn one(&mut self) {
        if self.rush == 0 && self.rng.u32(..RUSHES) == 0 {
            self.rush = self.rng.usize(RUSH);
        }
        // From here on there are only plain ones.
        let kinds = if self.rush == 0 { 0..1000 } else { PLAIN..1000 };
        self.rush = self.rush.saturating_sub(1);
        match self.rng.u32(kinds) {
            0..110 => self.duplicate(),
            110..140 => self.conflict(),
            140..155 => self.corrected(),
            155..215 => self.cancellation(),
            215..225 => self.cancelled_cancellation(),
            225..255 => self.early_cancellation(),
            255..285 => self.late(),
            285..315 => self.awaits_a_rate(),
            315..325 => self.held_for_ever(),
            325..330 => self.exhausted(),
            330..370 => self.ignored(),
            370..410 => poison::one(self),
            410..420 => self.mendable(),
            420..PLAIN => hostile::one(self),
            PLAIN..520 => self.salaries(),
            520..570 => self.exchange(),
            570..640 => self.invoice(),
            _ => self.order(),
        }
    }

    fn publish_due(&mut self, number: usize) {
        let (due, later) = std::mem::take(&mut self.later).into_iter().partition(|(after, _)| *after <= number);
        self.later = later;
        let due: Vec<(usize, Message)> = due;
        self.script.messages.extend(due.into_iter().map(|(_, message)| message));
    }

    pub fn tenant(&mut self) -> usize {
        self.rng.usize(..TENANTS.len())
    }

    pub fn id(&mut self) -> String {
        match self.rng.u8(..20) {
            0 => format!("évt {:06}/ä:😀", self.number),
            _ => format!("evt-{:06}", self.number),
        }
    }

    /// Adds a case, and returns its first message.
    pub fn case(&mut self, draft: Draft, fate: Fate) -> (usize, Message) {
        let written = dialects::first(&draft, &mut self.rng);
        self.case_written(draft, fate, written)
    }

    /// The same, written down like this.
    pub fn case_written(&mut self, draft: Draft, fate: Fate, written: Written) -> (usize, Message) {
        let case = self.script.cases.len();
        let tenant = TENANTS[draft.tenant].name;
        self.script.cases.push(Case { tenant, event_id: draft.event_id.clone(), variants: Vec::new(), edited: None });
        (case, self.variant_written(case, draft, fate, written))
    }

    pub fn variant(&mut self, case: usize, draft: Draft, fate: Fate) -> Message {
        let written = dialects::first(&draft, &mut self.rng);
        self.variant_written(case, draft, fate, written)
    }

    pub fn variant_written(&mut self, case: usize, draft: Draft, fate: Fate, written: Written) -> Message {
        let variant = self.script.cases[case].variants.len();
        self.script.cases[case].variants.push(variant_of(draft, fate));
        dialects::message(written, Meaning::Event { case, variant }, &mut self.rng)
    }

    pub fn publish(&mut self, message: Message) {
        self.script.messages.push(message);
    }

    /// A new event that stands alone: nobody contradicts it; where it is posted it may be reversed.
    pub fn plain(&mut self, draft: Draft, fate: Fate) {
        let posted = matches!(fate, Fate::Posted(_));
        let in_batch = draft.batch.is_some();
        let (case, mut message) = self.case(draft, fate);
        if posted && !in_batch {
            self.plain.push(case);
        }
        if self.rush > 0 {
            (message.rush, message.exchange) = (true, dialects::EXCHANGES[0]);
            self.rushed += 1;
        }
        self.publish(message);
    }

    /// A day in the open period with the tenant's local date, and a time for the envelope.
    fn day(&mut self, tenant: usize) -> (String, String) {
        let (month, day) = (self.rng.u8(1..3), self.rng.u8(1..28));
        let date = format!("2026-{month:02}-{day:02}");
        if TENANTS[tenant].eastern && self.rng.u8(..4) == 0 {
            return (format!("2026-{month:02}-{:02}", day + 1), format!("{date}T23:30:00Z"));
        }
        let time = format!("{date}T10:{:02}:00Z", self.rng.u8(..60));
        (date, time)
    }

    pub fn draft(&mut self, tenant: usize, event_type: &str, payload: Json) -> (Draft, String) {
        let (date, time) = self.day(tenant);
        let event_id = self.id();
        let event_type = event_type.to_owned();
        (Draft { tenant, event_id, event_type, time: Some(time), payload, batch: None, attempts_max: None }, date)
    }

    /// An order's payload and its lines.
    pub fn order_of(&mut self, tenant: usize, currency: &str) -> (Json, Vec<Line>) {
        let decimals = if currency == "JPY" { 0 } else { 2 };
        let total = self.rng.i64(100..1_000_000);
        let tax = if self.rng.u8(..5) == 0 { 0 } else { total / 6 };
        let (total, tax) = (Decimal::new(total, decimals), Decimal::new(tax, decimals));
        let payload = object([
            ("orderId", text(format!("ord-{}", self.number))),
            ("currency", text(currency)),
            ("total", self.money(total)),
            ("tax", self.money(tax)),
            ("note", text(["Grüße", "a \"quoted\"\n line", "", "€ \u{1} \\ /"][self.rng.usize(..4)])),
        ]);
        let mut lines = vec![line("1100", true, total, currency), line("4000", false, total - tax, currency)];
        if !tax.is_zero() {
            lines.push(line("2200", false, tax, currency));
        }
        (payload, converted(tenant, lines))
    }

    fn money(&mut self, amount: Decimal) -> Json {
        if self.rng.bool() { text(amount.to_string()) } else { number(amount) }
    }

    pub fn order(&mut self) {
        let tenant = self.tenant();
        let currency = ["EUR", "EUR", "EUR", "USD", "USD", "JPY"][self.rng.usize(..6)];
        let (payload, lines) = self.order_of(tenant, currency);
        let (mut draft, date) = self.draft(tenant, "ecommerce.order.completed", payload);
        let mut date = Some(date);
        match self.rng.u8(..10) {
            0 => {
                // Without an envelope: known by its bytes, dated when it was received.
                draft.payload = draft.payload.with("tenantId", text(TENANTS[tenant].name));
                draft.payload = draft.payload.with("number", number(self.number));
                draft.event_id = format!("sha256:{}", sha256(draft.payload.compact().as_bytes()));
                (draft.time, date) = (None, None);
            }
            1 | 2 if self.rush == 0 => draft.batch = Some(self.join(tenant, 1, 0, 0)),
            _ => {}
        }
        let entry = Entry { rule: "order-completed", date, original_date: None, lines };
        self.plain(draft, Fate::Posted(entry));
    }

    fn salaries(&mut self) {
        let tenant = self.tenant();
        let (mut slips, mut lines) = (Vec::new(), Vec::new());
        for _ in 0..self.rng.usize(1..5) {
            let department = ["10", "20"][self.rng.usize(..2)];
            let gross = Decimal::new(self.rng.i64(200_000..900_000), 2);
            let withheld = Decimal::new(self.rng.i64(1_000..90_000), 2);
            let (gross_json, withheld_json) = (self.money(gross), self.money(withheld));
            slips.push(object([("department", text(department)), ("gross", gross_json), ("withheld", withheld_json)]));
            lines.push(line(&format!("60{department}"), true, gross, "USD"));
            lines.push(line("1000", false, gross - withheld, "USD"));
            lines.push(line("2300", false, withheld, "USD"));
        }
        let payload = object([("currency", text("USD")), ("payslips", Json::List(slips))]);
        let (draft, date) = self.draft(tenant, "payroll.salary.disbursed", payload);
        let lines = converted(tenant, lines);
        self.plain(draft, Fate::Posted(Entry { rule: "salaries", date: Some(date), original_date: None, lines }));
    }

    fn invoice(&mut self) {
        let tenant = self.tenant();
        let amount = Decimal::new(self.rng.i64(100..100_000), 2);
        let money = self.money(amount);
        let payload = object([
            ("currency", text("EUR")),
            ("account", text("1100")),
            ("paid", money.clone()),
            ("due", money),
            ("number", number(self.number)),
        ]);
        let lines = converted(tenant, vec![line("1000", true, amount, "EUR"), line("1100", false, amount, "EUR")]);
        let (draft, date) = self.draft(tenant, "billing.invoice.paid", payload);
        self.plain(draft, Fate::Posted(Entry { rule: "invoice-paid", date: Some(date), original_date: None, lines }));
    }

    /// Two currencies in one entry; now and then a cent is left over.
    fn exchange(&mut self) {
        let tenant = self.tenant();
        let home = TENANTS[tenant].base;
        let sold = Decimal::new(self.rng.i64(1_000..9_000_000), 0);
        let residue = Decimal::new(self.rng.i64(-1..2), 2);
        let bought = in_base(&TENANTS[tenant], sold, "JPY") + residue;
        let side = |amount: Json, currency: &str| object([("amount", amount), ("currency", text(currency))]);
        let (bought_json, sold_json) = (self.money(bought), self.money(sold));
        let payload = object([
            ("bought", side(bought_json, home)),
            ("sold", side(sold_json, "JPY")),
            ("number", number(self.number)),
        ]);
        let lines = converted(tenant, vec![line("1000", true, bought, home), line("1010", false, sold, "JPY")]);
        let (draft, date) = self.draft(tenant, "treasury.exchange.settled", payload);
        self.plain(draft, Fate::Posted(Entry { rule: "exchange", date: Some(date), original_date: None, lines }));
    }
}

pub fn variant_of(draft: Draft, fate: Fate) -> Variant {
    let payload_hash = payload_hash(&draft.event_type, &draft.payload, TENANTS[draft.tenant].name);
    Variant { draft, payload_hash, fate }
}

pub fn line(account: &str, debit: bool, amount: Decimal, currency: &str) -> Line {
    Line { account: account.to_owned(), debit, amount, currency: currency.to_owned(), base: amount }
}

/// With base amounts, and the line that takes what rounding left over.
pub fn converted(tenant: usize, mut lines: Vec<Line>) -> Vec<Line> {
    let tenant = &TENANTS[tenant];
    if lines.iter().all(|line| line.currency == tenant.base || line.currency == NEVER_CURRENCY) {
        return lines;
    }
    for line in &mut lines {
        line.base = in_base(tenant, line.amount, &line.currency);
    }
    let sum = |debit: bool| lines.iter().filter(|line| line.debit == debit).map(|line| line.base).sum::<Decimal>();
    let residue = sum(true) - sum(false);
    if !residue.is_zero() {
        lines.push(line("6999", residue.is_sign_negative(), residue.abs(), tenant.base));
    }
    lines
}
