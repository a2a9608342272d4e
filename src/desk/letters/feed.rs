//! The feeding of a replay: steps of a bounded size, at a bounded rate, with as much under way as the service keeps up with, so that
//! the live lane is not slowed and a stop takes effect at once. The canary's next step leaves only when the last one is resolved.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use sqlx::PgPool;
use tokio_util::sync::CancellationToken;

use super::window::Window;
use crate::parking::follow::{Progress, heard, progress};
use crate::parking::replay::{Operator, Replay, Step, set_state, step};
use crate::platform::postgres::others_connected;

/// Letters per transaction: some ten milliseconds, since the commits of others wait for what it has written to reach the disk.
const STEP: i64 = 250;
/// The canary's steps; the rest follows.
const CANARY: [i64; 3] = [1, 10, 100];
/// After too many failures nothing more is sent; what is under way may still be heard of, so long as something moves.
const LAST_WORDS: Duration = Duration::from_secs(5);
const LOOK: Duration = Duration::from_millis(50);

/// How the feeding ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// Everything is sent and heard of, or held.
    Done,
    /// Everything is sent; nobody waited.
    Sent,
    Interrupted,
    Failures,
    /// The canary may succeed later.
    Held,
    Silence,
    Released,
}

impl End {
    pub fn word(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Sent => "sent",
            Self::Interrupted => "interrupted",
            Self::Failures => "failures",
            Self::Held => "held",
            Self::Silence => "silence",
            Self::Released => "released",
        }
    }
}

pub struct Feed<'a> {
    pub pool: &'a PgPool,
    pub replay: Replay,
    pub operator: Operator,
    pub canary: bool,
    pub rate: Option<i32>,
    pub max_failures: Option<i64>,
    pub wait: bool,
    pub patience: Duration,
}

impl Feed<'_> {
    /// Feeds until everything is sent and heard of, or something stops it. What is not sent is parked all the time.
    pub async fn run(&self) -> anyhow::Result<End> {
        let stop = stop_signal()?;
        let bar = bar(self.replay.letters);
        let end = self.feed(&stop, &bar).await;
        bar.finish_and_clear();
        let end = end?;
        if matches!(end, End::Done | End::Sent) {
            set_state(self.pool, self.replay.id, "done").await?;
        }
        Ok(end)
    }

    async fn feed(&self, stop: &CancellationToken, bar: &indicatif::ProgressBar) -> anyhow::Result<End> {
        let mut now = progress(&mut *self.pool.acquire().await?, self.replay.id).await?;
        let mut pace = Pace::new(self.rate);
        let mut window = match self.wait && others_connected(self.pool).await? {
            true => Window::new(now.heard(), Instant::now()),
            false => Window::open(Instant::now()),
        };
        let mut quiet_since = Instant::now();
        let mut next_look = Instant::now();
        loop {
            let before = now;
            let asked = Instant::now();
            if asked >= next_look {
                now = heard(&mut *self.pool.acquire().await?, self.replay.id, now).await?;
                window.learn(now.heard(), Instant::now());
                // A look takes a while where many have failed; it must not keep the database busy.
                next_look = Instant::now() + LOOK.max(asked.elapsed() * 4);
                show(bar, &now);
            }
            let failed = self.max_failures.is_some_and(|most| now.failed > most);
            if failed && (now.under_way() == 0 || quiet_since.elapsed() > LAST_WORDS) {
                return Ok(End::Failures);
            }
            if stop.is_cancelled() {
                return Ok(End::Interrupted);
            }
            if let Some(end) = self.ended(&now).await?.filter(|_| !failed) {
                return Ok(end);
            }
            let most = if failed { 0 } else { self.room(&now, window.letters()).min(pace.allowed()) };
            if most > 0 {
                let done = step(self.pool, self.replay.id, &self.operator, most).await?;
                pace.spent(done.sent);
                now.sent += done.sent;
                now.skipped += done.skipped;
                now.left -= done.sent + done.skipped;
                if done == Step::default() {
                    // Somebody else has sent or given up what was left of it.
                    now = progress(&mut *self.pool.acquire().await?, self.replay.id).await?;
                }
            }
            if now != before {
                quiet_since = Instant::now();
            } else if quiet_since.elapsed() > self.patience && now.under_way() > 0 {
                return Ok(End::Silence);
            }
            if now == before || self.rate.is_some() || now.left == 0 {
                // Nothing is held here: no transaction is open between two steps.
                let pause = if self.rate.is_some() { Instant::now() + LOOK / 2 } else { next_look };
                tokio::select! {
                    () = tokio::time::sleep_until(pause.into()) => {}
                    () = stop.cancelled() => {}
                }
            }
        }
    }

    async fn ended(&self, now: &Progress) -> anyhow::Result<Option<End>> {
        if self.canary && now.left > 0 && now.held > 0 && now.under_way() == 0 && self.room(now, 1) == 0 {
            return Ok(Some(End::Held));
        }
        let sent_all = now.left == 0;
        if sent_all && now.under_way() == 0 {
            return Ok(Some(End::Done));
        }
        if sent_all && (!self.wait || !others_connected(self.pool).await?) {
            return Ok(Some(End::Sent));
        }
        Ok(None)
    }

    /// How many may be sent now, where so many may be under way.
    fn room(&self, now: &Progress, window: i64) -> i64 {
        let free = (window - now.under_way()).clamp(0, STEP);
        if !self.canary {
            return free.min(now.left);
        }
        // The canary's borders are 1, 11 and 111 sent; behind one, the next opens when all before it are resolved.
        let mut border = 0;
        for size in CANARY {
            border += size;
            if now.sent < border {
                let last_is_resolved = now.resolved + now.failed >= border - size;
                return if last_is_resolved && now.held == 0 || now.sent > border - size {
                    (border - now.sent).min(now.left)
                } else {
                    0
                };
            }
        }
        if now.resolved + now.failed < border { 0 } else { free.min(now.left) }
    }
}

