//! `fis bench`: every figure is there. None is judged: timings on a busy machine say nothing.

use serde_json::Value;

use crate::support::world::World;

/// Databases and virtual hosts of a bench, on the servers of this world.
async fn left_over(world: &World) -> (i64, usize) {
    let databases = sqlx::query_scalar("select count(*) from pg_database where datname like 'fis\\_bench\\_%'");
    let hosts: Vec<Value> = world.management.get_json("vhosts").await.unwrap();
    let of_bench = |host: &&Value| host["name"].as_str().unwrap().starts_with("fis_bench_");
    (databases.fetch_one(&world.pool).await.unwrap(), hosts.iter().filter(of_bench).count())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bench_measures_the_service_beside_its_limits_and_leaves_nothing() {
    let world = World::new("bench").await;
    let arguments = ["bench", "--events", "1000", "--rounds", "1", "--only", "drain,duplicates,limits", "--json"];
    let before = left_over(&world).await;
    let keep = world.dir.join("kept");
    let said = world.fis(&[&arguments[..], &["--out", keep.to_str().unwrap()]].concat()).await.expect(0, &[]);
    let json = said.json();
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
    let json = world.fis(&arguments).await.expect(0, &[]).json();
    for name in
        ["relay", "relay_limit", "latency_100_commit_p50", "latency_1000_outbound_p99", "latency_half_relay_p999"]
    {
        assert!(json["medians"][name].as_u64().is_some_and(|value| value > 0), "{name} in {json}");
    }

    // Every letter must be listed and resolved, or the command fails.
    let arguments = ["bench", "--events", "1000", "--rounds", "1", "--only", "dlq", "--letters", "1000", "--json"];
    let json = world.fis(&arguments).await.expect(0, &[]).json();
    for name in ["dlq_parking", "dlq_replay", "dlq_list_us", "dlq_groups_us", "dlq_live_beside_p99"] {
        assert!(json["medians"][name].as_u64().is_some_and(|value| value > 0), "{name} in {json}");
    }
    assert_eq!(left_over(&world).await, before);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_part_is_wrong_usage() {
    let world = World::new("bench_usage").await;
    world.fis(&["bench", "--only", "everything"]).await.expect(2, &["everything", "full-ledger"]);
}
