//! `amqp.url`: one address of the broker, or the nodes of a cluster.

use fis::platform::amqp::address;
use fis::platform::config::Amqp;

fn parse(urls: &str) -> Result<Vec<(String, String, String)>, String> {
    let amqp = Amqp { url: urls.into(), ..Amqp::default() };
    let addresses = address::parse(&amqp).map_err(|error| error.to_string())?;
    Ok(addresses.into_iter().map(|address| (address.place(), address.user, address.vhost)).collect())
}

#[test]
fn each_address_has_its_own_host_port_and_user() {
    let urls = "amqp://a:1@one:5672/%2Ffis, amqps://b:2@two/%2Ffis?heartbeat=5,amqp://c:3@10.0.0.3:5673/%2Ffis";
    let row = |place: &str, user: &str| (place.to_owned(), user.to_owned(), "/fis".to_owned());
    assert_eq!(parse(urls).unwrap(), [row("one:5672", "a"), row("two:5671", "b"), row("10.0.0.3:5673", "c")]);
}

#[test]
fn a_wrong_address_is_named_by_its_number_and_never_quoted() {
    for (urls, number) in [
        ("amqp://u:tops3cret@one/%2Ffis,amqp:/u:tops3cret@two/%2Ffis,amqp://three/%2Ffis", "address 2 of 3"),
        ("tops3cret,amqp://one/%2Ffis", "address 1 of 2"),
        ("amqp://one/%2Ffis,http://u:tops3cret@two/%2Ffis", "address 2 of 2"),
        ("amqp://one/%2Ffis,", "address 2 of 2"),
        ("amqp://u:tops3cret,@one/%2Ffis", "address 1 of 2"),
    ] {
        let error = parse(urls).unwrap_err();
        assert!(error.contains("`amqp.url`") && error.contains(number), "{urls}: {error}");
        assert!(!error.contains("tops3cret"), "{urls}: {error}");
    }
    let alone = parse("nonsense").unwrap_err();
    assert!(alone.contains("`amqp.url`") && !alone.contains(" of "), "{alone}");
}

#[test]
fn all_addresses_name_the_same_virtual_host() {
    let error = parse("amqp://u:tops3cret@one/%2Ffis,amqp://u:tops3cret@two:5673/other").unwrap_err();
    for word in ["`amqp.url`", "two:5673", "another virtual host"] {
        assert!(error.contains(word), "{error}");
    }
    assert!(!error.contains("tops3cret"), "{error}");
}
