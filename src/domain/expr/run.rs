//! One evaluation under way: its source, its scope, and the steps it has taken. What must never happen: a step that is not counted.

use super::STEPS_MAX;
use super::error::{EvalErrorKind, Fault};
use super::scope::Scope;

pub(super) type Ran<T> = Result<T, Fault>;

/// One evaluation of one expression.
pub(super) struct Run<'v, 's> {
    pub(super) source: &'s str,
    pub(super) scope: &'s Scope<'v>,
    pub(super) steps: u32,
}

impl<'v, 's> Run<'v, 's> {
    pub(super) fn new(source: &'s str, scope: &'s Scope<'v>) -> Self {
        Run { source, scope, steps: 0 }
    }

    pub(super) fn step(&mut self) -> Ran<()> {
        self.steps += 1;
        if self.steps > STEPS_MAX {
            let message = format!("takes more than {STEPS_MAX} steps");
            return Err(Fault::new(EvalErrorKind::TooLarge, None, message));
        }
        Ok(())
    }
}
