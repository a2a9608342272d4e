//! What a person does at the terminal: try an event against the books, take an entry back, audit with a program of their own.

use std::process::{Command, Stdio};

use crate::support::events::{Message, books, cart, order, order_of, refund_of};
use crate::support::process::FIS;
use crate::support::world::World;

/// A world with posted orders, one of them in dollars, and nothing running.
async fn with_orders(name: &str) -> World {
    let world = World::new(name).await;
    let dollars = order_of("acme", "evt_usd", "USD", "119.01", "19.00");
    world.publish(&[order("evt_1"), order("evt_2"), dollars]).await;
    world.fis(&["run", "--once"]).await.expect(0, &[]);
    world
}

#[tokio::test(flavor = "multi_thread")]
async fn an_entry_is_reversed_by_hand_once_and_the_reversal_can_be_reversed() {
    let world = with_orders("revert").await;
    let before = world
        .count("select coalesce(sum(debit - credit), 0)::bigint from fis_account_balance where account_code = '1100'")
        .await;
    let said = world
        .fis(&["revert", "--tenant", "acme", "acme/1", "--why", "sent in error", "--yes", "--json"])
        .await
        .expect(0, &[])
        .json();
    assert_eq!((said["entryId"].as_str(), said["reverses"].as_str()), (Some("acme/4"), Some("acme/1")));
    let after = world
        .count("select coalesce(sum(debit - credit), 0)::bigint from fis_account_balance where account_code = '1100'")
        .await;
    assert_eq!(before - after, 119, "the order is taken back");

    world
        .fis(&["revert", "--tenant", "acme", "1", "--why", "again", "--yes"])
        .await
        .expect(1, &["already_reversed", "acme/1"]);
    world
        .fis(&["revert", "--tenant", "acme", "acme/99", "--why", "x", "--yes"])
        .await
        .expect(1, &["there is no entry acme/99"]);
    world.fis(&["revert", "--tenant", "nobody", "1", "--why", "x"]).await.expect(2, &["there is no tenant `nobody`"]);
    world.fis(&["revert", "--tenant", "acme", "2", "--why", "  ", "--yes"]).await.expect(2, &["--why"]);
    assert_eq!(world.count("select count(*) from fis_dead_letter").await, 0, "a refusal to a person is no dead letter");

    world.fis(&["revert", "--tenant", "acme", "acme/4", "--why", "it was right", "--yes"]).await.expect(0, &["acme/5"]);
    let again = world
        .count("select coalesce(sum(debit - credit), 0)::bigint from fis_account_balance where account_code = '1100'")
        .await;
    assert_eq!(again, before, "the order stands again");
    // Linked both ways.
    let json = world.fis(&["journal", "--tenant", "acme", "--json"]).await.expect(0, &[]).json();
    let links: Vec<_> =
        json["entries"].as_array().unwrap().iter().map(|entry| (&entry["reverses"], &entry["reversedBy"])).collect();
    let none = &serde_json::Value::Null;
    assert_eq!(links[0], (none, &"acme/4".into()), "{json}");
    assert_eq!(links[3], (&"acme/1".into(), &"acme/5".into()), "{json}");
    world.fis(&["journal", "--tenant", "acme"]).await.expect(0, &["reversed by acme/4", "reverses acme/1"]);
    world.fis(&["run", "--once"]).await.expect(0, &[]);
    let mut finance = world.finance().await;
    finance.read(5).await;
    let reverted = finance.of("fis.journal.reverted");
    let reverses: Vec<_> = reverted.iter().map(|event| event.data()["reverses"].as_str().unwrap().to_owned()).collect();
    assert_eq!(reverses, ["acme/1", "acme/4"]);
    world.fis(&["verify"]).await.expect(0, &["verified"]);
}

