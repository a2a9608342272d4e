//! Two deliberate bugs (`faults::mutants`): the broker is told before the commit. Compiled only with the feature `mutants`.

use super::Pipeline;
use super::read::Event;
use crate::domain::disposition::Disposition;
use crate::faults::mutants::{self, mutant};
use crate::intake::Lane;
use crate::journal::Step;
use crate::platform::amqp::Delivery;

impl Pipeline {
    /// Tells whether a batch is to be settled before it travels.
    pub(super) fn tells_too_early(&self, lane: Lane, batch: &[Delivery]) -> bool {
        let books = self.mapper.books.view();
        let may_be_held = |event: &Event<'_>| match self.mapper.item(event, &books).0.step {
            Step::Fail(failure) => failure.reason.disposition() == Disposition::Hold,
            Step::Reverse { .. } => true,
            Step::Post { .. } | Step::Ignore { .. } => false,
        };
        mutant(mutants::ACK_BEFORE_COMMIT)
            || mutant(mutants::HOLD_ACKED_BEFORE_COMMIT)
                && batch.iter().any(|delivery| may_be_held(&self.reader.read(lane, delivery)))
    }
}
