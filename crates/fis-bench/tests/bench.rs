//! The built `fis-bench` on real servers: every figure is there. None is judged, because timings on a busy machine say nothing. The
//! servers are those that the environment names, or private ones that `./dev` starts; `fis` must stand beside `fis-bench`, as
//! `cargo test --workspace` builds them.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a failing test is what a test is for"
)]

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::time::Duration;

use fis::platform::amqp::management::Management;
use fis::platform::config::Config;
use serde_json::Value;
use sqlx::{Connection, PgConnection};

const DEV: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../dev");
const SERVERS: [&str; 4] = ["FIS_AMQP_URL", "FIS_REDIS_URL", "FIS_DATABASE_URL", "FIS__AMQP__MANAGEMENT_URL"];
/// A bench of a thousand events takes some seconds, and several times as long on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);

/// The settings of a `fis-bench` on real servers.
fn settings() -> HashMap<String, String> {
    let mut settings: HashMap<String, String> =
        SERVERS.iter().filter_map(|name| Some(((*name).to_owned(), std::env::var(name).ok()?))).collect();
    if settings.len() < SERVERS.len() {
        dev("up");
        let named = dev("env");
        let pairs = named.lines().filter_map(|line| line.split_once('='));
        settings = pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        settings.retain(|name, _| SERVERS.contains(&name.as_str()));
    }
    // On a busy machine Redis may take longer than a quarter of a second; its keys would then be missing.
    settings.insert("FIS__REDIS__TIMEOUT_MS".to_owned(), "5000".to_owned());
    settings
}

fn dev(command: &str) -> String {
    let output = std::process::Command::new(DEV).arg(command).output().unwrap();
    assert!(output.status.success(), "./dev {command} failed:\n{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Runs `fis-bench` to its end in a folder of its own, with these settings and no others.
async fn fis_bench(arguments: &[&str], settings: &HashMap<String, String>, folder: &Path) -> Output {
    let mut command = tokio::process::Command::new(env!("CARGO_BIN_EXE_fis-bench"));
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("FIS_")) {
        command.env_remove(name);
    }
    command.args(arguments).envs(settings).current_dir(folder).stdin(Stdio::null()).kill_on_drop(true);
    let ended = tokio::time::timeout(PATIENCE, command.output()).await;
    ended.unwrap_or_else(|_| panic!("fis-bench {arguments:?} does not end")).unwrap()
}

/// The figures of a bench that must succeed.
async fn figures(arguments: &[&str], settings: &HashMap<String, String>, folder: &Path) -> Value {
    let output = fis_bench(arguments, settings, folder).await;
    assert!(output.status.success(), "fis-bench {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Databases and virtual hosts of a bench that are on the servers.
async fn left_over(config: &Config, management: &Management) -> (i64, usize) {
    let mut db = PgConnection::connect(config.database.url.expose()).await.unwrap();
    let databases = sqlx::query_scalar("select count(*) from pg_database where datname like 'fis\\_bench\\_%'");
    let hosts: Vec<Value> = management.get_json("vhosts").await.unwrap();
    let of_bench = |host: &&Value| host["name"].as_str().unwrap().starts_with("fis_bench_");
    (databases.fetch_one(&mut db).await.unwrap(), hosts.iter().filter(of_bench).count())
}

fn folder(name: &str) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bench_measures_the_service_beside_its_limits_and_leaves_nothing() {
    let (settings, folder) = (settings(), folder("bench"));
    let config = Config::load(None, settings.clone().into_iter()).unwrap();
    let management = fis::platform::amqp::management::Management::of(&config.amqp).unwrap();
    let arguments = ["bench", "--events", "1000", "--rounds", "1", "--only", "drain,duplicates,limits", "--json"];
    let before = left_over(&config, &management).await;
    let keep = folder.join("kept");
    let arguments = [&arguments[..], &["--out", keep.to_str().unwrap()]].concat();
    let json = figures(&arguments, &settings, &folder).await;
    for name in [
        "drain",
        "drain_relay",
        "duplicates",
        "posting",
        "copy",
        "publish",
        "consume",
        "naive",
        "memory_kib",
        "bytes_postgres",
        "cpu_fis",
    ] {
        assert!(json["medians"][name].as_u64().is_some_and(|value| value > 0), "{name} in {json}");
        assert_eq!(json["samples"][name].as_array().map(Vec::len), Some(1), "{name} in {json}");
    }
    assert_eq!(json["medians"]["duplicates_rows_written"], 0, "{json}");
    assert!(json["medians"]["bytes_redis"].is_u64(), "{json}");
    assert!(json["drainOfBarePosting"].is_string(), "{json}");
    assert!(json["medians"]["loop"].is_null() && json["medians"]["relay"].is_null(), "parts nobody asked for: {json}");
    assert!(json["machine"]["postgres"].is_string() && json["machine"]["cores"].is_u64(), "{json}");
    let promises = json["promises"].as_array().unwrap();
    assert!(promises.iter().all(|promise| promise["kept"].is_boolean() && promise["wanted"].is_string()), "{json}");

    let kept: Vec<_> = std::fs::read_dir(&keep).unwrap().map(|entry| entry.unwrap().path()).collect();
    let read = |extension: &str| {
        let of_kind = |path: &&std::path::PathBuf| path.extension().is_some_and(|found| found == extension);
        std::fs::read_to_string(kept.iter().find(of_kind).unwrap_or_else(|| panic!("no .{extension}: {kept:?}")))
            .unwrap()
    };
    assert_eq!(serde_json::from_str::<Value>(&read("json")).unwrap()["medians"], json["medians"]);
    assert!(read("md").contains("| drain: backlog to committed and acknowledged, the relay waiting |"));
    assert!(read("svg").starts_with("<svg"));

    // The parts that read the whole feed, and fail over a gap or an announcement that does not come.
    let arguments = ["bench", "--events", "1000", "--rounds", "1", "--only", "relay,latency", "--json"];
    let json = figures(&arguments, &settings, &folder).await;
    for name in
        ["relay", "relay_limit", "latency_100_commit_p50", "latency_1000_outbound_p99", "latency_half_relay_p999"]
    {
        assert!(json["medians"][name].as_u64().is_some_and(|value| value > 0), "{name} in {json}");
    }

    // Every letter must be listed and resolved, or the command fails.
    let arguments = ["bench", "--events", "1000", "--rounds", "1", "--only", "dlq", "--letters", "1000", "--json"];
    let json = figures(&arguments, &settings, &folder).await;
    for name in ["dlq_parking", "dlq_replay", "dlq_list_us", "dlq_groups_us", "dlq_live_beside_p99"] {
        assert!(json["medians"][name].as_u64().is_some_and(|value| value > 0), "{name} in {json}");
    }

    // Every event of both tenants must be posted and acknowledged, or the command fails.
    let arguments = ["bench", "--events", "1000", "--only", "neighbour", "--neighbour", "1000", "--json"];
    let json = figures(&arguments, &settings, &folder).await;
    for name in ["neighbour_alone_p50", "neighbour_own_max", "neighbour_own_drain", "neighbour_shared_p99"] {
        assert!(json["medians"][name].as_u64().is_some_and(|value| value > 0), "{name} in {json}");
    }
    assert_eq!(left_over(&config, &management).await, before);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_part_is_wrong_usage() {
    let output = fis_bench(&["bench", "--only", "everything"], &HashMap::new(), &folder("usage")).await;
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    for word in ["everything", "full-ledger"] {
        assert!(said.contains(word), "`{word}` is not in {said}");
    }
}
