//! `fis dlq edit`: the original stays, the difference and the outcome are shown, and the edited copy is replayed under the same
//! event id. Copy and replay are one transaction, so that never both copies go out.

use std::io::{IsTerminal, Read, Write};
use std::process::ExitCode;

use anyhow::Context;

use super::args::{Which, Who};
use super::rehearse::Rehearsed;
use super::replay::{Following, follow};
use super::{NOT_CONFIRMED, body, columns, confirmed, diff, plural, pointer};
use crate::cli::printable;
use crate::domain::event::{BODY_BYTES_MAX, RawMessage, decode};
use crate::domain::ids::TenantId;
use crate::parking::imagined;
use crate::parking::mend::{copy_id, edit};
use crate::platform::config::Config;
use crate::store::dead_letters::{Scope, Whole, whole_page};
use crate::store::letter_edits::Edit;

/// Letters that one edit may change: their bodies are held in memory, and one transaction sends them.
const LETTERS_MAX: usize = 1_000;
/// Differences that are shown; the others are of the same kind.
const SHOWN_MAX: usize = 3;

#[derive(clap::Args)]
pub struct EditCommand {
    /// Ids of dead letters; else the filters say which
    ids: Vec<String>,
    #[command(flatten)]
    which: Which,
    /// Take the new body from a file, or from standard input with `-`
    #[arg(long, value_name = "FILE", conflicts_with = "set")]
    body: Option<std::path::PathBuf>,
    /// Set one value: /payload/total=119.00, or /payload/total:=JSON; may be given again
    #[arg(long, value_name = "POINTER=VALUE")]
    set: Vec<String>,
    /// Why, for the record of the entry
    #[arg(long)]
    why: String,
    #[command(flatten)]
    who: Who,
    /// Show the difference and what would become of it, and stop
    #[arg(long)]
    dry_run: bool,
    /// Do not ask; without a terminal nothing is sent unless this is given
    #[arg(long)]
    yes: bool,
    #[command(flatten)]
    following: Following,
}

impl EditCommand {
    pub async fn run(self, config: &Config) -> anyhow::Result<ExitCode> {
        if self.why.trim().is_empty() {
            eprintln!("fis: --why is empty; the entry's record names it");
            return Ok(ExitCode::from(NOT_CONFIRMED));
        }
        let filter = self.which.clone().filter(Scope::Parked, self.ids.clone());
        if filter.is_everything() {
            eprintln!("fis: which? Name ids, or a filter such as --group");
            return Ok(ExitCode::from(NOT_CONFIRMED));
        }
        let operator = self.who.operator(&self.why)?;
        let postgres = crate::cli::database(config).await?;
        let most = i64::try_from(LETTERS_MAX + 1).unwrap_or(i64::MAX);
        let letters = whole_page(&mut *postgres.pool.acquire().await?, &filter, None, most).await?;
        anyhow::ensure!(
            !letters.is_empty(),
            "nothing parked is selected; `fis dlq show ID` says what became of a letter"
        );
        anyhow::ensure!(letters.len() <= LETTERS_MAX, "more than {LETTERS_MAX} are selected; edit them in parts");
        let default_tenant = TenantId::parse(&config.intake.default_tenant).ok();
        let mut edits = Vec::with_capacity(letters.len());
        for whole in &letters {
            let new = self.new_body(whole, letters.len())?;
            check(whole, &new, default_tenant.as_ref())?;
            let copy_id = copy_id(&whole.letter.routing_key, &whole.properties, &new);
            edits.push(Edit { letter_id: whole.letter.id.clone(), copy_id, body: new });
        }
        if !self.following.json {
            print_differences(&letters, &edits);
        }
        let messages: Vec<_> = letters
            .iter()
            .zip(&edits)
            .map(|(whole, edit)| imagined(&whole.letter.routing_key, &whole.properties, edit.body.clone()))
            .collect();
        let rehearsed = Rehearsed::of_messages(config, &postgres, &messages).await?;
        if self.dry_run {
            return rehearsed.tell(self.following.json);
        }
        if !self.following.json {
            rehearsed.print();
        }
        let count = i64::try_from(edits.len()).unwrap_or(i64::MAX);
        match confirmed(self.yes, &format!("Replay {} as edited?", plural(count, "dead letter")))? {
            Some(true) => {}
            Some(false) => return Ok(ExitCode::FAILURE),
            None => return Ok(ExitCode::from(NOT_CONFIRMED)),
        }
        let (replay, step) = edit(&postgres.pool, &edits, &operator).await?;
        if step.sent < count {
            eprintln!("fis: {} not sent: not parked any more", plural(count - step.sent, "letter"));
        }
        follow(&postgres.pool, replay, operator, &self.following).await
    }

