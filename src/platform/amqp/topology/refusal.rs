//! What RabbitMQ says when it refuses a declaration.
//!
//! Enters: the reply text of a channel error. Leaves: the argument that differs and its present value. What must
//! never happen: a text we cannot read is taken for agreement; it stays a refusal, shown word for word.

use super::super::ReplyCode;
use super::arguments::Argument;

/// A channel-level "no" of the broker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    pub code: ReplyCode,
    pub text: String,
}

/// "inequivalent arg 'x' …": the first difference the broker met.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Inequivalent {
    pub argument: String,
    pub current: Current,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Current {
    Missing,
    Value(Argument),
    /// The broker cuts reply texts at 255 bytes, so the present value may be lost at the end of a long one.
    CutOff,
}

impl Refusal {
    /// The difference this refusal names, where it is one of that kind.
    pub fn inequivalent(&self) -> Option<Inequivalent> {
        if self.code != ReplyCode::PreconditionFailed {
            return None;
        }
        let (_, rest) = self.text.split_once("inequivalent arg '")?;
        let (argument, rest) = rest.split_once('\'')?;
        let current = match rest.split_once(" but current is ") {
            Some((_, said)) => read_current(said),
            None => Current::CutOff,
        };
        Some(Inequivalent { argument: argument.to_owned(), current })
    }
}

/// Reads `none`, `'value'` or `the value 'value' of type 'type'`.
fn read_current(said: &str) -> Current {
    if said.starts_with("none") {
        return Current::Missing;
    }
    let typed = said.strip_prefix("the value '").and_then(|rest| rest.rsplit_once("' of type '"));
    if let Some((value, kind)) = typed {
        return Current::Value(typed_value(value, kind.trim_end_matches('\'')));
    }
    let bare = said.strip_prefix('\'').and_then(|rest| rest.rsplit_once('\''));
    match bare {
        // The short form names no type, so digits are taken for a number. Where they were text after all, the
        // next declaration is refused with the long form, which does name it.
        Some((value, _)) => Current::Value(untyped_value(value)),
        None => Current::CutOff,
    }
}

fn typed_value(value: &str, kind: &str) -> Argument {
    match kind {
        "longstr" => Argument::Text(value.to_owned()),
        "bool" => untyped_value(value),
        // byte, short, signedint, unsignedint, long and their kin
        _ => match value.parse() {
            Ok(number) => Argument::Integer(number),
            Err(_) => Argument::Other(value.to_owned()),
        },
    }
}

fn untyped_value(value: &str) -> Argument {
    match (value, value.parse()) {
        ("true", _) => Argument::Flag(true),
        ("false", _) => Argument::Flag(false),
        (_, Ok(number)) => Argument::Integer(number),
        (_, Err(_)) => Argument::Text(value.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Option<Inequivalent> {
        Refusal { code: ReplyCode::PreconditionFailed, text: text.to_owned() }.inequivalent()
    }

    /// The texts are as RabbitMQ 3.10.8 and 4.0.5 wrote them.
    #[test]
    fn the_argument_and_its_present_value_are_read_from_the_brokers_text() {
        let head = "PRECONDITION_FAILED - inequivalent arg";
        let text = |t: &str| Current::Value(Argument::Text(t.to_owned()));
        let rows = [
            (
                "'x-delivery-limit' for queue 'bare' in vhost 'probe': received the value '5' of type 'long' but current is none",
                "x-delivery-limit",
                Current::Missing,
            ),
            (
                "'x-queue-type' for queue 'bare' in vhost 'probe': received 'classic' but current is 'quorum'",
                "x-queue-type",
                text("quorum"),
            ),
            (
                "'durable' for queue 'bare' in vhost 'probe': received 'false' but current is 'true'",
                "durable",
                Current::Value(Argument::Flag(true)),
            ),
            (
                "'x-overflow' for queue 'full' in vhost 'probe': received none but current is the value 'reject-publish' of type 'longstr'",
                "x-overflow",
                text("reject-publish"),
            ),
            (
                "'x-max-length' for queue 'full' in vhost 'probe': received '5' but current is '7'",
                "x-max-length",
                Current::Value(Argument::Integer(7)),
            ),
            (
                "'x-max-length' for queue 'f' in vhost 'p': received none but current is the value '7' of type 'signedint'",
                "x-max-length",
                Current::Value(Argument::Integer(7)),
            ),
            (
                "'type' for exchange 'ex' in vhost 'probe': received 'direct' but current is 'topic'",
                "type",
                text("topic"),
            ),
            (
                "'x-dead-letter-exchange' for queue 'q' in vhost 'v': received the value 'a' of type 'lo...",
                "x-dead-letter-exchange",
                Current::CutOff,
            ),
            (
                "'x-overflow' for queue 'q' in vhost 'v': received none but current is the value 'reject-pu...",
                "x-overflow",
                Current::CutOff,
            ),
        ];
        for (tail, argument, current) in rows {
            let expected = Inequivalent { argument: argument.to_owned(), current };
            assert_eq!(read(&format!("{head} {tail}")), Some(expected), "{tail}");
        }
    }

    #[test]
    fn a_refusal_of_another_kind_is_not_read_as_a_difference() {
        assert_eq!(read("PRECONDITION_FAILED - unknown delivery tag 7"), None);
        let locked =
            Refusal { code: ReplyCode::ResourceLocked, text: "inequivalent arg 'x' but current is none".to_owned() };
        assert_eq!(locked.inequivalent(), None);
    }
}
