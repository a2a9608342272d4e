//! The relay's logic against a model of everything around it: transactions that draw ids early and commit late, a broker that
//! confirms, refuses and closes connections, two instances that crash, are stopped and wake up as zombies. Whatever
//! happens, every row of every tenant reaches the feed, in order, and none is removed that is not there.

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::time::Duration;

use fis::outbox::flight::{Flight, Horizon, Row};
use fis::platform::amqp::PublishOutcome;
use proptest::prelude::*;

const WINDOW: usize = 8;
const TENANTS: usize = 3;

/// A step of the world; steps that make no sense at the moment do nothing.
#[derive(Debug, Clone)]
enum Step {
    /// A posting transaction takes the lock of a tenant's head and draws ids.
    Begin {
        tenant: usize,
        rows: usize,
    },
    Commit {
        tenant: usize,
    },
    /// An instance without a session asks the broker for the ownership.
    Acquire {
        who: usize,
    },
    Read {
        who: usize,
    },
    /// Some of what an instance has written reaches the broker; a stopped instance's kernel goes on writing.
    Arrive {
        who: usize,
        messages: usize,
        refuse: bool,
    },
    /// An instance reads the confirms of its oldest part.
    Settle {
        who: usize,
    },
    /// … and removes the rows.
    Remove {
        who: usize,
    },
    Crash {
        who: usize,
    },
    Stop {
        who: usize,
    },
    Continue {
        who: usize,
    },
    /// The broker misses the heartbeats, or the network breaks.
    Close {
        who: usize,
    },
    /// A running instance notices that its connection is gone.
    Notice {
        who: usize,
    },
    Wait {
        milliseconds: u64,
    },
}