    fn new_body(&self, whole: &Whole, letters: usize) -> anyhow::Result<Vec<u8>> {
        let id = &whole.letter.id;
        if !self.set.is_empty() {
            let mut text =
                String::from_utf8(whole.body.clone()).ok().with_context(|| format!("{id} is not UTF-8; use --body"))?;
            for assignment in &self.set {
                text =
                    pointer::set(&text, assignment).map_err(|error| anyhow::anyhow!("{id}: {}", printable(&error)))?;
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

/// The body, laid out, in the operator's editor.
fn in_editor(whole: &Whole) -> anyhow::Result<Vec<u8>> {
    anyhow::ensure!(
        std::io::stdin().is_terminal() && std::io::stdout().is_terminal(),
        "nobody sits at a terminal to edit it; use --body FILE or --set /POINTER=VALUE"
    );
    let editor = std::env::var("VISUAL").or_else(|_| std::env::var("EDITOR")).unwrap_or_else(|_| "vi".to_owned());
    let directory = std::env::temp_dir().join(format!("fis-edit-{:016x}", fastrand::u64(..)));
    // Only ours to read: a body may hold personal data.
    std::os::unix::fs::DirBuilderExt::mode(&mut std::fs::DirBuilder::new(), 0o700).create(&directory)?;
    let file = directory.join(format!("{}.json", whole.letter.id));
    let text = std::str::from_utf8(&whole.body).ok().filter(|text| crate::domain::json::parse(text).is_ok());
    let start = text.map_or_else(|| whole.body.clone(), |text| body::laid_out(text).into_bytes());
    std::fs::File::create_new(&file)?.write_all(&start)?;
    // The editor's own arguments, as in `code --wait`; the shell reads them, the file's name is ours.
    let ended =
        std::process::Command::new("sh").arg("-c").arg(format!("{editor} \"$1\"")).arg("sh").arg(&file).status();
    let edited = std::fs::read(&file);
    let _ = std::fs::remove_dir_all(&directory);
    anyhow::ensure!(ended?.success(), "the editor `{editor}` failed; nothing was done");
    let edited = edited?;
    if edited == start { Ok(whole.body.clone()) } else { Ok(edited) }
}

/// The copy differs, fits, and is the same event.
fn check(whole: &Whole, new: &[u8], default_tenant: Option<&TenantId>) -> anyhow::Result<()> {
    let letter = &whole.letter;
    let id = &letter.id;
    anyhow::ensure!(new != whole.body, "{id}: nothing was edited");
    anyhow::ensure!(new.len() <= BODY_BYTES_MAX, "{id}: the body has more than {BODY_BYTES_MAX} bytes");
    let message = imagined(&letter.routing_key, &whole.properties, new.to_vec());
    let header = |name: &str| message.properties.header(name);
    let raw = RawMessage {
        body: &message.body,
        routing_key: &message.routing_key,
        content_type: message.properties.content_type(),
        header: &header,
    };
    let event =
        decode(raw, default_tenant).map_err(|bad| anyhow::anyhow!("{id}: {}", printable(&bad.failure.to_string())))?;
    let same = |known: Option<&str>, now: &str| known.is_none_or(|known| known == now);
    anyhow::ensure!(
        same(letter.event_id.as_deref(), event.event_id.as_str())
            && same(letter.tenant_id.as_deref(), event.tenant_id.as_str()),
        "{id}: an edit keeps the event's id and tenant; another event is published, not edited"
    );
    Ok(())
}

fn print_differences(letters: &[Whole], edits: &[Edit]) {
    let width = columns();
    for (whole, edit) in letters.iter().zip(edits).take(SHOWN_MAX) {
        println!("{}", edit.letter_id);
        print!("{}", diff::shown(&whole.body, &edit.body, width));
    }
    if edits.len() > SHOWN_MAX {
        println!("… and {} more, edited alike", edits.len() - SHOWN_MAX);
    }
}
