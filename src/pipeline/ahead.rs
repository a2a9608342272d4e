//! Deciding ahead: while a batch is written, the one behind it is decided and made ready to be sent (`journal::prepare`), for the
//! chains as that batch will leave them. Under load this takes deciding out of the time in which everybody waits for the head.
//! Where somebody else posts for the same tenants the chains end elsewhere; then a batch is decided when the one before it has
//! posted, while that other one posts, and moved to the end of the chain in its turn.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use sqlx::PgConnection;

use super::Pipeline;
use super::lane::Baton;
use super::map::{LINES_AT_ONCE_MAX, Share, lines_of};
use crate::intake::Lane;
use crate::intake::turns::Place;
use crate::journal::{Committed, Heads, PreparedBatch, PreparedError, post_prepared, post_step_ahead, prepare};
use crate::outbox;
use crate::platform::health::Part;
use crate::platform::metrics;
use crate::platform::postgres::{Fault, Work, is_lock_taken};
use crate::store::replays::step::ReplayTurn;

/// The posting transaction; batches that were prepared and others take turns on one connection.
pub(super) const POST: Work = Work::often("journal.post");

/// So many batches are not prepared after one that was prepared in vain: an event was posted that Redis has forgotten, and the next
/// prepared batches might be in vain too.
const REST: u32 = 16;
/// The longest wait of a step that holds its letters already for the right to post. Somebody who posts may want one of those letters, and is
/// waited for by the step itself: then the step gives them back.
const STEP_WAITS_MAX: Duration = Duration::from_millis(250);
/// Tenants whose heads are remembered; more are forgotten together.
const TENANTS_MAX: usize = 1_000;

/// The ends of the chains once everything that is decided is written.
#[derive(Default)]
pub struct Ahead(Mutex<State>);

#[derive(Default)]
struct State {
    heads: Heads,
    /// Somebody else moves the chains: where they end is known only when a batch has posted.
    unsure: bool,
    rest: u32,
}

impl Ahead {
    /// Remembers the ends of the chains that a batch left behind, or will.
    fn learn(&self, heads: &Heads) {
        self.with(|state| {
            if state.heads.len() > TENANTS_MAX {
                state.heads.clear();
            }
            state.heads.extend(heads.iter().map(|(tenant, head)| (tenant.clone(), head.clone())));
        });
    }

    /// Takes in whether a prepared batch was moved in its turn. Where it was moved, so will be those that were decided behind it.
    fn found(&self, posted: &Committed) {
        self.with(|state| state.unsure = posted.moved);
        if posted.moved {
            self.learn(&posted.heads);
        }
    }

    fn in_vain(&self) {
        self.with(|state| *state = State { rest: REST, ..State::default() });
    }

    /// Tells whether this batch may be prepared; counts those that may not.
    fn may_prepare(&self) -> bool {
        self.with(|state| {
            let may = state.rest == 0;
            state.rest = state.rest.saturating_sub(1);
            may
        })
    }

    fn with<T>(&self, act: impl FnOnce(&mut State) -> T) -> T {
        act(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Pipeline {
    /// Prepares the shares of a batch, those of which that can be. True: where the chains will end is known, so the batch behind this
    /// one may be prepared.
    pub(super) fn prepare(&self, shares: &mut [Share<'_>]) -> bool {
        let may = self.poster.ahead.may_prepare();
        let mut known = !self.poster.ahead.with(|state| state.unsure);
        for share in shares {
            if may && share.items.as_deref().is_some_and(|items| lines_of(items) <= LINES_AT_ONCE_MAX) {
                let expected = |tenant: &_| self.poster.ahead.with(|state| state.heads.get(tenant).cloned());
                share.prepared = prepare(&mut share.items, expected).map(Box::new);
            }
            match &share.prepared {
                Some(prepared) => self.poster.ahead.learn(prepared.heads()),
                None => known = false,
            }
        }
        known
    }

    /// Posts a prepared batch. `None`: nothing was written, or nobody knows; it is to be mapped and posted as any other.
    pub(super) async fn post_prepared(
        &self,
        place: Place,
        prepared: PreparedBatch,
        turn: Option<&ReplayTurn>,
        events: usize,
    ) -> Option<Committed> {
        let right = self.poster.turns.wait(place, events).await;
        let post = async |db: &mut PgConnection| post_prepared(db, prepared, turn, outbox::properties_text).await;
        let posted = self.postgres.run(POST, post).await;
        drop(right);
        self.learn_from(posted)
    }

    /// Posts a prepared step of a replay whose letters are resolved while the batch before it is posted. `None`: as in `post_prepared`.
    /// The baton is taken where something was posted, and else may be.
    pub(super) async fn post_step_ahead(
        &self,
        prepared: PreparedBatch,
        turn: &ReplayTurn,
        events: usize,
        posting: &mut Baton,
    ) -> Option<Committed> {
        let right = async {
            let right = async {
                posting.take().await.ok()?;
                Some(self.poster.turns.wait(Lane::Inbox.into(), events).await)
            };
            tokio::time::timeout(STEP_WAITS_MAX, right).await.ok().flatten()
        };
        let post =
            async |db: &mut PgConnection| post_step_ahead(db, prepared, turn, outbox::properties_text, right).await;
        let posted = self.postgres.run(POST, post).await;
        self.learn_from(posted)
    }

    fn learn_from(&self, posted: Result<Committed, PreparedError>) -> Option<Committed> {
        match posted {
            Ok(posted) => {
                self.health.back(Part::Postgres);
                metrics::drafted(if posted.moved { "moved" } else { "true" });
                self.poster.ahead.found(&posted);
                Some(posted)
            }
            Err(error) => {
                metrics::drafted("false");
                self.poster.ahead.in_vain();
                // The breaker need not wait for the second attempt to fail as well.
                if let PreparedError::Sql(sql) = &error
                    && !is_lock_taken(sql)
                    && let Fault::Away(why) = Fault::of(sql)
                {
                    self.health.away(Part::Postgres, &why);
                }
                tracing::debug!(%error, "a batch was decided ahead in vain");
                None
            }
        }
    }

    /// A batch was posted that was not prepared.
    pub(super) fn posted_unprepared(&self, posted: &Committed) {
        self.poster.ahead.learn(&posted.heads);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::chain::ChainHead;
    use crate::domain::ids::TenantId;

    #[test]
    fn after_a_batch_prepared_in_vain_some_are_not_prepared() {
        let ahead = Ahead::default();
        assert!(ahead.may_prepare() && ahead.may_prepare());
        ahead.in_vain();
        assert_eq!((0..100).find(|_| ahead.may_prepare()), Some(REST));
        assert!(ahead.may_prepare());
    }

    #[test]
    fn the_heads_that_are_remembered_are_bounded() {
        let ahead = Ahead::default();
        for n in 0..5 * TENANTS_MAX {
            let tenant = TenantId::parse(&format!("t{n}")).expect("a tenant");
            ahead.learn(&Heads::from([(tenant, ChainHead::genesis())]));
        }
        assert!(ahead.with(|state| state.heads.len()) <= TENANTS_MAX + 1);
    }
}
