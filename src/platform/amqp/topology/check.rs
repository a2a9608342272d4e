//! Compares the broker with the definitions.
//!
//! Enters: a connection, and the management API where there is one. Leaves: findings; none means that all is as
//! defined and was seen to be. What must never happen: the check changes the broker, or takes silence for
//! agreement: what could not be seen is a finding of its own.
//!
//! | step | through | tells |
//! |---|---|---|
//! | exists | passive declaration | missing objects, seen with the service's own rights |
//! | is alike | management API, else declarations with the expected arguments | type, properties, arguments |
//! | is overruled | management API | policies in force |
//! | is connected | management API | bindings |

use std::{collections::BTreeSet, error::Error};

use super::{
    Topology, TopologyError,
    definitions::{Binding, Exchange, Queue, Role},
    judge::{Difference, facts, judge_exchange, judge_queue},
    managed::{self, BindingRow, View},
    probe::{self, Sight},
    refusal::Refusal,
    remedy,
    report::{Finding, Severity},
    state::{PolicyState, QueueState, Series},
    wire,
};
use crate::platform::amqp::{ReplyCode, link::Link, management::Management};

/// Looks at everything the definitions name, and at nothing else in the virtual host.
pub async fn check(
    topology: &Topology,
    link: &Link,
    management: Option<&Management>,
) -> Result<Vec<Finding>, TopologyError> {
    let mut checked = Checked::new(topology, link);
    let view = match look(topology, &checked.vhost, management).await {
        Ok(view) => Some(view),
        Err(reason) => {
            checked.unseen(&reason);
            None
        }
    };
    for exchange in &topology.exchanges {
        checked.exchange(exchange, view.as_ref()).await?;
    }
    for queue in &topology.queues {
        checked.queue(queue, view.as_ref()).await?;
    }
    if let Some(view) = &view {
        checked.bindings(&view.bindings);
    }
    Ok(checked.findings)
}

async fn look(topology: &Topology, vhost: &str, management: Option<&Management>) -> Result<View, String> {
    let Some(management) = management else {
        return Err("no management API is configured".to_owned());
    };
    if management.vhost() != vhost {
        return Err(format!(
            "the management API is set to virtual host {}, the connection to {vhost}",
            management.vhost()
        ));
    }
    managed::look(topology, management).await.map_err(|error| told(&error))
}

struct Checked<'a> {
    topology: &'a Topology,
    link: &'a Link,
    vhost: String,
    missing: BTreeSet<&'a str>,
    findings: Vec<Finding>,
}

impl<'a> Checked<'a> {
    fn new(topology: &'a Topology, link: &'a Link) -> Self {
        Self {
            topology,
            link,
            vhost: link.status().vhost().to_string(),
            missing: BTreeSet::new(),
            findings: Vec::new(),
        }
    }

    async fn exchange(&mut self, expected: &'a Exchange, view: Option<&View>) -> Result<(), TopologyError> {
        if let Err(refusal) = wire::exchange_exists(self.link, &expected.name).await? {
            self.missing(&expected.name, expected.object(), refusal);
            return Ok(());
        }
        let state = match view.and_then(|view| view.exchanges.get(&expected.name)) {
            Some(state) => state.clone(),
            None => match probe::exchange(self.link, expected).await? {
                Sight::Seen(state) => state,
                Sight::Gone(text) | Sight::Hidden(text) => {
                    self.hidden(expected.object(), text);
                    return Ok(());
                }
            },
        };
        let differences = judge_exchange(expected, &state);
        self.differences(&expected.object(), &differences, |severity, _| match severity {
            Severity::Lossy => remedy::recreate_exchange(&expected.name),
            Severity::Unverified | Severity::Differs => {
                "none needed, but a publisher that declares it otherwise is refused".to_owned()
            }
        });
        Ok(())
    }

    async fn queue(&mut self, expected: &'a Queue, view: Option<&View>) -> Result<(), TopologyError> {
        match wire::queue_exists(self.link, &expected.name).await? {
            Ok(()) => {}
            // Somebody's exclusive queue: it is there, and the probe below says what is wrong with it.
            Err(refusal) if refusal.code == ReplyCode::ResourceLocked => {}
            Err(refusal) => {
                self.missing(&expected.name, expected.object(), refusal);
                return Ok(());
            }
        }
        let seen = view.and_then(|view| view.queues.get(&expected.name));
        let state = match seen {
            Some(state) => state.clone(),
            None => match probe::queue(self.link, expected).await? {
                Sight::Seen(state) => state,
                Sight::Gone(text) | Sight::Hidden(text) => {
                    self.hidden(expected.object(), text);
                    return Ok(());
                }
            },
        };
        let role = self.topology.role(expected);
        if view.is_some() && state.policy == PolicyState::Unseen && role != Role::Stream {
            self.policy_unseen(expected);
        }
        let series = view.map_or(Series::Unknown, |view| view.series);
        self.judged_queue(expected, role, &state, series);
        Ok(())
    }

