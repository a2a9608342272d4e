//! A pause between pieces of work that nobody waits for with a timer: the amount of each enters, and now and then the thread is given back to the
//! runtime. Its few threads serve everybody: the other lanes, the relay, and the probe that says whether the process lives.

/// About half a millisecond of work. A pause costs less than a thousandth of that.
const WORK_MAX: usize = 50_000;
/// The work that every event causes, whatever is in it.
const EVENT_WORK: usize = 1_000;

/// The work since the last pause, in steps of an evaluation or bytes of a body: both take about ten nanoseconds.
#[derive(Default)]
pub(super) struct Breath(usize);

impl Breath {
    /// Takes in the work that one event has caused, and lets others go first where it adds up.
    pub async fn after(&mut self, work: usize) {
        self.0 = self.0.saturating_add(work).saturating_add(EVENT_WORK);
        if self.0 >= WORK_MAX {
            self.0 = 0;
            tokio::task::yield_now().await;
        }
    }
}
