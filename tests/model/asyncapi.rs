//! `topology/asyncapi.yaml` is made here, from the topology, the kinds of events in the code and the schemas; the test compares
//! the file with what is made, so the document cannot say anything else than the code does. After a change:
//! `UPDATE_ASYNCAPI=1 cargo test --test model asyncapi` writes it anew.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;

use fis::domain::names::DOMAIN_EXCHANGE;
use fis::domain::outbound::{CONTENT_TYPE, OutboundKind, journal_event, key_of_tenant};
use fis::intake::Lane;
use fis::outbox::properties;
use serde_json::{Value, json};

use crate::hashes::{entry, golden};
use crate::schemas::{inbound, made, schema};
use crate::{project_file, read};

const FILE: &str = "topology/asyncapi.yaml";
const STREAM: &str = "fis.journal.stream";

fn definitions() -> Value {
    serde_json::from_str(&read("topology/definitions.json")).unwrap()
}

/// An object of the topology, which must have it.
fn object(kind: &str, name: &str) -> Value {
    let found = definitions()[kind].as_array().unwrap().iter().find(|object| object["name"] == name).cloned();
    found.unwrap_or_else(|| panic!("the topology has no {name} among its {kind}"))
}

fn exchange(name: &str) -> Value {
    let exchange = object("exchanges", name);
    json!({ "amqp": { "is": "routingKey", "bindingVersion": "0.3.0", "exchange": {
        "name": name, "type": exchange["type"], "durable": exchange["durable"], "autoDelete": exchange["auto_delete"],
        "vhost": exchange["vhost"],
    } } })
}

fn reference(place: &str) -> Value {
    json!({ "$ref": place })
}

/// `fis.journal.posted` as a name in the document.
fn camel(key: &str) -> String {
    let mut words = key.split('.').skip(1);
    let mut name = words.next().unwrap().to_owned();
    for word in words {
        name.push_str(&word[..1].to_uppercase());
        name.push_str(&word[1..]);
    }
    name
}

fn document() -> Value {
    let (mut channels, mut operations, mut messages) = (json!({}), json!({}), json!({}));
    for lane in Lane::CONSUMED {
        let (name, queue) = (format!("events.{}", lane.name()), lane.queue().unwrap());
        object("queues", queue);
        channels[&name] = json!({
            "address": "{domain}.{entity}.{action}",
            "description": format!("The {} lane, which ends in {queue}. Publish persistent, with confirms and mandatory.", lane.name()),
            "parameters": { "domain": {"description": "ecommerce"}, "entity": {"description": "order"}, "action": {"description": "completed"} },
            "messages": { "event": reference("#/components/messages/event") },
            "bindings": exchange(lane.exchange().unwrap()),
        });
        let channel = reference(&format!("#/channels/{name}"));
        operations[format!("take.{}", lane.name())] =
            json!({ "action": "receive", "channel": channel, "summary": "fis books the events of this lane" });
    }
    messages["event"] = json!({
        "name": "event",
        "title": "An event to be booked",
        "contentType": "application/json",
        "headers": { "type": "object", "properties": {
            "traceparent": { "type": "string", "description": "W3C trace context; carried to whatever fis says about this event" },
            "x-fis-tenant": { "type": "string", "description": "The tenant, for the dialects that do not name it in the body" },
        } },
        "payload": reference("./schemas/event.json"),
        "examples": [{ "name": "canonical", "payload": inbound() }],
    });
    let mut stream = json!({});
    for kind in OutboundKind::ALL {
        let (key, name) = (kind.routing_key(), camel(kind.routing_key()));
        let is_entry = matches!(kind, OutboundKind::JournalPosted | OutboundKind::JournalReverted);
        messages[&name] = json!({
            "name": key,
            "title": schema(key)["title"],
            "contentType": CONTENT_TYPE,
            "headers": headers(is_entry),
            "correlationId": { "location": "$message.header#/correlation_id", "description": "The AMQP property, from the inbound event" },
            "payload": reference(&format!("./schemas/{key}.json")),
            "examples": [{ "name": "example", "payload": made(kind)[0] }],
            "bindings": { "amqp": { "messageType": key, "bindingVersion": "0.3.0" } },
        });
        let message = reference(&format!("#/components/messages/{name}"));
        channels[&name] = json!({
            "address": key,
            "description": format!("Where outbox.tenant_keys is on, a queue that is bound by {} gets those of one tenant.", key_of_tenant(key, "{tenant}")),
            "messages": { &name: message.clone() },
            "bindings": exchange(DOMAIN_EXCHANGE),
        });
        stream[&name] = message;
        let channel = reference(&format!("#/channels/{name}"));
        operations[format!("tell.{name}")] =
            json!({ "action": "send", "channel": channel, "summary": "At least once, in order per tenant" });
    }
    let queue = object("queues", STREAM);
    let bound =
        definitions()["bindings"].as_array().unwrap().iter().find(|b| b["destination"] == STREAM).cloned().unwrap();
    assert_eq!(bound["source"], DOMAIN_EXCHANGE);
    channels["stream"] = json!({
        "address": STREAM,
        "description": format!("Everything said on {DOMAIN_EXCHANGE} with {}, kept for readers who attach at any offset (x-stream-offset).", bound["routing_key"].as_str().unwrap()),
        "messages": stream,
        "bindings": { "amqp": { "is": "queue", "bindingVersion": "0.3.0", "queue": {
            "name": STREAM, "durable": queue["durable"], "exclusive": false, "autoDelete": queue["auto_delete"], "vhost": queue["vhost"],
        } } },
    });
    operations["keep"] = json!({ "action": "send", "channel": reference("#/channels/stream"), "summary": "Kept up to the stream's length" });
    json!({
        "asyncapi": "3.0.0",
        "info": {
            "title": "fis",
            "version": "1",
            "description": "A ledger ingestion service: domain events come in, double-entry journal entries are announced. docs/events.md explains the members and the rules.",
            "license": { "name": "Apache-2.0" },
        },
        "defaultContentType": "application/json",
        "servers": { "broker": { "host": "127.0.0.1:5672", "pathname": "/%2Ffis", "protocol": "amqp", "protocolVersion": "0.9.1" } },
        "channels": channels,
        "operations": operations,
        "components": { "messages": messages },
    })
}

