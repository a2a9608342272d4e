//! The crates beside the product. They are tools: the rules of rooms and places are not theirs, so they may write SQL, print and open sockets. The
//! rules of words, files and lengths are, and they use the library as anybody else would.

use crate::files::unreached_files;
use crate::layers::top_of_group;
use crate::length::long_functions;
use crate::source::{Source, identifier, line_of, project, sources_of, words};
use crate::words::{banned_words, missing_module_docs};
use crate::{bites, hold, one};

/// The crates, each with its sources.
fn tools() -> Vec<(String, Vec<Source>)> {
    let crates = std::fs::read_dir(project().join("crates")).unwrap().map(|entry| entry.unwrap().file_name());
    let mut names: Vec<String> = crates.map(|name| format!("crates/{}", name.to_string_lossy())).collect();
    names.sort();
    names.into_iter().map(|name| (name.clone(), sources_of(&format!("{name}/src")))).collect()
}

/// The command line of the product is no library: what a tool shares with it stands in a lower room, or twice.
fn tools_at_the_command_line(sources: &[Source]) -> Vec<String> {
    let mut complaints = Vec::new();
    for source in sources {
        for at in words(&source.code, "fis::") {
            let rest = &source.code[at + "fis::".len()..];
            let names = rest.strip_prefix('{').map_or_else(|| vec![identifier(rest)], top_of_group);
            if names.contains(&"cli") {
                let line = line_of(&source.code, at);
                complaints.push(format!("src/{}:{line}: a tool may not use `fis::cli`", source.path));
            }
        }
    }
    complaints
}

#[test]
fn the_tools_keep_the_rules_of_words_files_and_lengths() {
    let tools = tools();
    assert!(!tools.is_empty(), "there are no tools");
    for (name, sources) in tools {
        let rules = [
            missing_module_docs(&sources),
            banned_words(&sources),
            long_functions(&sources, &[]),
            unreached_files(&sources),
            tools_at_the_command_line(&sources),
        ];
        hold(&rules.concat().iter().map(|complaint| format!("{name}/{complaint}")).collect::<Vec<_>>());
    }
}

#[test]
fn the_rule_of_tools_bites() {
    for text in ["use fis::cli::Cli;", "use fis::{domain::ids, cli};", "fis::cli::print_json(&x)"] {
        bites(&tools_at_the_command_line(&one("main.rs", text)), "src/main.rs:1");
    }
    hold(&tools_at_the_command_line(&one("main.rs", "use fis::{domain::cli, platform}; // fis::cli")));
}