/// Until somebody confirms it nothing is booked, and what is shown is what is booked.
#[tokio::test(flavor = "multi_thread")]
async fn a_reversal_is_shown_with_its_date_before_it_is_booked() {
    let world = with_orders("revert_shown").await;
    let entries = "select count(*) from fis_journal_entry";
    let asked = ["revert", "acme/1", "--why", "sent twice", "--by", "anna"];
    let shown = [
        "debit",
        "credit",
        "1100",
        "119.00",
        "balance now",
        "dated 2026-02-25: the date of acme/1, whose period is open",
    ];
    world.fis(&asked).await.expect(2, &[&shown[..], &["nobody sits at a terminal", "--yes"]].concat());
    world.fis(&[&asked[..], &["--dry-run"]].concat()).await.expect(0, &[&shown[..], &["nothing was booked"]].concat());
    let dry = world.fis(&[&asked[..], &["--dry-run", "--json"]].concat()).await.expect(0, &[]).json();
    assert_eq!((&dry["accountingDate"], &dry["dateReason"]), (&"2026-02-25".into(), &"original".into()), "{dry:#}");
    let cash =
        dry["balances"].as_array().unwrap().iter().find(|line| line["account"] == "1100" && line["currency"] == "EUR");
    let cash = cash.unwrap();
    let change = |name: &str| cash[name].as_str().unwrap().parse::<rust_decimal::Decimal>().unwrap();
    assert_eq!(change("balanceNow") - change("balanceThen"), 119.into(), "{dry:#}");
    assert_eq!(world.count(entries).await, 3, "nothing of this booked anything");
    assert_eq!(world.count("select count(*) from fis_operator_log").await, 0);
    assert_eq!(world.count("select seq from fis_chain_head").await, 3);

    let done = world.fis(&[&asked[..], &["--yes"]].concat()).await;
    done.expect(0, &["reversed acme/1 by acme/4, dated 2026-02-25: the date of acme/1, whose period is open"]);
    let march = ["revert", "acme/2", "--why", "x", "--date", "2026-03-01", "--yes", "--json"];
    let json = world.fis(&march).await.expect(0, &[]).json();
    assert_eq!((&json["accountingDate"], &json["dateReason"]), (&"2026-03-01".into(), &"asked".into()), "{json:#}");

    // February is closed: the entry of February is taken back today, and nothing is dated there by hand.
    let open = "[[periods]]\nname = \"since\"\nstarts = 2026-01-01\nends = 2099-12-31\nstatus = \"open\"\n";
    let split = "[[periods]]\nname = \"february\"\nstarts = 2026-02-01\nends = 2026-02-28\nstatus = \"closed\"\n
[[periods]]\nname = \"later\"\nstarts = 2026-03-01\nends = 2099-12-31\nstatus = \"open\"\n";
    let closed = books("acme").replace(open, split);
    assert!(closed.contains("february"));
    world.apply_books(&closed).await;
    let into = ["revert", "acme/3", "--why", "x", "--date", "2026-02-25", "--yes"];
    world.fis(&into).await.expect(1, &["2026-02-25 is in period `february`, which is closed"]);
    world.fis(&["revert", "acme/3", "--why", "x", "--date", "25.02.", "--yes"]).await.expect(2, &["--date"]);
    let json = world.fis(&["revert", "acme/3", "--why", "x", "--yes", "--json"]).await.expect(0, &[]).json();
    assert_eq!(json["dateReason"], "today", "{json:#}");
    assert_eq!(world.count(entries).await, 6);
    world.fis(&["verify"]).await.expect(0, &["verified"]);
}

