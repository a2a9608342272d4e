//! `ops/fis.example.toml` and the code say the same, and a wrong setting is refused with its name, its origin and without
//! the secret that stands beside it.

use std::collections::BTreeMap;
use std::error::Error;
use std::path::{Path, PathBuf};

use fis::platform::config::{self, Config};
use toml::{Table, Value};

use crate::{project_file, read};

const EXAMPLE: &str = "ops/fis.example.toml";
const PASSWORD: &str = "hunter2";

fn load(file: Option<&Path>, environment: &[(&str, &str)]) -> Result<Config, String> {
    let environment = environment.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    Config::load(file, environment).map_err(|error| {
        // What a log would show: the error and everything behind it, as text and as `{:?}`.
        let mut text = format!("{error} {error:?}");
        let mut cause = error.source();
        while let Some(error) = cause {
            text.push_str(&format!(" {error} {error:?}"));
            cause = error.source();
        }
        text
    })
}

/// Every setting of a table of sections, by its dotted name.
fn settings(table: Table) -> BTreeMap<String, Value> {
    let mut settings = BTreeMap::new();
    for (section, keys) in table {
        add(&mut settings, &section, keys.as_table().expect("only sections at the top").clone());
    }
    settings
}

fn add(settings: &mut BTreeMap<String, Value>, section: &str, keys: Table) {
    for (key, value) in keys {
        let name = format!("{section}.{key}");
        match value {
            Value::Table(keys) => add(settings, &name, keys),
            value => drop(settings.insert(name, value)),
        }
    }
}

fn known() -> BTreeMap<String, Value> {
    settings(Table::try_from(Config::default()).unwrap())
}

fn variable(name: &str) -> String {
    format!("FIS__{}", name.to_uppercase().replace('.', "__"))
}

/// A configuration file of its own for each call.
struct File(PathBuf);

impl File {
    fn new(name: &str, text: &str) -> Self {
        let path = std::env::temp_dir().join(format!("fis-model-{}-{name}.toml", std::process::id()));
        std::fs::write(&path, text).unwrap();
        Self(path)
    }
}

