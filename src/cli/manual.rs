//! The manual inside the program: commands in groups, a sentence for every option, an example for every command, shell completions and man pages.
//! The commands as clap knows them enter; the same commands with their manual leave. A test holds that nothing is left without a word, that
//! every example is a line that fis understands, and that no line of any help is wider than 80 columns.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::builder::styling::{AnsiColor, Style, Styles};
use clap::{Arg, Command, CommandFactory};

use super::Cli;

/// The widest line of a help on a wide terminal.
const WIDTH_MAX: usize = 100;

const STYLES: Styles = Styles::styled()
    .header(Style::new().bold())
    .usage(Style::new().bold())
    .literal(AnsiColor::Cyan.on_default())
    .placeholder(AnsiColor::Green.on_default());

/// The commands by what somebody wants to do.
const GROUPS: [(&str, &[&str]); 6] = [
    ("Run the service", &["setup", "run", "status", "migrate", "topology", "config"]),
    ("Send events and ask what became of them", &["publish", "preview", "receipt", "batch"]),
    ("Keep the books", &["books", "tenants", "journal", "trial-balance", "revert", "export"]),
    ("Mend what is not in the books", &["dlq", "held"]),
    ("Prove that nothing is missing, doubled or altered", &["tie-out", "verify", "checkpoint", "feed"]),
    ("Help", &["completions", "man", "help"]),
];

/// The sentence for an option that means the same in every command.
const OPTIONS: [(&str, &str); 15] = [
    ("json", "Print JSON for scripts"),
    ("tenant", "Only this tenant"),
    ("limit", "Show at most so many"),
    ("offset", "Leave out so many first"),
    ("reason", "Only this reason code, such as bad_amount"),
    ("routing_key", "Only events that were published with this routing key"),
    ("currency", "Only this currency"),
    ("min_amount", "Only this amount or more"),
    ("max_amount", "Only this amount or less"),
    ("group", "Only this group of `fis dlq groups`"),
    ("sort", "The order of the list"),
    ("format", "The form of the output"),
    ("yes", "Do not ask"),
    ("why", "The reason, for the record"),
    ("file", "The file of books, in TOML"),
];

/// One line for each command, as somebody would type it.
const EXAMPLES: [(&str, &str); 44] = [
    ("run", "fis run --once"),
    ("setup", "fis setup --yes"),
    ("config show", "fis config show"),
    ("config check", "fis config check"),
    ("migrate", "fis migrate"),
    ("topology apply", "fis topology apply"),
    ("topology check", "fis topology check"),
    ("topology print", "fis topology print"),
    ("status", "fis status --json"),
    ("publish", "fis publish events.ndjson"),
    ("preview", "fis preview event.json --books books/shop.toml"),
    ("receipt", "fis receipt --tenant acme-shop evt_987654321"),
    ("batch show", "fis batch show --tenant acme-shop pay_run_2026_03"),
    ("batch close", "fis batch close --tenant acme-shop pay_run_2026_03 --why 'one was withdrawn'"),
    ("books check", "fis books check books/shop.toml"),
    ("books apply", "fis books apply books/shop.toml"),
    ("books init", "fis books init"),
    ("books show", "fis books show --tenant acme-shop"),
    ("books versions", "fis books versions --tenant acme-shop"),
    ("tenants", "fis tenants"),
    ("journal", "fis journal --tenant acme-shop --account 1100 --from 2026-02-01"),
    ("trial-balance", "fis trial-balance --tenant acme-shop --as-of 2026-02-28"),
    ("revert", "fis revert --tenant acme-shop 47 --why 'booked twice'"),
    ("export", "fis export --tenant acme-shop --format hledger"),
    ("dlq list", "fis dlq list --reason bad_amount --older-than 12h"),
    ("dlq groups", "fis dlq groups"),
    ("dlq show", "fis dlq show dl_2v6xk0q3m8"),
    ("dlq replay", "fis dlq replay --group 6831f06b --canary --why 'the rule was added'"),
    ("dlq replays", "fis dlq replays"),
    ("dlq edit", "fis dlq edit dl_2v6xk0q3m8 --set /payload/total=10.00 --why 'three decimals'"),
    ("dlq discard", "fis dlq discard dl_2v6xk0q3m8 --why 'a test order'"),
    ("dlq restore", "fis dlq restore dl_2v6xk0q3m8 --why 'it was no test order'"),
    ("dlq export", "fis dlq export --format csv > letters.csv"),
    ("dlq prune", "fis dlq prune --older-than 90d"),
    ("held list", "fis held list --reason fx_rate_missing"),
    ("held release", "fis held release --tenant acme-shop evt_987654321"),
    ("tie-out", "fis tie-out --tenant acme-shop --date 2026-02-25"),
    ("verify", "fis verify --tenant acme-shop"),
    ("checkpoint", "fis checkpoint"),
    ("feed tail", "fis feed tail --from first --once"),
    ("feed verify", "fis feed verify --against-ledger"),
    ("feed resend", "fis feed resend --tenant acme-shop --from 40 --to 47"),
    ("completions", "fis completions bash"),
    ("man", "fis man pages"),
];

