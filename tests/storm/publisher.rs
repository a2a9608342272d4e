//! The publisher: persistent, mandatory, with confirms, at a steady pace, through any trouble. A message counts once it is
//! confirmed; one whose confirm did not come may or may not have arrived, and is sent again.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use lapin::options::{BasicPublishOptions, ConfirmSelectOptions};
use lapin::types::{AMQPValue, FieldTable};
use lapin::{BasicProperties, Channel, Confirmation, Connection};

use crate::model::{Message, Script};
use crate::servers::Servers;
use crate::wire::Wire;

/// Published before their confirms are awaited.
const WINDOW: usize = 20;
/// Longer than a broker needs that is well; shorter than a storm.
const CONFIRM: Duration = Duration::from_secs(6);

/// What is known of one message.
#[derive(Debug, Clone, Copy, Default)]
pub struct Sent {
    pub first_at: Option<Duration>,
    pub confirmed_at: Option<Duration>,
    pub tries: u32,
    pub confirms: u32,
}

pub struct Publisher {
    servers: Servers,
    vhost: String,
    script: Arc<Script>,
    begun: Instant,
    pause_between: Duration,
    queue: Mutex<VecDeque<usize>>,
    pub sent: Mutex<Vec<Sent>>,
    pub confirmed: AtomicUsize,
    /// No new window is begun while this is set.
    pub hushed: AtomicBool,
    idle: AtomicBool,
    /// As fast as it can: after the storm.
    pub hurried: AtomicBool,
}

impl Publisher {
    pub fn new(servers: &Servers, vhost: &str, script: Arc<Script>, rate: usize) -> Arc<Self> {
        let count = script.messages.len();
        Arc::new(Self {
            servers: servers.clone(),
            vhost: vhost.to_owned(),
            begun: Instant::now(),
            pause_between: Duration::from_secs(1) * u32::try_from(WINDOW).unwrap() / u32::try_from(rate).unwrap(),
            queue: Mutex::new((0..count).collect()),
            sent: Mutex::new(vec![Sent::default(); count]),
            script,
            confirmed: AtomicUsize::new(0),
            hushed: AtomicBool::new(false),
            idle: AtomicBool::new(false),
            hurried: AtomicBool::new(false),
        })
    }

    /// Everything that was confirmed so far once more: what a publisher does whose ledger was restored from a copy.
    pub fn again(&self) {
        let sent = self.sent.lock().unwrap();
        let mut queue = self.queue.lock().unwrap();
        for number in (0..sent.len()).rev().filter(|number| sent[*number].confirmed_at.is_some()) {
            queue.push_front(number);
        }
    }

    /// A rush; or what is sent once more: at the pace of news, a ledger that lost a second would see no news for a minute.
    fn are_urgent(&self, window: &[usize]) -> bool {
        let sent = self.sent.lock().unwrap();
        window.iter().all(|number| self.script.messages[*number].rush || sent[*number].confirmed_at.is_some())
    }

    pub fn left(&self) -> usize {
        self.queue.lock().unwrap().len()
    }

