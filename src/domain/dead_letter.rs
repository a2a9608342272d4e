//! A message that could not be booked, as it is kept for an admin. Its id is made from its content: the same bad event
//! sent ten times is one dead letter, and whoever sees the message can compute which one.

use rust_decimal::Decimal;
use sha2::{Digest, Sha256};

use super::disposition::Failure;
use super::event::Identity;
use super::json::Json;
use super::money::{AMOUNT_MAX, Currency};

/// Decimals that an amount may name: two more than any currency has, so that one that is too fine is shown as it came.
const SCALE_MAX: u32 = 6;

#[derive(Debug, Clone)]
pub struct DeadLetter {
    pub id: String,
    pub payload_hash: Option<String>,
    pub identity: Identity,
    pub routing_key: String,
    pub lane: &'static str,
    pub failure: Failure,
    pub money: Option<(Decimal, Currency)>,
    pub message_id: Option<String>,
    pub traceparent: Option<String>,
    pub properties: String,
    pub body: Vec<u8>,
}

/// `dl_` and 80 bits of a hash: short enough to type, long enough to be unique among billions.
#[must_use]
pub fn dead_letter_id<'a>(
    routing_key: &str,
    identifying_headers: impl Iterator<Item = (&'a str, &'a str)>,
    body: &[u8],
) -> String {
    let mut hash = Sha256::new();
    let mut put = |bytes: &[u8]| {
        hash.update(u64::try_from(bytes.len()).unwrap_or(u64::MAX).to_be_bytes());
        hash.update(bytes);
    };
    put(routing_key.as_bytes());
    for (name, value) in identifying_headers {
        put(name.as_bytes());
        put(value.as_bytes());
    }
    put(body);
    let digest = hash.finalize();
    format!("dl_{}", hex::encode(digest.get(..10).unwrap_or(&digest)))
}

/// Reads the money that a payload says it is worth, where it says so in the usual words.
#[must_use]
pub fn money_of(payload: &Json<'_>) -> Option<(Decimal, Currency)> {
    let currency = match payload.get("currency")? {
        Json::String(code) => Currency::parse(code)?,
        _ => return None,
    };
    let amount = ["total", "amount", "gross", "net"].iter().find_map(|name| payload.get(name))?;
    let amount = match amount {
        Json::Number(number) => number.to_decimal().ok()?,
        Json::String(text) => super::json::decimal_from_str(text).ok()?,
        _ => return None,
    };
    // What no line could bear is no money to add up: sums of it would not be exact, nor fit what reads them.
    (amount.abs() < AMOUNT_MAX && amount.scale() <= SCALE_MAX).then_some((amount, currency))
}

#[cfg(test)]
mod tests {
    use super::super::json;
    use super::*;

    #[test]
    fn only_what_a_line_could_bear_is_money() {
        let money = |text: &str| money_of(&json::parse(text).unwrap()).map(|(amount, _)| amount.to_string());
        let eur = |amount: &str| money(&format!(r#"{{"currency": "EUR", "total": {amount}}}"#));
        assert_eq!(eur("\"11.905\"").as_deref(), Some("11.905"));
        assert_eq!(eur("-999999999999999.999999").as_deref(), Some("-999999999999999.999999"));
        // Two of these would not fit any sum.
        for amount in ["79228162514264337593543950335", "1000000000000000", "0.0000001", "1e28", "null"] {
            assert_eq!(eur(amount), None, "{amount}");
        }
        assert_eq!(money(r#"{"currency": "XXX", "total": "1.00"}"#), None);
    }
}