/// The commands of fis with their manual.
#[must_use]
pub fn command() -> Command {
    let mut command = explained(Cli::command().styles(STYLES).max_term_width(WIDTH_MAX), "");
    // So that the command `help` is listed as well.
    command.build();
    let template = template(&command);
    command.help_template(template)
}

/// Gives a command and those below it their examples, and options their sentences.
fn explained(command: Command, path: &str) -> Command {
    let command = match EXAMPLES.iter().find(|(name, _)| *name == path) {
        Some((_, example)) => {
            let said = command.get_after_help().map(|said| format!("{said}\n\n")).unwrap_or_default();
            command.after_help(format!("{said}Example:\n  {example}"))
        }
        None => command,
    };
    let named = command.mut_args(with_sentence);
    let names: Vec<String> = named.get_subcommands().map(|below| below.get_name().to_owned()).collect();
    names.into_iter().fold(named, |command, name| {
        let path = format!("{path} {name}").trim_start().to_owned();
        command.mut_subcommand(name, |below| explained(below, &path))
    })
}

fn with_sentence(arg: Arg) -> Arg {
    let known = OPTIONS.iter().find(|(id, _)| arg.get_id() == id);
    match known {
        Some(("tenant", _)) if arg.get_help().is_none() && arg.is_required_set() => arg.help("The tenant"),
        Some((_, sentence)) if arg.get_help().is_none() => arg.help(*sentence),
        _ => arg,
    }
}

/// The help of `fis` alone: its commands in groups.
fn template(command: &Command) -> String {
    let names = command.get_subcommands().map(|below| below.get_name().len());
    let width = names.max().unwrap_or_default();
    let (bold, literal) = (STYLES.get_header(), STYLES.get_literal());
    let mut text = String::from("{about-with-newline}\n{usage-heading} {usage}\n");
    for (group, members) in GROUPS {
        // Writing into a text cannot fail.
        let _ = writeln!(text, "\n{bold}{group}:{bold:#}");
        for member in members.iter().filter_map(|name| command.find_subcommand(name)) {
            let (name, about) = (member.get_name(), member.get_about().map(ToString::to_string).unwrap_or_default());
            let _ = writeln!(text, "  {literal}{name:<width$}{literal:#}  {about}");
        }
    }
    let _ = write!(text, "\n{bold}Options:{bold:#}\n{{options}}");
    text
}

/// The shells whose completions can be had.
#[derive(clap::Args)]
pub struct Completions {
    /// The shell
    shell: clap_complete::Shell,
}

impl Completions {
    pub fn run(&self) -> anyhow::Result<ExitCode> {
        let mut text = Vec::new();
        clap_complete::generate(self.shell, &mut command(), "fis", &mut text);
        super::print_text(&String::from_utf8(text)?)?;
        Ok(ExitCode::SUCCESS)
    }
}

/// The folder for the man pages.
#[derive(clap::Args)]
pub struct Man {
    /// The folder for the pages, one for each command
    #[arg(value_name = "FOLDER")]
    folder: PathBuf,
}