/// `--rate`: at most a quarter of a second's worth at once.
struct Pace {
    rate: Option<i64>,
    /// What may be sent now, in parts of a `LETTER`.
    saved: i64,
    since: Instant,
}

/// One letter, in the unit that a rate per second earns in a microsecond.
const LETTER: i64 = 1_000_000;

impl Pace {
    fn new(rate: Option<i32>) -> Self {
        Self { rate: rate.map(i64::from), saved: LETTER, since: Instant::now() }
    }

    fn allowed(&mut self) -> i64 {
        let Some(rate) = self.rate else { return i64::MAX };
        let elapsed = i64::try_from(self.since.elapsed().as_micros()).unwrap_or(i64::MAX);
        self.since = Instant::now();
        let most = (rate.saturating_mul(LETTER) / 4).max(LETTER);
        self.saved = self.saved.saturating_add(elapsed.saturating_mul(rate)).min(most);
        self.saved / LETTER
    }

    fn spent(&mut self, letters: i64) {
        self.saved = self.saved.saturating_sub(letters.saturating_mul(LETTER));
    }
}

/// The first signal stops cleanly after the step in hand.
fn stop_signal() -> anyhow::Result<CancellationToken> {
    let stop = CancellationToken::new();
    let mut terminate = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())?;
    let told = stop.clone();
    tokio::spawn(async move {
        tokio::select! {
            _ = tokio::signal::ctrl_c() => {}
            _ = terminate.recv() => {}
        }
        told.cancel();
    });
    Ok(stop)
}

fn bar(letters: i64) -> indicatif::ProgressBar {
    if !std::io::stderr().is_terminal() {
        return indicatif::ProgressBar::hidden();
    }
    let bar = indicatif::ProgressBar::new(u64::try_from(letters).unwrap_or(0));
    let style = indicatif::ProgressStyle::with_template("{bar:24} {pos}/{len} {msg} {eta}");
    if let Ok(style) = style {
        bar.set_style(style);
    }
    bar
}

fn show(bar: &indicatif::ProgressBar, now: &Progress) {
    bar.set_position(u64::try_from(now.resolved + now.failed + now.skipped).unwrap_or(0));
    let held = if now.held > 0 { format!(", {} held", now.held) } else { String::new() };
    bar.set_message(format!("{} posted, {} failed{held}, {} left", now.resolved, now.failed, now.left));
}

#[cfg(test)]
mod tests {
    use super::super::window::LETTERS_MAX;
    use super::*;
    use crate::platform::time;

    fn feed(pool: &PgPool, canary: bool) -> Feed<'_> {
        let replay = Replay {
            id: 1,
            by: String::new(),
            why: String::new(),
            selection: String::new(),
            letters: 1000,
            canary,
            rate: None,
            max_failures: None,
            state: "open".to_owned(),
            created_at: time::now(),
        };
        let operator = Operator { by: "a".to_owned(), why: "b".to_owned() };
        Feed { pool, replay, operator, canary, rate: None, max_failures: None, wait: true, patience: LOOK }
    }

    #[tokio::test]
    async fn the_canary_sends_one_then_ten_then_a_hundred_then_the_rest() {
        let pool = PgPool::connect_lazy("postgres://localhost/none").unwrap();
        let feed = feed(&pool, true);
        let room = |sent: i64, resolved: i64| {
            let now = Progress { selected: 5000, left: 5000 - sent, sent, resolved, ..Progress::default() };
            feed.room(&now, LETTERS_MAX)
        };
        let rows = [(0, 0, 1), (1, 0, 0), (1, 1, 10), (11, 10, 0), (11, 11, 100), (111, 110, 0), (111, 111, STEP)];
        for (sent, resolved, expected) in rows {
            assert_eq!(room(sent, resolved), expected, "{sent} sent, {resolved} resolved");
        }
    }

    #[tokio::test]
    async fn what_is_under_way_is_bounded() {
        let pool = PgPool::connect_lazy("postgres://localhost/none").unwrap();
        let feed = feed(&pool, false);
        let now = Progress { selected: 100_000, left: 50_000, sent: 905, resolved: 5, ..Progress::default() };
        assert_eq!(feed.room(&now, 900), 0);
        assert_eq!(feed.room(&now, 400), 0, "what is sent is sent");
        assert_eq!(feed.room(&Progress { resolved: 105, ..now }, 900), 100);
        assert_eq!(feed.room(&Progress { left: 7, resolved: 105, ..now }, 900), 7);
        assert_eq!(feed.room(&now, LETTERS_MAX), STEP);
    }

    #[test]
    fn a_pace_is_kept() {
        let mut pace = Pace::new(Some(1_000));
        assert!(pace.allowed() <= 2);
        pace.spent(1);
        std::thread::sleep(Duration::from_millis(20));
        let allowed = pace.allowed();
        assert!((15..=250).contains(&allowed), "{allowed}");
        assert_eq!(Pace::new(None).allowed(), i64::MAX);
    }
}