fn headers(is_entry: bool) -> Value {
    let mut properties = json!({
        "x-fis-tenant": { "type": "string", "description": "The tenant, where it is known" },
        "traceparent": { "type": "string", "description": "W3C trace context of the inbound message, where one came in" },
    });
    let mut required = vec![];
    if is_entry {
        properties["x-fis-sequence"] =
            json!({ "type": "integer", "minimum": 1, "description": "The entry's sequence" });
        required.extend(["x-fis-sequence", "x-fis-tenant"]);
    }
    json!({ "type": "object", "properties": properties, "required": required })
}

/// YAML of a JSON value: members in order, text always in quotes, where it is the same in both languages.
fn yaml(value: &Value, depth: usize, out: &mut String) {
    let indent = "  ".repeat(depth);
    let is_plain = |key: &str| key.bytes().all(|byte| byte.is_ascii_alphabetic() || byte == b'.');
    let mut child = |opening: String, value: &Value| {
        let empty = value.as_array().is_some_and(Vec::is_empty) || value.as_object().is_some_and(|o| o.is_empty());
        if (value.is_object() || value.is_array()) && !empty {
            writeln!(out, "{indent}{opening}").unwrap();
            yaml(value, depth + 1, out);
        } else {
            writeln!(out, "{indent}{opening} {value}").unwrap();
        }
    };
    match value {
        Value::Object(members) => {
            for (key, value) in members {
                let key = if is_plain(key) { key.clone() } else { Value::from(key.as_str()).to_string() };
                child(format!("{key}:"), value);
            }
        }
        Value::Array(items) => items.iter().for_each(|item| child("-".to_owned(), item)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
            unreachable!("only lists and objects nest")
        }
    }
}

#[test]
fn the_asyncapi_document_is_what_code_and_topology_make_of_it() {
    let mut made = String::from("# Made by tests/model/asyncapi.rs, which also says how to make it anew.\n");
    yaml(&document(), 0, &mut made);
    if std::env::var_os("UPDATE_ASYNCAPI").is_some() {
        std::fs::write(project_file(FILE), &made).unwrap();
    }
    let file = std::fs::read_to_string(project_file(FILE)).unwrap_or_default();
    let differing = made.lines().zip(file.lines()).find(|(made, file)| made != file);
    assert!(made == file, "{FILE} is not what the code makes (UPDATE_ASYNCAPI=1 writes it): {differing:?}");
}

#[test]
fn the_headers_of_the_document_are_those_that_are_sent() {
    let mut entry = entry(&golden("entries")[0]);
    entry.origin.traceparent = Some("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01".to_owned());
    entry.origin.correlation_id = Some("ord-1001".to_owned());
    let sent = properties(&journal_event(&entry));
    let text: Value = serde_json::from_str(&sent.to_text()).unwrap();
    let sent_names: BTreeSet<&String> = text["headers"].as_object().unwrap().keys().collect();
    let headers = headers(true);
    assert_eq!(sent_names, headers["properties"].as_object().unwrap().keys().collect());
    assert_eq!((sent.content_type(), sent.correlation_id()), (Some(CONTENT_TYPE), Some("ord-1001")));
    assert_eq!(sent.kind(), Some("fis.journal.posted"));
}