impl Drop for File {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// The comment lines directly above each setting of the example, by the setting's dotted name.
fn comments() -> BTreeMap<String, String> {
    let (mut section, mut comment, mut comments) = (String::new(), String::new(), BTreeMap::new());
    for line in read(EXAMPLE).lines() {
        if let Some(text) = line.strip_prefix('#') {
            comment.push_str(text);
        } else if let Some(name) = line.strip_prefix('[') {
            section = name.trim_end_matches(']').to_owned();
            comment.clear();
        } else if let Some((key, _)) = line.split_once(" = ") {
            comments.insert(format!("{section}.{key}"), std::mem::take(&mut comment));
        } else {
            comment.clear();
        }
    }
    comments
}

/// `… 100 to 600000.` at the end of a comment.
fn bounds(comment: &str) -> Option<(i64, i64)> {
    let words: Vec<&str> = comment.trim_end_matches('.').split_whitespace().collect();
    let [.., min, "to", max] = words.as_slice() else { return None };
    Some((min.parse().ok()?, max.parse().ok()?))
}

#[test]
fn the_example_file_is_what_the_code_does_without_a_file() {
    assert_eq!(load(Some(&project_file(EXAMPLE)), &[]).unwrap(), Config::default());
    assert_eq!(load(None, &[]).unwrap(), Config::default());
}

#[test]
fn the_example_file_has_every_setting_of_the_code_and_no_other() {
    let example = settings(toml::from_str(&read(EXAMPLE)).unwrap());
    assert_eq!(example, known());
}

#[test]
fn the_example_file_gives_every_setting_its_reason() {
    let comments = comments();
    for name in known().keys() {
        let comment = &comments[name];
        assert!(comment.split_whitespace().count() >= 4, "`{name}` has no reason in {EXAMPLE}");
    }
}

#[test]
fn the_bounds_in_the_example_file_are_those_of_the_code() {
    let comments = comments();
    for (name, default) in known() {
        // A ratio has whole numbers as its bounds, too.
        let (Value::Integer(_) | Value::Float(_)) = default else { continue };
        let (min, max) = bounds(&comments[&name]).unwrap_or_else(|| panic!("`{name}` tells no bounds"));
        let variable = variable(&name);
        for good in [min, max] {
            load(None, &[(&variable, &good.to_string())]).unwrap();
        }
        let beyond = [(min - 1).to_string(), (max + 1).to_string()];
        let no_numbers = ["nan", "inf"].map(str::to_owned);
        for bad in beyond.into_iter().chain(no_numbers.into_iter().filter(|_| default.is_float())) {
            let error = load(None, &[(&variable, &bad)]).unwrap_err();
            let wanted =
                format!("setting `{name}` from the environment variable {variable} must be from {min} to {max}");
            assert!(error.contains(&wanted), "{name} = {bad}: {error}");
        }
    }
}

#[test]
fn every_setting_can_be_given_by_the_environment() {
    for (name, default) in known() {
        let text = match default {
            Value::String(text) => text,
            other => other.to_string(),
        };
        let config = load(None, &[(&variable(&name), &text)]).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(config, Config::default(), "{name}");
    }
}

#[test]
fn the_environment_goes_before_the_file() {
    let file = File::new("order", "[http]\naddr = \"127.0.0.1:1\"\n[outbox]\nwindow = 7\n");
    let config = load(Some(&file.0), &[("FIS_HTTP_ADDR", "127.0.0.1:2"), ("HOME", "/"), ("PATH", "")]).unwrap();
    assert_eq!(config.http.addr, "127.0.0.1:2");
    assert_eq!(config.outbox.window, 7);
    for (variable, name) in [
        ("FIS_AMQP_URL", "amqp.url"),
        ("FIS_REDIS_URL", "redis.url"),
        ("FIS_DATABASE_URL", "database.url"),
        ("FIS_HTTP_ADDR", "http.addr"),
    ] {
        let config = load(None, &[(variable, "x://y")]).unwrap();
        assert_eq!(settings(Table::try_from(config).unwrap())[name].as_str(), Some("x://y"), "{variable}");
    }
}

#[test]
fn an_unknown_setting_is_refused_with_its_name_and_origin() {
    for (text, name) in [
        ("[intake]\nprefetsch = 1", "`intake.prefetsch`"),
        ("[intaek]\nprefetch = 1", "`intaek.prefetch`"),
        ("prefetch = 1", "`prefetch`"),
        ("[amqp.tls]\nca = \"x\"", "`amqp.tls`"),
        ("[outbox.mirror]\nexchagne = \"x\"", "`outbox.mirror.exchagne`"),
        ("[outbox]\nmirror = true", "`outbox.mirror`"),
        ("[outbox.mirrors]\nexchange = \"x\"", "`outbox.mirrors`"),
    ] {
        let file = File::new("unknown", text);
        let error = load(Some(&file.0), &[]).unwrap_err();
        assert!(error.contains("unknown setting") && error.contains(name), "{text}: {error}");
        assert!(error.contains(&file.0.display().to_string()), "{text}: {error}");
    }
    for variable in ["FIS__INTAKE__PREFETSCH", "FIS__OUTBOX__MIRROR", "FIS__INTAKE", "FIS__AMQP_URL", "FIS__"] {
        let error = load(None, &[(variable, "1")]).unwrap_err();
        assert!(error.contains("unknown setting") && error.contains(variable), "{variable}: {error}");
    }
}

#[test]
fn a_variable_that_is_no_setting_is_named_in_one_warning_and_changes_nothing() {
    let strangers =
        ["FIS_SERVICE_HOST", "FIS_PORT", "FIS_AMPQ_URL", "FIS_CONFIGURATION", "FIS_INTAKE__PREFETCH", "FIS_"];
    let ours = ["FIS_AMQP_URL", "FIS__INTAKE__PREFETCH", "FIS_CONFIG", "FIS_OPERATOR", "FIS_DEV_DIR", "FISH", "HOME"];
    let warning = |names: &[&str]| config::strangers(names.iter().map(|name| (*name).to_owned()));
    for name in strangers {
        assert_eq!(load(None, &[(name, PASSWORD)]).unwrap(), Config::default(), "{name}");
        assert!(warning(&[name]).unwrap().contains(&format!(": {name}; ")), "{name}");
    }
    let all = warning(&[&strangers[..], &ours[..]].concat()).unwrap();
    let named = "FIS_, FIS_AMPQ_URL, FIS_CONFIGURATION, FIS_INTAKE__PREFETCH, FIS_PORT, FIS_SERVICE_HOST; ";
    assert!(all.contains(named) && !all.contains('\n'), "{all}");
    assert_eq!(warning(&ours), None);
}

#[test]
fn a_setting_of_the_wrong_type_is_refused_with_its_name_and_origin() {
    let rows = [
        ("http.addr", "8080", "a string"),
        ("intake.prefetch", "\"1000\"", "a whole number"),
        ("intake.prefetch", "1000.0", "a whole number"),
        ("retry.backoff_multiplier", "\"2\"", "a number with a decimal point"),
        ("outbox.window", "[1000]", "a whole number"),
        ("log.format", "true", "a string"),
        ("log.format", "\"xml\"", "auto, json or human"),
        ("outbox.mirror.enabled", "\"yes\"", "true or false"),
        ("outbox.mirror.kind", "\"headers\"", "fanout, topic or direct"),
    ];
    for (name, value, expected) in rows {
        let (section, key) = name.rsplit_once('.').unwrap();
        let file = File::new("type", &format!("[{section}]\n{key} = {value}\n"));
        let error = load(Some(&file.0), &[]).unwrap_err();
        let wanted = format!("setting `{name}` from {} must be {expected}", file.0.display());
        assert!(error.contains(&wanted), "{name} = {value}: {error}");
    }
    for (variable, text, expected) in [
        ("FIS__INTAKE__PREFETCH", "many", "setting `intake.prefetch`"),
        ("FIS__INTAKE__PREFETCH", "", "setting `intake.prefetch`"),
        ("FIS__RETRY__BACKOFF_MULTIPLIER", "twice", "setting `retry.backoff_multiplier`"),
        ("FIS__LOG__FORMAT", "xml", "setting `log.format`"),
    ] {
        let error = load(None, &[(variable, text)]).unwrap_err();
        assert!(error.contains(expected) && error.contains(variable), "{variable}={text}: {error}");
    }
}

#[test]
fn a_file_that_is_missing_or_no_toml_is_refused_with_its_path() {
    let error = load(Some(Path::new("/nowhere/fis.toml")), &[]).unwrap_err();
    assert!(error.contains("/nowhere/fis.toml"), "{error}");
    let file = File::new("syntax", "[http]\n\naddr = \n");
    let error = load(Some(&file.0), &[]).unwrap_err();
    assert!(error.contains(&file.0.display().to_string()) && error.contains("line 3"), "{error}");
}

#[test]
fn a_secret_is_in_no_debug_text_and_in_no_error() {
    let url = format!("amqp://user:{PASSWORD}@host/%2Ffis");
    let secrets = [("FIS_AMQP_URL", url.as_str()), ("FIS_REDIS_URL", &url), ("FIS_DATABASE_URL", &url)];
    let config = load(None, &secrets).unwrap();
    assert_eq!(config.amqp.url.expose(), url);
    for text in [format!("{config:?}"), format!("{config:#?}"), format!("{:?}", config.amqp.url)] {
        assert!(!text.contains(PASSWORD), "{text}");
    }
    for text in [
        format!("[amqp]\nurl = {url}"),
        format!("[amqp]\nurl = \"{url}"),
        format!("[amqp]\nurl = \"{url}\"\nurl = \"{url}\""),
        format!("[amqp]\nurl = [\"{url}\"]"),
        format!("[amqp]\nurl = {{ value = \"{url}\" }}"),
        format!("[amqp]\nuri = \"{url}\""),
        format!("[amqp]\nurl = \"\\{PASSWORD}\""),
        format!("[amqp]\ntimeout_ms = \"{PASSWORD}\""),
        format!("amqp = \"{url}\""),
        format!("url: {url}"),
    ] {
        let file = File::new("secret", &text);
        let error = load(Some(&file.0), &[]).unwrap_err();
        assert!(!error.contains(PASSWORD), "{text}: {error}");
    }
    for variable in ["FIS__AMQP__PASSWORD", "FIS__AMQP__TIMEOUT_MS", "FIS__LOG__FORMAT"] {
        let error = load(None, &[(variable, PASSWORD)]).unwrap_err();
        assert!(!error.contains(PASSWORD), "{variable}: {error}");
    }
}
