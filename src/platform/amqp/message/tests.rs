//! Properties that are stored come back whole, and what must not travel is left out.

use super::*;

#[test]
fn properties_survive_text_and_lose_what_would_change_their_meaning() {
    let mut headers = FieldTable::default();
    headers.insert("x-fis-tenant".into(), AMQPValue::LongString("acme".into()));
    headers.insert("n".into(), AMQPValue::ShortInt(-7));
    headers.insert("x-death".into(), AMQPValue::Void);
    headers.insert("x-last-death-queue".into(), AMQPValue::Void);
    headers.insert("CC".into(), AMQPValue::Void);
    let lapin = BasicProperties::default()
        .with_headers(headers)
        .with_message_id("m1".into())
        .with_type("t".into())
        .with_expiration("1000".into())
        .with_user_id("guest".into())
        .with_priority(9);
    let properties = Properties::from_lapin(lapin);
    let text = properties.to_text();
    assert_eq!(Properties::from_text(&text).as_ref(), Some(&properties));
    assert_eq!(Properties::from_text(&text[..text.len() / 2]), None, "half a text is no text");
    assert_eq!(Properties::from_text(""), None);

    let carried = properties.carried();
    assert_eq!(carried.header("x-fis-tenant"), Some("acme"));
    assert_eq!(carried.header_number("n"), Some(-7));
    assert_eq!((carried.message_id(), carried.kind()), (Some("m1"), Some("t")));
    assert_eq!(carried.user_id(), Some("guest"));
    assert!(carried.0.expiration().is_none() && carried.0.priority().is_none());
    let names: Vec<_> = carried.0.headers().as_ref().unwrap().inner().keys().map(ShortString::as_str).collect();
    assert_eq!(names, ["n", "x-fis-tenant"]);
}

#[test]
fn a_text_too_long_for_amqp_is_cut_at_a_character() {
    assert_eq!(short(&"é".repeat(200)).as_str().len(), 254);
}