/// Parses the document and tells what the parser has against it; warnings are not errors.
const ASK_PARSER: &str = r#"
const { Parser, fromFile } = require("@asyncapi/parser");
(async () => {
  const { document, diagnostics } = await fromFile(new Parser(), process.argv[2]).parse();
  const wrong = diagnostics.filter((d) => d.severity === 0).map((d) => `${d.path.join("/")}: ${d.message}`);
  console.log(JSON.stringify({ wrong, messages: document ? document.messages().all().length : 0 }));
})();
"#;

/// A directory with the parser in it; `None` where it cannot be had.
fn parser() -> Option<PathBuf> {
    // Two tests ask for it, one installs it.
    static INSTALLING: Mutex<()> = Mutex::new(());
    let _installing = INSTALLING.lock().unwrap();
    let place = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("asyncapi");
    let installed = place.join("node_modules/ajv-formats/package.json");
    if !installed.exists() {
        std::fs::create_dir_all(&place).ok()?;
        // Without a way to its registry npm was seen to wait for ever.
        for _ in 0..2 {
            let mut npm = Command::new("timeout");
            npm.args(["120", "npm", "install", "--no-audit", "--no-fund", "--ignore-scripts", "--silent"]);
            npm.args(["@asyncapi/parser@3", "ajv@8", "ajv-formats"]);
            if npm.arg("--prefix").arg(&place).output().ok()?.status.success() {
                break;
            }
        }
    }
    let node = Command::new("node").arg("--version").output().is_ok_and(|output| output.status.success());
    (installed.exists() && node).then_some(place)
}

/// Checks values against their schemas with every word of JSON Schema, patterns and formats included.
const ASK_AJV: &str = r#"
const Ajv = require("ajv/dist/2020").default;
const ajv = new Ajv({ strict: true, strictTypes: false, allErrors: true });
require("ajv-formats").default(ajv);
const cases = JSON.parse(require("fs").readFileSync(process.argv[2]));
console.log(JSON.stringify(cases.map(({ schema, value }) => {
  const check = ajv.compile(schema);
  return check(value) ? null : ajv.errorsText(check.errors);
})));
"#;

fn node(place: &Path, script: &str, name: &str, file: &Path) -> Value {
    let path = place.join(name);
    std::fs::write(&path, script).unwrap();
    let output = Command::new("node").arg(&path).arg(file).output().unwrap();
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"))
}

#[test]
fn the_asyncapi_projects_own_parser_takes_the_document() {
    let Some(place) = parser() else {
        eprintln!("skipped: node is not there, or npm cannot install @asyncapi/parser");
        return;
    };
    let answer = node(&place, ASK_PARSER, "parse.cjs", &project_file(FILE));
    assert_eq!((&answer["wrong"], &answer["messages"]), (&json!([]), &json!(5)));

    // It bites: a word that AsyncAPI does not know, and a message that is not there.
    let right = read(FILE).replace("./schemas/", &format!("{}/", project_file("topology/schemas").display()));
    for (from, to) in [("operations:\n", "operatoins:\n"), ("messages/journalPosted\"", "messages/nothing\"")] {
        let file = place.join("wrong.yaml");
        assert!(right.contains(from));
        std::fs::write(&file, right.replace(from, to)).unwrap();
        assert_ne!(node(&place, ASK_PARSER, "parse.cjs", &file)["wrong"], json!([]), "{from} → {to}");
    }
}

#[test]
fn an_independent_validator_takes_what_the_code_sends() {
    let Some(place) = parser() else {
        eprintln!("skipped: node is not there, or npm cannot install ajv");
        return;
    };
    let mut cases = vec![json!({ "schema": schema("event"), "value": inbound() })];
    for kind in OutboundKind::ALL {
        let schema = schema(kind.routing_key());
        cases.extend(made(kind).into_iter().map(|value| json!({ "schema": schema, "value": value })));
    }
    // The last one is wrong in a way that only a pattern sees.
    let mut wrong = made(OutboundKind::JournalPosted).remove(0);
    wrong["data"]["lines"][0]["amount"] = json!("1e3");
    cases.push(json!({ "schema": schema("fis.journal.posted"), "value": wrong }));
    let file = place.join("cases.json");
    std::fs::write(&file, Value::from(cases.clone()).to_string()).unwrap();
    let answer = node(&place, ASK_AJV, "ajv.cjs", &file);
    let (last, others) = answer.as_array().unwrap().split_last().unwrap();
    assert!(last.as_str().is_some_and(|text| text.contains("amount")), "{last}");
    for (case, complaint) in cases.iter().zip(others) {
        assert!(complaint.is_null(), "{complaint}: {}", case["value"]);
    }
}
