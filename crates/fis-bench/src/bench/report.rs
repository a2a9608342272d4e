//! The figures as tables for people, as JSON for scripts, and as files that are kept. Nothing is measured here.

use std::path::{Path, PathBuf};

use anyhow::Context;
use serde_json::json;

use super::machine::Machine;
use super::results::{PROMISES, RATES, Results, grouped, hundredths, milliseconds};
use super::sheet::Sheet;
use super::{plot, rule_costs};

/// Where results are kept, where there is such a folder.
const USUAL_FOLDER: &str = "bench/results";

pub struct Report {
    pub machine: Machine,
    pub results: Results,
    pub costs: Option<rule_costs::Costs>,
    pub events: usize,
    pub rounds: u32,
    pub peers: bool,
}

impl Report {
    fn sheets(&self) -> Vec<Sheet> {
        let results = &self.results;
        let mut sheets = vec![
            rates(results),
            latencies(results),
            usage(results),
            letters(results),
            neighbours(results),
            promises(results),
        ];
        if self.peers {
            sheets.push(super::peers::sheet(results));
        }
        sheets.retain(|sheet| !sheet.rows.is_empty());
        sheets
    }

    fn footer(&self) -> Vec<String> {
        let mut lines = self.machine.lines();
        lines.push(format!(
            "medians of {} round(s) of {} orders with three lines, one tenant; each part in an empty database",
            self.rounds,
            grouped(u64::try_from(self.events).unwrap_or(u64::MAX))
        ));
        if let Some(costs) = &self.costs {
            let text = |nanoseconds: u128| format!("{}.{:02} µs", nanoseconds / 1000, nanoseconds % 1000 / 10);
            lines.push(format!(
                "one order on one core: decode {}, map and validate {}, with 1,000 rules {}",
                text(costs.decode),
                text(costs.map),
                text(costs.map_many)
            ));
        }
        lines
    }

    pub fn print(&self) {
        for sheet in self.sheets() {
            let header: Vec<&str> = sheet.header.iter().map(String::as_str).collect();
            let mut table = crate::table(&header);
            for row in sheet.rows {
                table.add_row(row);
            }
            println!("{}", sheet.title);
            println!("{table}");
            if !sheet.note.is_empty() {
                println!("{}", sheet.note);
            }
            println!();
        }
        for line in self.footer() {
            println!("{line}");
        }
    }

    pub fn json(&self) -> serde_json::Value {
        let medians: serde_json::Map<String, serde_json::Value> =
            self.results.samples().keys().map(|name| (name.clone(), json!(self.results.median(name)))).collect();
        let promises: Vec<serde_json::Value> = PROMISES
            .iter()
            .filter_map(|promise| {
                let (is, wanted, kept) = promise.judge(&self.results)?;
                Some(json!({ "what": promise.label, "is": is, "wanted": wanted, "kept": kept }))
            })
            .collect();
        let ratio = |name: &str, of: &str| self.results.ratio(name, of).map(hundredths);
        json!({
            "machine": self.machine,
            "events": self.events,
            "rounds": self.rounds,
            "medians": medians,
            "samples": self.results.samples(),
            "drainOfBarePosting": ratio("drain", "posting"),
            "loopOfBarePosting": ratio("loop", "posting"),
            "promises": promises,
            "nanosecondsPerOrder": self.costs.as_ref().map(|costs| json!({
                "decode": costs.decode, "map": costs.map, "mapWith1000Rules": costs.map_many
            })),
        })
    }

    fn markdown(&self) -> String {
        let mut text = String::from("# Bench\n\n");
        for sheet in self.sheets() {
            let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
            text.push_str(&format!("## {}\n\n{}", sheet.title, line(&sheet.header)));
            let rule: Vec<String> = sheet
                .header
                .iter()
                .enumerate()
                .map(|(column, _)| if column == 0 { "---" } else { "---:" }.to_owned())
                .collect();
            text.push_str(&line(&rule));
            text.extend(sheet.rows.iter().map(|row| line(row)));
            if !sheet.note.is_empty() {
                text.push_str(&format!("\n{}\n", sheet.note));
            }
            text.push('\n');
        }
        text.extend(self.footer().iter().map(|line| format!("- {line}\n")));
        text
    }

    /// Writes JSON, Markdown and the plot; says where. Nothing is written where no folder was named and the usual one is not there.
    pub fn keep(&self, folder: Option<&Path>) -> anyhow::Result<()> {
        let usual = || Some(PathBuf::from(USUAL_FOLDER)).filter(|folder| folder.is_dir());
        let Some(folder) = folder.map(Path::to_owned).or_else(usual) else { return Ok(()) };
        std::fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
        let day = self.machine.measured_at.get(..10).unwrap_or_default();
        let commit = self.machine.commit.as_ref().map_or_else(String::new, |commit| format!("-{commit}"));
        let write = |name: &str, text: &str| {
            let path = folder.join(name);
            std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
            eprintln!("wrote {}", path.display());
            anyhow::Ok(())
        };
        write(&format!("{day}{commit}.json"), &format!("{}\n", serde_json::to_string_pretty(&self.json())?))?;
        write(&format!("{day}{commit}.md"), &self.markdown())?;
        if let Some(svg) = plot::rates(&self.results) {
            write("latest.svg", &svg)?;
        }
        Ok(())
    }
}

fn rates(results: &Results) -> Sheet {
    let row = |rate: &super::results::Rate| {
        let share = results.ratio(rate.name, "posting").map_or_else(|| "–".to_owned(), hundredths);
        Some(vec![rate.label.to_owned(), grouped(results.median(rate.name)?), share])
    };
    Sheet {
        title: "Rates",
        note: "",
        header: ["", "events/s", "of the bare posting loop"].map(str::to_owned).to_vec(),
        rows: RATES.iter().filter_map(row).collect(),
    }
}

