//! The manifests: probes ask paths and the port that fis really has, commands are those of fis, the stop is long enough, and no Service makes variables
//! that look like settings.

use fis::platform::config::Config;

use super::{block, lines};
use crate::read;

const MANIFEST: &str = "ops/kubernetes/fis.yaml";

/// The lines of the one document of this kind.
fn document(kind: &str) -> Vec<String> {
    let all = lines(MANIFEST);
    let mut documents = all.split(|line| line == "---");
    documents.find(|lines| lines.contains(&format!("kind: {kind}"))).unwrap_or_else(|| panic!("no {kind}")).to_vec()
}

/// The value of a key that stands in these lines once.
fn value(lines: &[String], key: &str) -> String {
    let found: Vec<&str> = lines.iter().filter_map(|line| line.trim().strip_prefix(&format!("{key}: "))).collect();
    assert_eq!(found.len(), 1, "{key} in {lines:?}");
    found[0].to_owned()
}

#[test]
fn the_probes_ask_paths_and_a_port_that_fis_has() {
    let deployment = document("Deployment");
    let listens = deployment.iter().find_map(|line| line.trim().strip_prefix("value: 0.0.0.0:")).unwrap();
    let doors = read("src/service/http.rs");
    for (probe, path) in [("livenessProbe", "/healthz"), ("readinessProbe", "/readyz")] {
        let asked = block(&deployment, probe);
        assert_eq!((value(&asked, "path").as_str(), value(&asked, "port").as_str()), (path, listens));
        assert!(doors.contains(&format!(".route(\"{path}\"")), "fis has no {path}");
    }
    assert_eq!(value(&document("Service"), "port"), listens);
    assert!(Config::default().http.addr.ends_with(&format!(":{listens}")), "the port of the default");
}

#[test]
fn the_manifest_stops_fis_in_time_and_starts_commands_that_it_has() {
    let grace: u64 = value(&document("Deployment"), "terminationGracePeriodSeconds").parse().unwrap();
    assert!(grace > Config::default().service.stop_seconds);
    let commands: Vec<String> = ["Job", "Deployment"].map(|kind| value(&document(kind), "args")).to_vec();
    assert_eq!(commands, ["[\"setup\", \"--yes\"]", "[\"run\"]"]);
    let help = std::process::Command::new(env!("CARGO_BIN_EXE_fis")).arg("--help").output().unwrap();
    let help = String::from_utf8(help.stdout).unwrap();
    assert!(["  setup ", "  run "].iter().all(|command| help.contains(command)), "{help}");
}

/// `FIS_PORT` and its like come from a Service's name.
#[test]
fn no_service_makes_variables_that_look_like_settings() {
    let name = document("Service").iter().find_map(|line| line.strip_prefix("  name: ").map(str::to_owned)).unwrap();
    assert!(!name.to_uppercase().replace('-', "_").starts_with("FIS"), "{name}");
}