    fn judged_queue(&mut self, expected: &Queue, role: Role, state: &QueueState, series: Series) {
        let vhost = self.vhost.clone();
        let differences = judge_queue(expected, role, state, series);
        self.differences(&expected.object(), &differences, |severity, of| match severity {
            Severity::Lossy => remedy::lossy_queue(&vhost, expected, role, state, of),
            Severity::Unverified | Severity::Differs => remedy::differing_queue(state),
        });
    }

    fn bindings(&mut self, rows: &[BindingRow]) {
        let ends_exist = |binding: &&Binding| {
            !self.missing.contains(binding.source.as_str()) && !self.missing.contains(binding.destination.as_str())
        };
        let expected: Vec<&Binding> = self.topology.bindings.iter().filter(ends_exist).collect();
        self.findings.extend(compare_bindings(self.topology, &expected, rows));
    }

    /// One finding per severity, with all facts of it: a remedy is then printed once.
    fn differences(
        &mut self,
        object: &str,
        differences: &[Difference],
        remedy: impl Fn(Severity, &[&Difference]) -> String,
    ) {
        for severity in [Severity::Lossy, Severity::Differs] {
            let of: Vec<&Difference> =
                differences.iter().filter(|difference| difference.severity == severity).collect();
            if of.is_empty() {
                continue;
            }
            self.findings.push(Finding {
                object: object.to_owned(),
                expected: facts(&of, |difference| &difference.expected),
                found: facts(&of, |difference| &difference.found),
                remedy: remedy(severity, &of),
                severity,
            });
        }
    }

    fn missing(&mut self, name: &'a str, object: String, refusal: Refusal) {
        if refusal.code == ReplyCode::AccessRefused {
            self.hidden(object, refusal.text);
            return;
        }
        self.missing.insert(name);
        self.findings.push(Finding {
            object,
            expected: "exists".to_owned(),
            found: refusal.text,
            remedy: remedy::APPLY.to_owned(),
            severity: Severity::Lossy,
        });
    }

    fn hidden(&mut self, object: String, text: String) {
        self.findings.push(Finding {
            object,
            expected: "as in topology/definitions.json".to_owned(),
            found: text,
            remedy: "configure the management API, or let the user declare it".to_owned(),
            severity: Severity::Unverified,
        });
    }

    fn policy_unseen(&mut self, queue: &Queue) {
        self.findings.push(Finding {
            object: format!("policies of {}", queue.object()),
            expected: "none that overrules the queue's arguments".to_owned(),
            found: "the broker has not reported the policies in force".to_owned(),
            remedy: "check again".to_owned(),
            severity: Severity::Unverified,
        });
    }

    /// Without the management API, two things stay in the dark.
    fn unseen(&mut self, reason: &str) {
        let expected = [
            ("bindings", "as in topology/definitions.json"),
            ("policies", "none that overrules an argument of our queues"),
        ];
        for (object, expected) in expected {
            self.findings.push(Finding {
                object: format!("{object} of virtual host {}", self.vhost),
                expected: expected.to_owned(),
                found: format!("not visible through AMQP\n{reason}"),
                remedy: "make the management API reachable and check again".to_owned(),
                severity: Severity::Unverified,
            });
        }
    }
}

/// Pure: which bindings are missing, and which lead into our queues without being ours.
fn compare_bindings(topology: &Topology, expected: &[&Binding], rows: &[BindingRow]) -> Vec<Finding> {
    let missing = expected.iter().filter(|binding| !rows.iter().any(|row| row.is(binding))).map(|binding| Finding {
        object: binding.object(),
        expected: "exists".to_owned(),
        found: "none".to_owned(),
        remedy: remedy::APPLY.to_owned(),
        severity: Severity::Lossy,
    });
    let former = |row: &BindingRow| topology.former.iter().find(|former| row.is(&former.binding));
    let extra = rows.iter().filter_map(|row| {
        let remedy = match former(row) {
            Some(former) => former.remedy.clone(),
            None if topology.is_left_over(row) => remedy::APPLY.to_owned(),
            None if topology.is_strange(row) => "none needed; remove it if nobody knows it".to_owned(),
            None => return None,
        };
        Some(Finding {
            object: row.clone().into_binding(&topology.vhost).object(),
            expected: "none".to_owned(),
            found: "exists".to_owned(),
            remedy,
            severity: Severity::Differs,
        })
    });
    missing.chain(extra).collect()
}

impl Topology {
    /// True for a binding of an exchange that only this topology binds to, and that it does not name.
    pub(super) fn is_left_over(&self, row: &BindingRow) -> bool {
        self.closed.contains(&row.source) && !self.names(row)
    }

    /// True for a binding that somebody else has made to one of our queues. Every queue is bound to the default exchange, whose
    /// name is empty.
    fn is_strange(&self, row: &BindingRow) -> bool {
        let is_into_ours = row.destination_type == "queue" && self.queue(&row.destination).is_some();
        !row.source.is_empty() && is_into_ours && !self.names(row)
    }

    fn names(&self, row: &BindingRow) -> bool {
        self.bindings.iter().any(|binding| row.is(binding))
    }
}

/// An error with its causes, on one line.
pub(super) fn told(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(&format!(": {error}"));
        cause = error.source();
    }
    text
}
