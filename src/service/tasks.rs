//! The long-lived tasks. Each has a name; one that ends before it is told to is an error, also when it ends quietly; stopping
//! has three steps, and each says what it still waits for.

use std::collections::HashMap;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::ServiceError;

/// The long-lived tasks, by name, and the order in which they stop: what takes, then what relays, then what answers.
#[derive(Default)]
pub struct Tasks {
    set: JoinSet<(&'static str, bool)>,
    names: HashMap<tokio::task::Id, &'static str>,
    pub first: CancellationToken,
    pub then: CancellationToken,
    pub last: CancellationToken,
}

impl Tasks {
    pub fn spawn(&mut self, name: &'static str, task: impl Future<Output = ()> + Send + 'static) {
        let handle = self.set.spawn(async move {
            task.await;
            (name, false)
        });
        self.names.insert(handle.id(), name);
    }

    /// A task whose end is the end of the run.
    pub fn spawn_ending(&mut self, name: &'static str, task: impl Future<Output = ()> + Send + 'static) {
        let handle = self.set.spawn(async move {
            task.await;
            (name, true)
        });
        self.names.insert(handle.id(), name);
    }

    /// Waits for `stop`, or for a task to end.
    pub async fn watch(&mut self, stop: &CancellationToken) -> Result<(), ServiceError> {
        tokio::select! {
            () = stop.cancelled() => Ok(()),
            ended = self.set.join_next_with_id() => match ended {
                None => Ok(()),
                Some(Ok((id, (task, expected)))) => {
                    self.names.remove(&id);
                    if expected { Ok(()) } else { Err(ServiceError::TaskEnded { task, reason: "it returned".to_owned() }) }
                }
                Some(Err(error)) => {
                    let task = self.names.remove(&error.id()).unwrap_or("unknown");
                    Err(ServiceError::TaskEnded { task, reason: panic_text(error) })
                }
            },
        }
    }

    /// Stops in order. What is not done in time is left: nothing unsettled is lost, the broker delivers it again.
    pub async fn drain(&mut self, deadline: Duration) {
        let deadline = tokio::time::Instant::now() + deadline;
        for (step, token, waits_for) in [
            (
                "finishing what is held",
                self.first.clone(),
                &["intake", "inbox", "parking", "books", "probe", "letters", "forget", "once"][..],
            ),
            ("relaying what is left", self.then.clone(), &["relay", "mirror", "seal", "rejections", "instance"][..]),
            ("closing", self.last.clone(), &["http"][..]),
        ] {
            tracing::info!("stopping: {step}");
            token.cancel();
            while self.names.values().any(|name| waits_for.contains(name)) {
                match tokio::time::timeout_at(deadline, self.set.join_next_with_id()).await {
                    Ok(Some(Ok((id, _)))) => drop(self.names.remove(&id)),
                    Ok(Some(Err(error))) => {
                        let task = self.names.remove(&error.id()).unwrap_or("unknown");
                        tracing::error!(task, "ended while stopping: {}", panic_text(error));
                    }
                    Ok(None) => break,
                    Err(_) => {
                        let left: Vec<_> = self.names.values().collect();
                        tracing::warn!(
                            "stopping: out of time, still waiting for {left:?}; what is unsettled will come again"
                        );
                        return;
                    }
                }
            }
        }
    }
}

fn panic_text(error: tokio::task::JoinError) -> String {
    match error.try_into_panic() {
        Ok(panic) => {
            let text =
                panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref::<&str>().copied());
            format!("it panicked: {}", text.unwrap_or("without a word"))
        }
        Err(error) => error.to_string(),
    }
}
