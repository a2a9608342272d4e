//! A message that could not be booked, as it is kept for an admin. Its id is made from its content: the same bad event
//! sent ten times is one dead letter, and whoever sees the message can compute which one.

use rust_decimal::Decimal;
use sha2::{Digest, Sha256};

use super::disposition::Failure;
use super::event::{CLOUD_EVENT_TYPES, Identity, is_cloud_event_type};
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

/// The digits of an id: 130 bits of a hash, so that nobody finds two messages with one id.
const ID_DIGITS: usize = 26;

/// The id of a message's letter: `dl_` and a hash over everything that decides which event the message is. The same bytes that are read as
/// another event, by another routing key, header or content type, are another letter.
#[must_use]
pub fn dead_letter_id<'a>(
    routing_key: &str,
    content_type: Option<&str>,
    identifying_headers: impl Iterator<Item = (&'a str, &'a str)>,
    body: &[u8],
) -> String {
    let mut hash = Sha256::new();
    let mut put = |bytes: &[u8]| {
        hash.update(u64::try_from(bytes.len()).unwrap_or(u64::MAX).to_be_bytes());
        hash.update(bytes);
    };
    put(routing_key.as_bytes());
    if is_cloud_event_type(content_type) {
        // The choice and not its spelling: another character set is no other event.
        put(b"content-type");
        put(CLOUD_EVENT_TYPES.as_bytes());
    }
    for (name, value) in identifying_headers {
        put(name.as_bytes());
        put(value.as_bytes());
    }
    put(body);
    format!("dl_{}", digits(&hash.finalize()))
}

/// The first bits of a hash, five to a digit, without the letters that look like others: an id that fits a line of eighty columns and can be
/// read out.
fn digits(digest: &[u8]) -> String {
    const ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
    let bit = |place: usize| digest.get(place / 8).map_or(0, |byte| usize::from(byte >> (7 - place % 8) & 1));
    let digit = |place: usize| (place * 5..place * 5 + 5).fold(0, |digit, place| digit << 1 | bit(place));
    (0..ID_DIGITS).filter_map(|place| ALPHABET.get(digit(place)).copied()).map(char::from).collect()
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
    fn an_id_is_the_beginning_of_the_hash_five_bits_to_a_digit() {
        assert_eq!(digits(&[0; 32]), "0".repeat(ID_DIGITS));
        assert_eq!(digits(&[0xff; 32]), "z".repeat(ID_DIGITS));
        // 00000 00010 00010 00101 11000
        assert_eq!(digits(&[0x00, 0x84, 0x5c]), format!("0225r{}", "0".repeat(21)));
        assert_eq!(dead_letter_id("k", None, std::iter::empty(), b"{}").len(), "dl_".len() + ID_DIGITS);
    }

    #[test]
    fn whatever_chooses_the_event_is_in_the_id_and_nothing_else_is() {
        let id = |key: &str, kind: Option<&str>, headers: &[(&'static str, &'static str)], body: &[u8]| {
            dead_letter_id(key, kind, headers.iter().copied(), body)
        };
        let cloud = Some("application/cloudevents+json");
        let plain = id("a.b.c", Some("application/json"), &[], b"{}");
        assert_eq!(plain, id("a.b.c", None, &[], b"{}"));
        assert_eq!(
            id("a.b.c", cloud, &[], b"{}"),
            id("a.b.c", Some("application/cloudevents; charset=utf-8"), &[], b"{}")
        );
        let tenant = [("x-fis-tenant", "acme")];
        let others = [
            id("a.b.d", None, &[], b"{}"),
            id("a.b.c", None, &[], b"[]"),
            id("a.b.c", cloud, &[], b"{}"),
            id("a.b.c", None, &tenant, b"{}"),
        ];
        assert!(others.iter().all(|other| *other != plain), "{others:?}");
    }

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