    /// Begins no new window, and waits until none is under way.
    pub async fn hush(&self) {
        self.hushed.store(true, Ordering::SeqCst);
        while !self.idle.load(Ordering::SeqCst) {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// A message that was not sent yet.
    pub fn unsent(&self, rng: &mut fastrand::Rng) -> Option<usize> {
        let number = *rng.choice(self.queue.lock().unwrap().iter())?;
        self.sent.lock().unwrap()[number].first_at.is_none().then_some(number)
    }

    pub async fn run(self: Arc<Self>) {
        let mut open: Option<(Connection, Channel)> = None;
        let mut wire: Option<Wire> = None;
        loop {
            let window: Vec<usize> = {
                let mut queue = self.queue.lock().unwrap();
                let count = if self.hushed.load(Ordering::SeqCst) { 0 } else { queue.len().min(WINDOW) };
                queue.drain(..count).collect()
            };
            self.idle.store(window.is_empty(), Ordering::SeqCst);
            if window.is_empty() {
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            }
            let hurried = self.hurried.load(Ordering::SeqCst) || self.are_urgent(&window);
            let pause = tokio::time::sleep(if hurried { Duration::ZERO } else { self.pause_between });
            let (odd, plain): (Vec<usize>, Vec<usize>) =
                window.iter().partition(|number| self.script.messages[**number].odd.is_some());
            let mut left = self.send(&mut open, &plain).await;
            left.extend(self.send_odd(&mut wire, odd).await);
            if !left.is_empty() {
                let mut queue = self.queue.lock().unwrap();
                left.into_iter().rev().for_each(|number| queue.push_front(number));
            }
            pause.await;
        }
    }

    /// Sends what no library would; returns what was not confirmed.
    async fn send_odd(&self, wire: &mut Option<Wire>, window: Vec<usize>) -> Vec<usize> {
        let mut left = Vec::new();
        for number in window {
            if tokio::time::timeout(CONFIRM, self.exchange_odd(wire, number))
                .await
                .is_ok_and(|taken| taken.unwrap_or(false))
            {
                self.note_confirm(number);
            } else {
                // Nobody knows what arrived.
                *wire = None;
                left.push(number);
            }
        }
        left
    }

    async fn exchange_odd(&self, wire: &mut Option<Wire>, number: usize) -> Result<bool> {
        let message = &self.script.messages[number];
        let Some(odd) = &message.odd else { bail!("it is an ordinary one") };
        if wire.is_none() {
            *wire = Some(Wire::open(&format!("127.0.0.1:{}", self.servers.amqp_port), &self.vhost).await?);
        }
        let Some(wire) = wire else { bail!("there is no connection") };
        self.note_try(number);
        Ok(wire.publish(message.exchange, &odd.routing_key, &odd.properties, &message.body).await?)
    }

    fn note_try(&self, number: usize) {
        let sent = &mut self.sent.lock().unwrap()[number];
        sent.tries += 1;
        sent.first_at.get_or_insert(self.begun.elapsed());
    }

    fn note_confirm(&self, number: usize) {
        let sent = &mut self.sent.lock().unwrap()[number];
        sent.confirms += 1;
        if sent.confirmed_at.replace(self.begun.elapsed()).is_none() {
            self.confirmed.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// Sends a window; returns what was not confirmed.
    async fn send(&self, open: &mut Option<(Connection, Channel)>, window: &[usize]) -> Vec<usize> {
        if window.is_empty() {
            return Vec::new();
        }
        if open.is_none() {
            match tokio::time::timeout(CONFIRM, self.open()).await {
                Ok(Ok(opened)) => *open = Some(opened),
                Ok(Err(_)) | Err(_) => {
                    tokio::time::sleep(Duration::from_millis(200)).await;
                    return window.to_vec();
                }
            }
        }
        let Some((_, channel)) = open.as_ref() else { return window.to_vec() };
        let mut confirmed = vec![false; window.len()];
        let whole = tokio::time::timeout(CONFIRM, self.exchange(channel, window, &mut confirmed)).await;
        if !matches!(whole, Ok(Ok(()))) {
            // Nobody knows what arrived. Dropped without a farewell: a broker that hangs would not hear it.
            *open = None;
        }
        for (number, _) in window.iter().zip(&confirmed).filter(|(_, confirmed)| **confirmed) {
            self.note_confirm(*number);
        }
        window.iter().zip(confirmed).filter(|(_, confirmed)| !confirmed).map(|(number, _)| *number).collect()
    }

    async fn open(&self) -> Result<(Connection, Channel)> {
        let connection = self.servers.amqp(&self.vhost).await?;
        let channel = connection.create_channel().await?;
        channel.confirm_select(ConfirmSelectOptions::default()).await?;
        Ok((connection, channel))
    }

    async fn exchange(&self, channel: &Channel, window: &[usize], confirmed: &mut [bool]) -> Result<()> {
        let mut confirms = Vec::with_capacity(window.len());
        for number in window {
            let message = &self.script.messages[*number];
            self.note_try(*number);
            let options = BasicPublishOptions { mandatory: true, ..BasicPublishOptions::default() };
            let (exchange, key) = (message.exchange.into(), message.routing_key.as_str().into());
            confirms.push(channel.basic_publish(exchange, key, options, &message.body, properties(message)).await?);
        }
        let mut refused = 0;
        for (confirm, confirmed) in confirms.into_iter().zip(confirmed) {
            match confirm.await? {
                Confirmation::Ack(None) => *confirmed = true,
                Confirmation::Ack(Some(_)) | Confirmation::Nack(_) | Confirmation::NotRequested => refused += 1,
            }
        }
        if refused > 0 {
            // A returned message may be paired with another one's confirm: none of the window counts.
            bail!("{refused} messages were refused");
        }
        Ok(())
    }
}

fn properties(message: &Message) -> BasicProperties {
    let mut headers = FieldTable::default();
    for (name, value) in &message.headers {
        headers.insert(name.as_str().into(), AMQPValue::LongString(value.as_str().into()));
    }
    BasicProperties::default()
        .with_delivery_mode(2)
        .with_content_type(message.content_type.into())
        .with_headers(headers)
}