/// Runs `fis` at a terminal on which somebody types; `None` where the machine has no `script`.
fn at_a_terminal(world: &World, args: &[&str], typed: &str) -> Option<(i32, String)> {
    use std::io::Write;
    let quoted: Vec<String> = [FIS].iter().chain(args).map(|arg| format!("'{arg}'")).collect();
    let mut command = Command::new("script");
    command.args(["-qec", &quoted.join(" "), "/dev/null"]).current_dir(&world.dir).envs(world.environment());
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let Ok(mut child) = command.spawn() else {
        eprintln!("skipped: there is no `script` here");
        return None;
    };
    child.stdin.take().unwrap().write_all(typed.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    Some((output.status.code().unwrap(), String::from_utf8_lossy(&output.stdout).into_owned()))
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_sits_at_a_terminal_is_asked_before_an_entry_is_reversed() {
    let world = with_orders("revert_asked").await;
    let args = ["revert", "acme/1", "--why", "sent twice", "--by", "anna"];
    let Some((code, text)) = at_a_terminal(&world, &args, "n\n") else { return };
    assert_eq!(code, 1, "{text}");
    assert!(text.contains("Reverse acme/1? [y/N]") && text.contains("nothing was done"), "{text}");
    assert_eq!(world.count("select count(*) from fis_journal_entry").await, 3);
    let (code, text) = at_a_terminal(&world, &args, "y\n").unwrap();
    assert_eq!(code, 0, "{text}");
    assert!(text.contains("reversed acme/1 by acme/4, dated 2026-02-25"), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_preview_shows_the_entry_or_the_reason_and_books_nothing() {
    let world = World::new("preview").await;
    let event = world.file("event.json", order_of("acme", "evt_9", "USD", "119.01", "19.00").body);
    let bad = world.file("bad.json", String::from_utf8(order("evt_10").body).unwrap().replace("\"tax\"", "\"tux\""));
    let file = world.file("books.toml", books("acme"));
    let nowhere = [("FIS_DATABASE_URL", "postgres://fis@127.0.0.1:1/fis"), ("FIS_AMQP_URL", "amqp://127.0.0.1:1")];

    let words =
        ["119.01 USD ┆", "total            109.49 EUR on each side", "2026-02-25", "written as       canonical"];
    let said = world.fis_with(&["preview", &event, "--books", &file], &nowhere).await.expect(0, &words);
    assert!(said.stdout.starts_with("would post 109.49 EUR by rule `order-completed`\n"), "{said:?}");
    let json = world.fis(&["preview", &event, "--json"]).await.expect(0, &[]).json();
    assert_eq!(json["booksVersion"], 1, "the books in force, from the database: {json}");
    assert_eq!(json["baseTotals"]["debit"], json["baseTotals"]["credit"]);
    assert!(json["payloadHash"].as_str().unwrap().starts_with("sha256:"));
    let lines = json["lines"].as_array().unwrap();
    assert_eq!((lines[0]["account"].as_str(), lines[0]["amount"].as_str()), (Some("1100"), Some("119.01")));

    world
        .fis(&["preview", &bad, "--books", &file])
        .await
        .expect(1, &["rule_failed", "payload.total - payload.tax", "`payload.tax` is missing"]);
    let raw = world.file("raw.json", r#"{"orderId":"o","currency":"EUR","total":5,"tax":1}"#);
    let args = ["preview", &raw, "--books", &file, "--tenant", "acme", "--routing-key", "ecommerce.order.completed"];
    world.fis(&args).await.expect(0, &["would post 5", "written as       raw"]);
    // Without the routing key nobody knows what it is; that is no fault of the event.
    world
        .fis(&args[..6])
        .await
        .expect(2, &["--routing-key is needed: the event of line 1 does not name its type", "routingKey"]);
    world
        .fis(&["preview", &event, "--tenant", "acme", "--books", "nowhere.toml"])
        .await
        .expect(1, &["cannot read nowhere.toml"]);
    assert_eq!(world.count("select count(*) from fis_journal_entry").await, 0);
}

/// The file that is published can be previewed, as it is.
#[tokio::test(flavor = "multi_thread")]
async fn a_preview_takes_the_lines_that_are_published() {
    let world = World::new("preview_lines").await;
    let nowhere = [("FIS_DATABASE_URL", "postgres://fis@127.0.0.1:1/fis"), ("FIS_AMQP_URL", "amqp://127.0.0.1:1")];
    let file = world.file("books.toml", books("acme"));
    let line = |message: &Message, more: serde_json::Value| {
        let mut line = serde_json::json!({"routingKey": message.routing_key, "body": message.value()});
        line.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        line.to_string()
    };
    let plain = serde_json::json!({});
    // Its tenant is in a header, its type is the routing key.
    let bare = Message::json(
        "ecommerce.order.completed",
        &serde_json::json!({
            "event_id": "in-header", "payload": order("in-header").value()["payload"],
        }),
    );
    let events = [
        line(&order("one"), plain.clone()),
        line(&bare, serde_json::json!({"lane": "urgent", "headers": {"x-fis-tenant": "acme"}})),
        String::new(),
        line(&cart("acme", "a-cart"), plain.clone()),
        line(&refund_of("acme", "back", "one"), plain.clone()),
        line(&order_of("acme", "too-fine", "EUR", "1.001", "0"), plain.clone()),
        line(&order_of("acme", "no-rate", "GBP", "1.00", "0"), plain.clone()),
    ];
    let lines = world.file("events.ndjson", events.join("\n") + "\n");
    let said = world.fis_with(&["preview", &lines, "--books", &file], &nowhere).await.expect(
        1,
        &[
            "line 1: one would post 119.00 EUR by rule `order-completed`\n",
            "line 2: in-header would post 119.00 EUR",
            "line 4: a-cart would be ignored by rule `carts`\n",
            "line 5: back would reverse the entry of event `one`",
            "line 6: too-fine would be rejected, bad_amount: ",
            "line 7: no-rate would be held, fx_rate_missing: ",
        ],
    );
    let summary = "2 would post, 1 would reverse an entry, 1 ignored, 1 held, 1 rejected";
    assert_eq!(said.stdout.lines().last(), Some(summary));
    // The books in force say the same, and a script gets a list.
    let told = world.fis(&["preview", &lines, "--json"]).await.expect(1, &[]).json();
    let told: Vec<_> =
        told.as_array().unwrap().iter().map(|told| (told["line"].as_i64(), told["outcome"].as_str())).collect();
    let expected = [(1, "posted"), (2, "posted"), (4, "ignored"), (5, "reverted"), (6, "rejected"), (7, "held")];
    assert_eq!(told, expected.map(|(line, outcome)| (Some(line), Some(outcome))));

    // One line, also over several lines of text, is one event; a script gets the object of one.
    let one = serde_json::to_string_pretty(&serde_json::from_str::<serde_json::Value>(&events[0]).unwrap()).unwrap();
    let one = world.file("one.json", one);
    let told = world.fis(&["preview", &one, "--json"]).await.expect(0, &[]).json();
    assert_eq!((&told["outcome"], &told["dialect"]), (&"posted".into(), &"canonical".into()));
    let key = ["preview", &one, "--routing-key", "a.b.c"];
    world.fis(&key).await.expect(2, &["--routing-key is for bodies"]);
    // Bodies may come one a line, too.
    let bodies = [order("one"), cart("acme", "a-cart")].map(|message| message.value().to_string()).join("\n");
    let bodies = world.file("bodies.ndjson", bodies);
    world.fis(&["preview", &bodies]).await.expect(0, &["1 would post, 1 ignored"]);
    let wrong = world.file("wrong.ndjson", format!("{}\n{{\"routingKey\": 1}}\n", events[0]));
    world.fis(&["preview", &wrong]).await.expect(1, &["line 2 is not valid"]);
    assert_eq!(world.count("select count(*) from fis_journal_entry").await, 0);
}

/// Runs the verifier of `docs/` over the database; `None` where the machine has no python3 or no psql.
fn auditor(world: &World) -> Option<(i32, String)> {
    if Command::new("psql").arg("--version").output().is_err() {
        eprintln!("skipped: there is no psql here");
        return None;
    }
    verifier(&world.database_url)
}

/// Runs the verifier of `docs/`; `None` where the machine has no python3.
fn verifier(source: &str) -> Option<(i32, String)> {
    if Command::new("python3").arg("--version").output().is_err() {
        eprintln!("skipped: there is no python3 here");
        return None;
    }
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/verify_chain.py");
    let output = Command::new("python3").args([script, source]).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    Some((output.status.code().unwrap(), text))
}

#[tokio::test(flavor = "multi_thread")]
async fn an_auditors_own_program_agrees_and_finds_what_was_altered() {
    let world = with_orders("auditor").await;
    // A description with everything that a CSV file or a hash input could stumble over.
    let odd = Message::json(
        "ecommerce.order.completed",
        &serde_json::json!({
            "eventId": "evt,\"odd\" ü", "tenantId": "acme", "occurredAt": "2026-02-25T10:00:00Z",
            "payload": {"orderId": "a,b\"c\r\n\\ü 😀", "currency": "EUR", "total": "1.00", "tax": "0.10"},
        }),
    );
    world.publish(&[odd]).await;
    world.fis(&["run", "--once"]).await.expect(0, &[]);
    world.fis(&["revert", "--tenant", "acme", "2", "--why", "an audit", "--yes"]).await.expect(0, &[]);
    let head =
        world.fis(&["verify", "--json"]).await.expect(0, &[]).json()["tenants"][0]["hash"].as_str().unwrap().to_owned();
    let Some((code, text)) = auditor(&world) else { return };
    assert_eq!(code, 0, "{text}");
    assert!(text.contains(&format!("acme: 5 entries verified, head {head}")), "{text}");

    for (tamper, found) in [
        ("update fis_journal_line set amount = amount + 1, base_amount = base_amount + 1 where seq = 3", "sequence 3"),
        ("update fis_journal_entry set description = 'x' where seq = 2", "sequence 2"),
        ("delete from fis_journal_entry where seq = 1", "sequence 1 is missing"),
    ] {
        let sql = format!("set session_replication_role = replica; {tamper}");
        sqlx::raw_sql(&sql).execute(&world.pool).await.unwrap();
        let (code, text) = auditor(&world).unwrap();
        assert_eq!(code, 1, "{tamper}: {text}");
        assert!(text.contains(found), "{tamper}: {text}");
        world.fis(&["verify"]).await.expect(1, &[found]);
    }
}

/// An auditor has a file and no database.
#[tokio::test(flavor = "multi_thread")]
async fn an_auditors_own_program_reads_an_export() {
    let world = with_orders("auditor_csv").await;
    let odd = Message::json(
        "ecommerce.order.completed",
        &serde_json::json!({
            "eventId": "evt,\"odd\" ü", "tenantId": "acme", "occurredAt": "2026-02-25T10:00:00Z",
            "payload": {"orderId": "a,b\"c\r\n\\ü 😀", "currency": "EUR", "total": "1.00", "tax": "0.10"},
        }),
    );
    world.publish(&[odd]).await;
    world.fis(&["run", "--once"]).await.expect(0, &[]);
    world.fis(&["revert", "2", "--why", "an audit", "--yes"]).await.expect(0, &[]);
    let head =
        world.fis(&["verify", "--json"]).await.expect(0, &[]).json()["tenants"][0]["hash"].as_str().unwrap().to_owned();
    let csv = world.fis(&["export", "--format", "csv"]).await.expect(0, &[]).stdout;
    let Some((code, text)) = verifier(&world.file("whole.csv", &csv)) else { return };
    assert_eq!((code, text.trim()), (0, format!("acme: 5 entries verified, head {head}").as_str()));

    let mut rows: Vec<&str> = csv.split_inclusive("\r\n").collect();
    let last = rows.pop().unwrap();
    let cut = rows.concat();
    rows.remove(1);
    let altered = csv.replacen("119.00", "118.00", 1);
    let head_row = csv.split_inclusive("\r\n").next().unwrap();
    let wrong: [(&str, Vec<u8>, &str); 9] = [
        ("altered.csv", altered.into(), "acme: sequence 1: its content does not have the hash it carries"),
        ("no-line.csv", (rows.concat() + last).into(), "acme: sequence 1: its content"),
        ("cut.csv", cut.into(), "acme: sequence 5: its content"),
        ("part.csv", format!("{head_row}{last}").into(), "with --from or --to an export is only a part"),
        ("no-column.csv", csv.replacen("previous_hash", "previous", 1).into(), "there is no column `previous_hash`"),
        ("short.csv", format!("{csv}acme/6,6\r\n").into(), "fields instead of 22"),
        ("no-number.csv", csv.replacen("acme/1,1,", "acme/1,one,", 1).into(), "`one` is no sequence"),
        ("other.csv", "a,b,c\n1,2,3\n".into(), "neither a row of --query nor of `fis export --format csv`"),
        ("bytes.csv", [csv.as_bytes(), b"\xff\xfe"].concat(), "can't decode byte"),
    ];
    for (name, content, words) in wrong {
        let (code, text) = verifier(&world.file(name, content)).unwrap();
        assert_eq!(code, 1, "{name}: {text}");
        assert!(text.contains(words) && !text.contains("Traceback"), "{name}: {text}");
    }
    let (code, text) = verifier(&world.file("empty.csv", "")).unwrap();
    assert!(code == 1 && text.contains("no entry to verify"), "{text}");
    let (code, text) = verifier("no-such.csv").unwrap();
    assert!(code == 1 && text.contains("there is no file `no-such.csv`"), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_signed_checkpoint_finds_a_cut_and_a_rewritten_chain_that_are_right_in_themselves() {
    let world = with_orders("checkpoint").await;
    let key = [("FIS__AUDIT__SIGNING_KEY", "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60")];
    world.fis(&["checkpoint"]).await.expect(2, &["audit.signing_key"]);
    let said = world.fis_with(&["checkpoint"], &key).await.expect(0, &["acme", "signature"]);
    let file = world.file("checkpoint.json", &said.stdout);
    let verify = ["verify", "--checkpoint", &file];
    world.fis_with(&verify, &key).await.expect(0, &["keeps what the checkpoint says"]);
    // The ledger may grow.
    world.publish(&[order("evt_later")]).await;
    world.fis(&["run", "--once"]).await.expect(0, &[]);
    world.fis_with(&verify, &key).await.expect(0, &[]);

    let altered = world.file("altered.json", said.stdout.replace("\"sequence\": 3", "\"sequence\": 2"));
    world.fis_with(&["verify", "--checkpoint", &altered], &key).await.expect(1, &["was altered"]);
    let other = [("FIS__AUDIT__SIGNING_KEY", "00".repeat(32))];
    let other: Vec<_> = other.iter().map(|(name, value)| (*name, value.as_str())).collect();
    world.fis_with(&verify, &other).await.expect(1, &["not signed with the configured key"]);
    // An auditor has the public half alone, and no configured key.
    let public = "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a";
    let auditor = ["verify", "--checkpoint", &file, "--public-key", public];
    world.fis(&auditor).await.expect(0, &["keeps what the checkpoint says"]);
    world.fis(&["verify", "--checkpoint", &altered, "--public-key", public]).await.expect(1, &["was altered"]);
    let wrong = "00".repeat(32);
    world
        .fis(&["verify", "--checkpoint", &file, "--public-key", &wrong])
        .await
        .expect(1, &["not signed with that key"]);
    world.fis(&["verify", "--checkpoint", &file, "--public-key", "xy"]).await.expect(2, &["64 hexadecimal digits"]);
    world.fis(&verify).await.expect(2, &["--public-key"]);

    // Cut off behind sequence 2, with a head that agrees, and balances that agree: the chain alone cannot tell.
    let cut = "set session_replication_role = replica;
        delete from fis_journal_line where seq > 2; delete from fis_journal_entry where seq > 2;
        update fis_chain_head h set seq = 2, hash = (select hash from fis_journal_entry where seq = 2);
        delete from fis_account_balance;
        insert into fis_account_balance
        select tenant_id, account_code, currency, coalesce(sum(amount) filter (where side = 'debit'), 0),
               coalesce(sum(amount) filter (where side = 'credit'), 0)
          from fis_journal_line group by 1, 2, 3";
    sqlx::raw_sql(cut).execute(&world.pool).await.unwrap();
    world.fis(&["verify"]).await.expect(0, &["verified"]);
    world.fis_with(&verify, &key).await.expect(1, &["acme: sequence 3", "is gone"]);
    world.fis(&auditor).await.expect(1, &["acme: sequence 3", "is gone"]);
}
