//! What the client promises without a broker.

use super::*;

#[test]
fn a_vhost_with_a_slash_is_one_path_segment() {
    let management = Management::new("http://localhost:15672/", "u", "p", "/fis").unwrap();
    assert_eq!(management.object_path("queues", "a b"), "queues/%2Ffis/a%20b");
    assert_eq!(management.list_path("bindings"), "bindings/%2Ffis");
    assert_eq!(encode("ä"), "%C3%A4");
}

#[test]
fn the_password_appears_neither_in_debug_nor_in_errors() {
    let management = Management::new("http://localhost", "u", "tops3cret", "/").unwrap();
    let shown = format!("{management:?}");
    assert!(!shown.contains("tops3cret") && !shown.contains("dTp0b3"), "{shown}");
    let error = Management::new("http://u:tops3cret@localhost", "u", "tops3cret", "/");
    assert!(!format!("{error:?}").contains("tops3cret"));
}

#[test]
fn a_url_that_cannot_work_is_refused_with_the_reason() {
    for (url, reason) in [
        ("localhost:15672", "it must begin with http:// or https://"),
        ("ftp://localhost", "it must begin with http:// or https://"),
        ("http://a b", "it is not a url"),
        ("http://u:p@localhost", "user and password do not belong into it"),
        ("http://localhost?x=1", "it must not have a query"),
    ] {
        let error = Management::new(url, "u", "p", "/").unwrap_err().to_string();
        assert!(error.ends_with(reason), "{url}: {error}");
    }
}

/// The first bytes that somebody sends to a listener, and nothing after them.
async fn first_bytes(server: &tokio::net::TcpListener) -> Vec<u8> {
    use tokio::io::AsyncReadExt;
    let (mut stream, _) = server.accept().await.unwrap();
    let mut bytes = vec![0; 4096];
    let count = stream.read(&mut bytes).await.unwrap();
    bytes.truncate(count);
    bytes
}

/// Byte 0x16 begins a TLS handshake.
fn is_tls(bytes: &[u8]) -> bool {
    bytes.first() == Some(&0x16) && !String::from_utf8_lossy(bytes).to_lowercase().contains("authorization")
}

#[tokio::test]
async fn beside_amqps_no_password_leaves_without_tls() {
    // An address of our own, so that the usual ports are free on it.
    let host = format!("127.{}.{}.{}", fastrand::u8(1..), fastrand::u8(..), fastrand::u8(1..255));
    let plain = tokio::net::TcpListener::bind((host.as_str(), 15672)).await.unwrap();
    let tls = tokio::net::TcpListener::bind((host.as_str(), 15671)).await.unwrap();
    let of =
        |url: String| Management::of(&config::Amqp { url: url.as_str().into(), ..config::Amqp::default() }).unwrap();

    let secret = of(format!("amqps://u:tops3cret@{host}/%2F"));
    let asked = async {
        tokio::select! { _ = first_bytes(&plain) => None, bytes = first_bytes(&tls) => Some(bytes) }
    };
    let (answer, bytes) = tokio::join!(secret.get_json::<serde_json::Value>("overview"), asked);
    assert!(answer.is_err());
    assert!(is_tls(&bytes.expect("port 15672 was asked")));

    // Without TLS on the broker's own connection there is nothing to protect any more.
    let open = of(format!("amqp://u:tops3cret@{host}/%2F"));
    let (_, bytes) = tokio::join!(open.get_json::<serde_json::Value>("overview"), first_bytes(&plain));
    assert!(!is_tls(&bytes));
}

#[tokio::test]
async fn a_closed_port_is_told_as_unreachable() {
    let management = Management::new("http://127.0.0.1:1", "u", "p", "/").unwrap();
    let error = management.get_json::<serde_json::Value>("overview").await.unwrap_err();
    assert!(matches!(error, ManagementError::Unreachable { .. }), "{error:?}");
}

#[tokio::test]
async fn a_server_that_never_answers_is_given_up_and_one_that_hangs_up_is_told() {
    let server = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", server.local_addr().unwrap());
    let management = Management::new(&url, "u", "p", "/").unwrap();
    let hang_up = async { drop(server.accept().await.unwrap()) };
    let (broken, ()) = tokio::join!(management.delete("queues/%2F/q"), hang_up);
    assert!(matches!(broken, Err(ManagementError::Broken { .. })), "{broken:?}");
    let silence = management.delete("queues/%2F/q").await;
    assert!(matches!(silence, Err(ManagementError::TimedOut { .. })), "{silence:?}");
}

#[tokio::test]
async fn where_one_node_is_away_the_next_is_asked() {
    let server = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let urls = format!("http://127.0.0.1:1, http://{}", server.local_addr().unwrap());
    let management = Management::new(&urls, "u", "p", "/").unwrap();
    let answer = async {
        let (stream, _) = server.accept().await.unwrap();
        stream.readable().await.unwrap();
        stream.try_write(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}").unwrap();
        stream
    };
    let (answered, _stream) = tokio::join!(management.get_json::<serde_json::Value>("overview"), answer);
    assert_eq!(answered.unwrap(), serde_json::json!({}));
}

#[test]
fn an_order_that_may_have_been_heard_is_not_given_twice() {
    let silent = ManagementError::TimedOut { address: String::new(), seconds: 5 };
    assert!(may_be_asked_elsewhere(&silent, &Method::GET));
    assert!(!may_be_asked_elsewhere(&silent, &Method::POST));
}
