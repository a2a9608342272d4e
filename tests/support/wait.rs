//! Waiting for an event, with a deadline and the last thing that was seen instead of it.

use std::time::{Duration, Instant};

/// Long enough for a debug build on two busy cores; nothing waits that long unless it is broken.
pub const SOON: Duration = Duration::from_secs(30);

/// Asks again and again until the answer is `Ok`; panics with the last `Err` after half a minute.
pub async fn wait_until<T>(what: &str, condition: impl AsyncFnMut() -> Result<T, String>) -> T {
    wait_within(what, SOON, condition).await
}

pub async fn wait_within<T>(what: &str, within: Duration, mut condition: impl AsyncFnMut() -> Result<T, String>) -> T {
    let deadline = Instant::now() + within;
    let mut pause = Duration::from_millis(10);
    loop {
        let seen = match condition().await {
            Ok(value) => return value,
            Err(seen) => seen,
        };
        assert!(Instant::now() < deadline, "not within {within:?}: {what}; last seen: {seen}");
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(Duration::from_millis(200));
    }
}

/// `Ok` where the two are equal, else what was seen.
pub fn same<T: PartialEq + std::fmt::Debug>(seen: T, expected: T) -> Result<(), String> {
    if seen == expected { Ok(()) } else { Err(format!("{seen:?} instead of {expected:?}")) }
}

/// Whether everything is to be tried, also what takes minutes: `FIS_TEST_FULL=1`. For people, before a release.
pub fn full() -> bool {
    std::env::var("FIS_TEST_FULL").is_ok_and(|full| full == "1")
}
