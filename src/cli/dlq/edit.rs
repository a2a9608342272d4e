//! `fis dlq edit`: the operator's new bodies, from a file, an editor or `--set`; the difference and the outcome are shown, and the
//! edited copies are replayed once somebody has confirmed it.

use std::io::{IsTerminal, Read, Write};
use std::process::ExitCode;

use anyhow::Context;

use super::args::{Which, tell_not_parked};
use super::watch::{Following, tell};
use super::{columns, confirmed, diff, not_confirmed, plural, rehearse};
use crate::cli::{Who, WrongUsage, printable};
use crate::desk::letters::{DraftEdit, EditLetters, Scope, Watch, WholeLetter};
use crate::desk::{Desk, DeskError};
use crate::domain::json::pointer::{self, PointerError};
use crate::domain::json::{self, laid_out};
use crate::platform::config::Config;

/// Differences that are shown; the others are of the same kind.
const SHOWN_MAX: usize = 3;

#[derive(clap::Args)]
pub struct EditCommand {
    /// Ids of dead letters; without ids the filters select them
    ids: Vec<String>,
    #[command(flatten)]
    which: Which,
    /// Take the new body from a file, or from standard input with `-`
    #[arg(long, value_name = "FILE", conflicts_with = "set")]
    body: Option<std::path::PathBuf>,
    /// Set one value: /payload/total=119.00, or /payload/total:=JSON; may be repeated
    #[arg(long, value_name = "POINTER=VALUE")]
    set: Vec<String>,
    /// Why, for the record of the entry
    #[arg(long)]
    why: String,
    #[command(flatten)]
    who: Who,
    /// Show the difference and what would become of it; change nothing
    #[arg(long)]
    dry_run: bool,
    /// Do not ask; without a terminal nothing is replayed unless this is given
    #[arg(long)]
    yes: bool,
    #[command(flatten)]
    following: Following,
}

impl EditCommand {
    pub async fn run(self, config: &Config) -> anyhow::Result<ExitCode> {
        if self.why.trim().is_empty() {
            return Err(WrongUsage("--why is empty; the entry's record names it".to_owned()).into());
        }
        if self.which.names_nothing(&self.ids) {
            return Err(WrongUsage("which? Name ids, or a filter such as --group".to_owned()).into());
        }
        let operator = self.who.acting(&self.why)?;
        let desk = Desk::open(config).await?;
        let filter = self.which.filter(&desk, Scope::Parked, self.ids.clone()).await?;
        tell_not_parked(&desk, &self.ids, Some(&self.why)).await?;
        let letters = desk.letters_to_edit(&filter).await?;
        let drafts = self.drafts(&desk, &letters)?;
        if !self.following.json {
            print_differences(&drafts);
        }
        let rehearsed = desk.rehearse_edits(&drafts).await?;
        if self.dry_run {
            return rehearse::tell(&rehearsed, self.following.json);
        }
        if !self.following.json {
            rehearse::print(&rehearsed);
        }
        let count = i64::try_from(drafts.len()).unwrap_or(i64::MAX);
        let answer = confirmed(self.yes, &format!("Replay {} as edited?", plural(count, "dead letter")))?;
        if answer != Some(true) {
            return Ok(not_confirmed(answer));
        }
        let edited = desk.edit_letters(EditLetters { drafts, confirmed: true, operator: operator.clone() }).await?;
        if edited.left_out > 0 {
            eprintln!("fis: {} left out: not parked any more", plural(edited.left_out, "letter"));
        }
        let act = async |watch: &Watch<'_>| desk.watch_replay(edited.replay_id, watch).await;
        let report = self.following.watched(&desk, &operator, act).await?;
        tell(&report?, self.following.json)
    }

    fn drafts(&self, desk: &Desk, letters: &[WholeLetter]) -> anyhow::Result<Vec<DraftEdit>> {
        let mut drafts = Vec::with_capacity(letters.len());
        for whole in letters {
            let body = self.new_body(whole, letters.len())?;
            drafts.push(match desk.draft_edit(whole, body) {
                // It may quote the event.
                Err(DeskError::Invalid { why }) => anyhow::bail!("{}: {}", whole.letter.id, printable(&why)),
                draft => draft?,
            });
        }
        Ok(drafts)
    }

    fn new_body(&self, whole: &WholeLetter, letters: usize) -> anyhow::Result<Vec<u8>> {
        let id = &whole.letter.id;
        if !self.set.is_empty() {
            let text = whole.body.text().with_context(|| format!("{id} is not UTF-8; use --body"))?;
            let mut text = text.to_owned();
            for assignment in &self.set {
                text = pointer::set(&text, assignment)
                    .map_err(|error| anyhow::anyhow!("{id}: {}", printable(&said(&error))))?;
            }
            return Ok(text.into_bytes());
        }
        anyhow::ensure!(letters == 1, "{letters} letters are selected; only --set edits more than one");
        match &self.body {
            Some(file) if file.as_os_str() == "-" => {
                let mut body = Vec::new();
                std::io::stdin().read_to_end(&mut body)?;
                Ok(body)
            }
            Some(file) => std::fs::read(file).with_context(|| format!("cannot read {}", file.display())),
            None => in_editor(whole),
        }
    }
}

/// A wrong assignment, in the words of the arguments.
fn said(error: &PointerError) -> String {
    match error {
        PointerError::NotJson(_) => format!("{error}; use --body"),
        PointerError::NoAssignment => "--set takes /POINTER=VALUE".to_owned(),
        PointerError::NoSlash(_) | PointerError::Nowhere { .. } | PointerError::NotAValue { .. } => error.to_string(),
    }
}

/// The body, laid out, in the operator's editor.
fn in_editor(whole: &WholeLetter) -> anyhow::Result<Vec<u8>> {
    anyhow::ensure!(
        std::io::stdin().is_terminal() && std::io::stdout().is_terminal(),
        "nobody sits at a terminal to edit it; use --body FILE or --set /POINTER=VALUE"
    );
    let editor = std::env::var("VISUAL").or_else(|_| std::env::var("EDITOR")).unwrap_or_else(|_| "vi".to_owned());
    let directory = std::env::temp_dir().join(format!("fis-edit-{:016x}", fastrand::u64(..)));
    // Only ours to read: a body may hold personal data.
    std::os::unix::fs::DirBuilderExt::mode(&mut std::fs::DirBuilder::new(), 0o700).create(&directory)?;
    let file = directory.join(format!("{}.json", whole.letter.id));
    let text = whole.body.text().filter(|text| json::parse(text).is_ok());
    let start = text.map_or_else(|| whole.body.0.clone(), |text| laid_out(text).into_bytes());
    std::fs::File::create_new(&file)?.write_all(&start)?;
    // The editor's own arguments, as in `code --wait`; the shell reads them, the file's name is ours.
    let ended =
        std::process::Command::new("sh").arg("-c").arg(format!("{editor} \"$1\"")).arg("sh").arg(&file).status();
    let edited = std::fs::read(&file);
    let _ = std::fs::remove_dir_all(&directory);
    anyhow::ensure!(ended?.success(), "the editor `{editor}` failed; nothing was done");
    let edited = edited?;
    if edited == start { Ok(whole.body.0.clone()) } else { Ok(edited) }
}

fn print_differences(drafts: &[DraftEdit]) {
    let width = columns();
    for draft in drafts.iter().take(SHOWN_MAX) {
        println!("{}", draft.letter_id());
        print!("{}", diff::shown(&draft.difference(), width));
    }
    if drafts.len() > SHOWN_MAX {
        println!("… and {} more, edited alike", drafts.len() - SHOWN_MAX);
    }
}