impl Man {
    pub fn run(&self) -> anyhow::Result<ExitCode> {
        use anyhow::Context as _;
        std::fs::create_dir_all(&self.folder).with_context(|| format!("cannot make {}", self.folder.display()))?;
        clap_mangen::generate_to(command(), &self.folder)
            .with_context(|| format!("cannot write to {}", self.folder.display()))?;
        println!("wrote the man pages to {0}; read one with man -l {0}/fis.1", self.folder.display());
        Ok(ExitCode::SUCCESS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every command with its path, those that only hold others included.
    fn all(command: &Command, path: &str, found: &mut Vec<(String, Command)>) {
        for below in command.get_subcommands().filter(|below| below.get_name() != "help") {
            let path = format!("{path} {}", below.get_name()).trim_start().to_owned();
            found.push((path.clone(), below.clone()));
            all(below, &path, found);
        }
    }

    fn commands() -> Vec<(String, Command)> {
        let mut found = Vec::new();
        all(&command(), "", &mut found);
        found
    }

    #[test]
    fn every_command_is_in_one_group() {
        let grouped: Vec<&str> = GROUPS.iter().flat_map(|(_, members)| *members).copied().collect();
        let command = command();
        let mut named: Vec<&str> = command.get_subcommands().map(Command::get_name).collect();
        let mut sorted = grouped.clone();
        named.sort_unstable();
        sorted.sort_unstable();
        assert_eq!(named, sorted);
    }

    #[test]
    fn every_option_has_a_sentence() {
        let without: Vec<String> = commands()
            .iter()
            .flat_map(|(path, command)| {
                let silent = command.get_arguments().filter(|arg| arg.get_help().is_none());
                silent.map(|arg| format!("{path} {}", arg.get_id())).collect::<Vec<_>>()
            })
            .collect();
        assert!(without.is_empty(), "{}", without.join("\n"));
    }

    #[test]
    fn every_command_has_an_example_that_fis_understands() {
        let leaves = commands().into_iter().filter(|(_, command)| !command.has_subcommands());
        let without: Vec<String> =
            leaves.map(|(path, _)| path).filter(|path| !EXAMPLES.iter().any(|(name, _)| name == path)).collect();
        assert!(without.is_empty(), "{}", without.join("\n"));
        let mut wrong = String::new();
        for (path, example) in EXAMPLES {
            let words = shell_words(example.split(" > ").next().unwrap_or_default());
            assert!(words.join(" ").starts_with(&format!("fis {path}")), "{example}");
            if let Err(error) = command().try_get_matches_from(words) {
                wrong.push_str(&format!("{example}: {error}"));
            }
        }
        assert!(wrong.is_empty(), "{wrong}");
    }

    #[test]
    fn an_example_does_not_hide_what_the_help_says_of_exit_codes() {
        let receipt = commands().into_iter().find(|(path, _)| path == "receipt").unwrap().1;
        let help = receipt.term_width(80).render_help().to_string();
        assert!(help.contains("Exit 0: the event is posted") && help.contains("Example:"), "{help}");
    }

    #[test]
    fn no_line_of_a_help_is_wider_than_eighty_columns() {
        let mut whole = vec![("fis".to_owned(), command())];
        whole.extend(commands());
        let mut wide = String::new();
        for (path, command) in whole {
            let text = command.term_width(80).render_long_help().to_string();
            for line in text.lines().filter(|line| line.chars().count() > 80) {
                wide.push_str(&format!("{path}: {line}\n"));
            }
        }
        assert!(wide.is_empty(), "{wide}");
    }

    /// The words of a line, those between single quotes as one.
    fn shell_words(line: &str) -> Vec<String> {
        let parts = line.split('\'').enumerate();
        parts
            .flat_map(|(n, part)| match n % 2 {
                0 => part.split_whitespace().map(str::to_owned).collect::<Vec<_>>(),
                _ => vec![part.to_owned()],
            })
            .collect()
    }
}