fn steps(refusals: bool) -> impl Strategy<Value = Vec<Step>> {
    let (tenant, who) = (0..TENANTS, 0..2usize);
    let step = prop_oneof![
        4 => (tenant.clone(), 1..6usize).prop_map(|(tenant, rows)| Step::Begin { tenant, rows }),
        4 => tenant.prop_map(|tenant| Step::Commit { tenant }),
        3 => who.clone().prop_map(|who| Step::Acquire { who }),
        8 => who.clone().prop_map(|who| Step::Read { who }),
        8 => (who.clone(), 1..5usize, 0..6u8).prop_map(move |(who, messages, luck)| Step::Arrive {
            who, messages, refuse: refusals && luck == 0,
        }),
        8 => who.clone().prop_map(|who| Step::Settle { who }),
        8 => who.clone().prop_map(|who| Step::Remove { who }),
        1 => who.clone().prop_map(|who| Step::Crash { who }),
        1 => who.clone().prop_map(|who| Step::Stop { who }),
        1 => who.clone().prop_map(|who| Step::Continue { who }),
        1 => who.clone().prop_map(|who| Step::Close { who }),
        2 => who.prop_map(|who| Step::Notice { who }),
        2 => (1..1500u64).prop_map(|milliseconds| Step::Wait { milliseconds }),
    ];
    proptest::collection::vec(step, 1..400)
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Stored {
    id: i64,
    tenant: String,
    seq: i64,
}

impl Row for Stored {
    fn id(&self) -> i64 {
        self.id
    }
    fn tenant(&self) -> &str {
        &self.tenant
    }
    fn bytes(&self) -> i64 {
        1000
    }
}

/// What an instance has in memory.
struct Session {
    connection: usize,
    flight: Flight,
    /// Written, not yet at the broker.
    buffer: VecDeque<Stored>,
    /// Sizes of the parts under way, oldest first, and what the broker has answered so far.
    parts: VecDeque<usize>,
    answers: VecDeque<PublishOutcome>,
    done: Vec<i64>,
}

#[derive(Default)]
struct Instance {
    session: Option<Session>,
    stopped: bool,
}

#[derive(Default)]
struct World {
    now: Duration,
    next_id: i64,
    heads: [i64; TENANTS],
    /// Open transactions by tenant, with their numbers.
    open: BTreeMap<usize, (i64, Vec<Stored>)>,
    next_transaction: i64,
    table: BTreeMap<i64, Stored>,
    instances: [Instance; 2],
    /// The connection that holds the ownership, while it lives.
    owner: Option<usize>,
    connections: usize,
    feed: Vec<Stored>,
    losses: usize,
}

impl World {
    fn step(&mut self, step: &Step) {
        match *step {
            Step::Begin { tenant, rows } => {
                if self.open.contains_key(&tenant) {
                    return;
                }
                let drawn = (0..rows).map(|_| {
                    self.next_id += 1;
                    self.heads[tenant] += 1;
                    Stored { id: self.next_id, tenant: format!("t{tenant}"), seq: self.heads[tenant] }
                });
                let drawn = drawn.collect();
                self.open.insert(tenant, (self.next_transaction, drawn));
                self.next_transaction += 1;
            }
            Step::Commit { tenant } => {
                let (_, rows) = self.open.remove(&tenant).unwrap_or_default();
                self.table.extend(rows.into_iter().map(|row| (row.id, row)));
            }
            Step::Acquire { who } => {
                if self.owner.is_none() && self.instances[who].session.is_none() && !self.instances[who].stopped {
                    self.connections += 1;
                    self.owner = Some(self.connections);
                    self.instances[who].session = Some(Session {
                        connection: self.connections,
                        flight: Flight::in_parts(WINDOW, 2),
                        buffer: VecDeque::new(),
                        parts: VecDeque::new(),
                        answers: VecDeque::new(),
                        done: Vec::new(),
                    });
                }
            }
            Step::Read { who } => self.read(who),
            Step::Arrive { who, messages, refuse } => self.arrive(who, messages, refuse),
            Step::Settle { who } => self.settle(who),
            Step::Remove { who } => self.remove(who),
            Step::Crash { who } => {
                self.close(who);
                self.instances[who] = Instance::default();
            }
            Step::Stop { who } => self.instances[who].stopped = true,
            Step::Continue { who } => self.instances[who].stopped = false,
            Step::Close { who } => self.close(who),
            Step::Notice { who } => {
                let gone = |session: &Session| self.owner != Some(session.connection);
                if !self.instances[who].stopped && self.instances[who].session.as_ref().is_some_and(gone) {
                    self.instances[who].session = None;
                }
            }
            Step::Wait { milliseconds } => {
                self.now += Duration::from_millis(milliseconds);
                self.instances.iter_mut().filter_map(|one| one.session.as_mut()).for_each(|one| one.flight.stir());
            }
        }
    }

    /// The session of an instance that runs; it need not know that its connection is gone.
    fn running(&mut self, who: usize) -> Option<&mut Session> {
        let instance = &mut self.instances[who];
        if instance.stopped { None } else { instance.session.as_mut() }
    }

    fn close(&mut self, who: usize) {
        let connection = self.instances[who].session.as_ref().map(|session| session.connection);
        if connection.is_some() && self.owner == connection {
            self.owner = None;
            self.losses += 1;
        }
    }

    fn read(&mut self, who: usize) {
        let (now, table, next) = (self.now, self.table.clone(), self.next_transaction);
        let oldest = self.open.values().map(|(number, _)| *number).min().unwrap_or(next);
        let Some(session) = self.running(who).filter(|session| session.done.is_empty()) else { return };
        if session.flight.wants_horizon(now) {
            session.flight.horizon(Horizon { oldest, next }, now);
        }
        let Some(read) = session.flight.next_read(now) else { return };
        let rows = table.range(read.after + 1..).map(|(_, row)| row);
        let rows = rows
            .filter(|row| !read.aloft.contains(&row.id) && !read.without.contains(&row.tenant))
            .take(read.limit)
            .cloned()
            .collect();
        let taken = session.flight.take(&read, rows);
        let leaving = session.flight.depart(taken, &HashSet::new(), now);
        if !leaving.is_empty() {
            session.parts.push_back(leaving.len());
            session.buffer.extend(leaving);
        }
    }

    fn arrive(&mut self, who: usize, messages: usize, refuse: bool) {
        let Some(session) = self.instances[who].session.as_mut() else { return };
        if self.owner != Some(session.connection) {
            return; // the fence: nothing arrives on a closed connection
        }
        let count = messages.min(session.buffer.len());
        for (place, message) in session.buffer.drain(..count).enumerate() {
            if refuse && place == 0 {
                session.answers.push_back(PublishOutcome::Refused);
            } else {
                session.answers.push_back(PublishOutcome::Confirmed);
                self.feed.push(message);
            }
        }
    }

    fn settle(&mut self, who: usize) {
        let now = self.now;
        let Some(session) = self.running(who).filter(|session| session.done.is_empty()) else { return };
        let Some(size) = session.parts.front().copied().filter(|size| *size <= session.answers.len()) else { return };
        session.parts.pop_front();
        let outcomes: Vec<_> = session.answers.drain(..size).collect();
        session.done = session.flight.confirm(&outcomes, now).done;
    }

    fn remove(&mut self, who: usize) {
        let Some(session) = self.running(who) else { return };
        let done = std::mem::take(&mut session.done);
        session.flight.removed(&done);
        for id in done {
            if let Some(row) = self.table.remove(&id) {
                assert!(self.feed.contains(&row), "{row:?} was removed and is not in the feed");
            }
        }
    }

    /// Everything heals: what is open commits, and one instance relays on.
    fn rest(&mut self) {
        for tenant in 0..TENANTS {
            self.step(&Step::Commit { tenant });
        }
        for who in 0..2 {
            self.step(&Step::Continue { who });
        }
        for _ in 0..10_000 {
            if self.table.is_empty() && self.instances.iter().all(|one| one.session.as_ref().is_none_or(is_idle)) {
                return;
            }
            for who in 0..2 {
                self.step(&Step::Settle { who });
                self.step(&Step::Remove { who });
                self.step(&Step::Notice { who });
                self.step(&Step::Acquire { who });
                self.step(&Step::Read { who });
                self.step(&Step::Arrive { who, messages: 4, refuse: false });
            }
            self.step(&Step::Wait { milliseconds: 50 });
        }
        panic!("it does not come to rest: {:?}", self.table);
    }

    fn sequences(&self, tenant: usize) -> Vec<i64> {
        let name = format!("t{tenant}");
        self.feed.iter().filter(|row| row.tenant == name).map(|row| row.seq).collect()
    }
}

fn is_idle(session: &Session) -> bool {
    session.done.is_empty() && session.parts.is_empty()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn late_commits_crashes_and_zombies_lose_nothing_and_keep_the_order(steps in steps(false)) {
        let mut world = World::default();
        for step in &steps {
            world.step(step);
        }
        world.rest();
        let mut repeated = 0;
        for tenant in 0..TENANTS {
            let mut last = 0;
            for seq in world.sequences(tenant) {
                prop_assert!(seq <= last + 1, "tenant {tenant}: {seq} came first, after {last}");
                repeated += usize::from(seq <= last);
                last = last.max(seq);
            }
            prop_assert_eq!(last, world.heads[tenant], "tenant {} is incomplete", tenant);
        }
        prop_assert!(repeated <= WINDOW * world.losses, "{repeated} repeated after {} losses", world.losses);
    }

    #[test]
    fn what_is_refused_comes_again_with_all_that_stood_behind_it(steps in steps(true)) {
        let mut world = World::default();
        for step in &steps {
            world.step(step);
        }
        world.rest();
        for tenant in 0..TENANTS {
            // The whole sequence is there in order, if with repetitions in between.
            let mut next = 1;
            for seq in world.sequences(tenant) {
                next += i64::from(seq == next);
            }
            prop_assert_eq!(next, world.heads[tenant] + 1, "tenant {}: {:?}", tenant, world.sequences(tenant));
        }
    }
}

/// A tenant whose messages are refused waits alone, and is tried with one row at a time.
#[test]
fn one_stuck_tenant_never_fills_the_window_of_another() {
    let mut flight = Flight::in_parts(8, 4);
    let row = |id, tenant: &str| Stored { id, tenant: tenant.to_owned(), seq: id };
    let now = Duration::from_secs(1);
    let read = flight.next_read(now).unwrap();
    let taken = flight.take(&read, vec![row(1, "stuck"), row(2, "stuck")]);
    assert_eq!(flight.depart(taken, &HashSet::new(), now).len(), 2);
    let settled = flight.confirm(&[PublishOutcome::Refused, PublishOutcome::Confirmed], now);
    assert_eq!((settled.done, settled.again), (vec![], 2));
    flight.stir();
    assert_eq!(flight.next_read(now).unwrap().without, ["stuck"], "the others are asked for");
    let later = now + Duration::from_millis(300);
    let read = flight.next_read(later).unwrap();
    assert_eq!((read.after, read.without.len()), (0, 0));
    let tried = flight.take(&read, vec![row(1, "stuck"), row(2, "stuck"), row(3, "other")]);
    assert_eq!(tried.iter().map(|row| row.id).collect::<Vec<_>>(), [1, 3], "one row of it, and the others");
    flight.depart(tried, &HashSet::new(), later);
    let settled = flight.confirm(&[PublishOutcome::Confirmed, PublishOutcome::Confirmed], later);
    assert_eq!((settled.done, flight.troubled()), (vec![1, 3], 0));
}

/// A row whose message cannot be made holds up what stands behind it, and nobody else.
#[test]
fn an_entry_that_is_missing_holds_up_its_tenant_alone() {
    let mut flight = Flight::new(40);
    let row = |id, tenant: &str| Stored { id, tenant: tenant.to_owned(), seq: id };
    let read = flight.next_read(Duration::ZERO).unwrap();
    let rows = vec![row(1, "a"), row(2, "b"), row(3, "a"), row(4, "a"), row(5, "b")];
    let taken = flight.take(&read, rows);
    let leaving = flight.depart(taken, &HashSet::from([3]), Duration::ZERO);
    assert_eq!(leaving.iter().map(|row| row.id).collect::<Vec<_>>(), [1, 2, 5]);
    let settled = flight.confirm(&vec![PublishOutcome::Confirmed; 3], Duration::ZERO);
    assert_eq!((settled.done, flight.troubled()), (vec![1, 2, 5], 1));
}