fn latencies(results: &Results) -> Sheet {
    let mut rows = Vec::new();
    for name in super::LATENCY_NAMES {
        let Some(rate) = results.median(&format!("latency_{name}_rate")) else { continue };
        let share = if name == super::HALF { " (50 % of the full loop)" } else { "" };
        for (measure, label) in
            [("commit", "publish to commit"), ("outbound", "publish to outbound"), ("relay", "commit to outbound")]
        {
            let time = |percentile: &str| results.median(&format!("latency_{name}_{measure}_{percentile}"));
            let times =
                ["p50", "p99", "p999"].map(|percentile| time(percentile).map_or_else(String::new, milliseconds));
            let mut row = vec![format!("{} events/s{share}: {label}", grouped(rate))];
            row.extend(times);
            rows.push(row);
        }
    }
    Sheet {
        title: "Latency, in milliseconds",
        note: "from the moment an event was due; commits as seen by asking about once a millisecond, the worse bound told",
        header: ["", "p50", "p99", "p99.9"].map(str::to_owned).to_vec(),
        rows,
    }
}

fn usage(results: &Results) -> Sheet {
    let figures = [
        ("cpu_fis", "processor time an event, fis", "µs"),
        ("cpu_postgres", "processor time an event, PostgreSQL", "µs"),
        ("cpu_rabbitmq", "processor time an event, RabbitMQ", "µs"),
        ("cpu_redis", "processor time an event, Redis", "µs"),
        ("intake_fis", "— of it the intake, fis", "µs"),
        ("intake_postgres", "— of it the intake, PostgreSQL", "µs"),
        ("intake_rabbitmq", "— of it the intake, RabbitMQ", "µs"),
        ("intake_redis", "— of it the intake, Redis", "µs"),
        ("bytes_postgres", "bytes an event in PostgreSQL, indexes included", "bytes"),
        ("bytes_entries", "— entries", "bytes"),
        ("bytes_lines", "— lines", "bytes"),
        ("bytes_outbox", "— outbox, emptied and to be used again", "bytes"),
        ("bytes_wal", "write-ahead log an event", "bytes"),
        ("bytes_redis", "bytes an event in Redis", "bytes"),
        ("memory_kib", "resident memory of fis at its highest", "KiB"),
        ("memory_backlog_kib", "— with the long backlog", "KiB"),
        ("duplicates_rows_written", "rows written for duplicates", ""),
        ("outbox_largest_kib", "outbox at its largest, in the long run", "KiB"),
        ("outbox_end_kib", "outbox at the end of the long run", "KiB"),
    ];
    // A server on another machine cannot be watched from here; if the drain was measured, its row says so.
    let drained = results.median("drain").is_some();
    let row = |(name, label, unit): &(&str, &str, &str)| {
        let value = match results.median(name) {
            Some(value) => format!("{} {unit}", grouped(value)).trim_end().to_owned(),
            None if drained && name.starts_with("cpu_") => "–".to_owned(),
            None => return None,
        };
        Some(vec![(*label).to_owned(), value])
    };
    Sheet {
        title: "What it takes",
        note: "",
        header: ["", "drain and relay"].map(str::to_owned).to_vec(),
        rows: figures.iter().filter_map(row).collect(),
    }
}

fn letters(results: &Results) -> Sheet {
    let figures = [
        ("dlq_list_us", "list"),
        ("dlq_groups_us", "groups"),
        ("dlq_filter_us", "list with four filters, by amount"),
        ("dlq_replay_all_us", "replay of all of them to resolved"),
        ("dlq_live_alone_p99", "publish to commit, p99 at 500 events/s"),
        ("dlq_live_beside_p99", "the same while 100,000 are replayed"),
    ];
    let row = |(name, label): &(&str, &str)| Some(vec![(*label).to_owned(), milliseconds(results.median(name)?)]);
    let letters = results.median("dlq_letters").map(grouped).unwrap_or_default();
    Sheet {
        title: "Dead letters, in milliseconds",
        note: "a command from its start to its end, the worst of three",
        header: vec![String::new(), format!("with {letters}")],
        rows: figures.iter().filter_map(row).collect(),
    }
}

fn neighbours(results: &Results) -> Sheet {
    let places = [("alone", "no backlog"), ("own", "in a queue of its own"), ("shared", "at the front door, shared")];
    let row = |(name, label): &(&str, &str)| {
        let figure = |what: &str| results.median(&format!("neighbour_{name}_{what}"));
        let backlog = figure("backlog").map(|events| format!("{} events ", grouped(events))).unwrap_or_default();
        let times = [figure("p50")?, figure("p99")?, figure("max")?].map(milliseconds);
        Some([vec![format!("{backlog}{label}")], times.to_vec()].concat())
    };
    Sheet {
        title: "A tenant beside another one's backlog, in milliseconds",
        note: "publish to commit, twenty events a second while the backlog is drained, from the moment an event was due",
        header: ["", "p50", "p99", "at most"].map(str::to_owned).to_vec(),
        rows: places.iter().filter_map(row).collect(),
    }
}

fn promises(results: &Results) -> Sheet {
    let row = |promise: &super::results::Promise| {
        let (is, wanted, kept) = promise.judge(results)?;
        Some(vec![promise.label.to_owned(), is, wanted, if kept { "✓" } else { "✗" }.to_owned()])
    };
    Sheet {
        title: "Promises",
        note: "",
        header: ["", "is", "must be", ""].map(str::to_owned).to_vec(),
        rows: PROMISES.iter().filter_map(row).collect(),
    }
}
