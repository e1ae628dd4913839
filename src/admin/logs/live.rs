//! `GET /api/stats/live`: the proxy log as it grows.
//!
//! ```text
//! event: log       a row, as the list shows it            at most 50 a second
//! event: skipped   {"count": n}, rows that were not shown  at most once a second
//! : keep-alive     every 15 seconds
//! ```
//!
//! The rows are read from the database after they are written, so that requests pay nothing for being watched. A slow
//! reader is told how many rows it has missed, and holds a bounded number of events.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use hyper::StatusCode;
use hyper::header::AUTHORIZATION;
use serde_json::json;
use tokio::sync::mpsc::{self, error::TrySendError};
use tokio::time::{Instant, MissedTickBehavior, interval};

use super::live_readers::MAX_READERS;
use super::proxy_logs::Item;
use crate::admin::Admin;
use crate::admin::errors::{AdminError, Result};
use crate::core::Core;
use crate::dialect::sse::KEEP_ALIVE;
use crate::http::{Request, Response, bearer, event_stream};
use crate::ids::LogId;
use crate::store::{self, proxy_logs};

/// Maximum number of rows that a reader gets in any second.
const MOST_ROWS: usize = 50;
/// Maximum number of events that wait for a slow reader.
const MAX_WAITING_EVENTS: usize = 64;
/// The interval at which new rows are looked for.
const LOOK: Duration = Duration::from_millis(200);
const SECOND: Duration = Duration::from_secs(1);
const HEARTBEAT: Duration = Duration::from_secs(15);

/// `GET /api/stats/live`
pub async fn stream(admin: Arc<Admin>, request: Request) -> Result<Response> {
    let presented = request.headers.get(AUTHORIZATION);
    let token = presented.map(|header| bearer::token(header.as_bytes()).to_vec()).unwrap_or_default();
    let Some(place) = admin.live_readers.enter() else {
        let message = format!("{MAX_READERS} clients already follow the live log: close one of them first");
        return Err(AdminError::new(StatusCode::TOO_MANY_REQUESTS, message));
    };
    // Read before the response begins: whatever is logged after that is shown.
    let seen = proxy_logs::newest_id(&admin.core.store).await?;
    let core = admin.core.clone();
    let follow = |events| async move {
        let _place = place;
        if let Err(error) = Follower::new(core, events, token, seen).follow().await {
            log::warn!("a client of the live log is disconnected: {error}");
        }
    };
    Ok(event_stream::of_work(&admin.core.background, "the live log", MAX_WAITING_EVENTS, follow))
}

/// Follows the log for one reader.
struct Follower {
    core: Arc<Core>,
    events: mpsc::Sender<Bytes>,
    /// The admin token that the reader presented.
    token: Vec<u8>,
    /// The newest row that was shown or counted.
    seen: LogId,
    /// The number of rows skipped since the last `skipped` event.
    skipped: i64,
    /// When each row of the last second was shown.
    shown: VecDeque<Instant>,
    skipped_sent_at: Instant,
    heartbeat: Instant,
}

impl Follower {
    fn new(core: Arc<Core>, events: mpsc::Sender<Bytes>, token: Vec<u8>, seen: LogId) -> Self {
        let now = Instant::now();
        Self {
            core,
            events,
            token,
            seen,
            skipped: 0,
            shown: VecDeque::new(),
            skipped_sent_at: now,
            heartbeat: now,
        }
    }

    /// Runs until the service stops or the admin token changes: then the reader has to present the new one.
    async fn follow(&mut self) -> store::Result<()> {
        let mut looks = interval(LOOK);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        self.send(Bytes::from_static(b": the log from here on\n\n"));
        while !self.core.is_stopping() && self.core.settings.load().auth_token.as_bytes() == self.token {
            looks.tick().await;
            self.shown.retain(|at| at.elapsed() < SECOND);
            if self.skipped_sent_at.elapsed() >= SECOND {
                self.skipped_sent_at = Instant::now();
                self.send_skipped();
            }
            if self.heartbeat.elapsed() >= HEARTBEAT && self.send(Bytes::from_static(KEEP_ALIVE)) {
                self.heartbeat = Instant::now();
            }
            self.look().await?;
        }
        Ok(())
    }

    /// Sends new rows, as far as the rate limit and the reader's queue have room for them.
    async fn look(&mut self) -> store::Result<()> {
        let newest = proxy_logs::newest_id(&self.core.store).await?;
        if newest <= self.seen {
            return Ok(());
        }
        let room = MOST_ROWS.saturating_sub(self.shown.len()).min(self.events.capacity());
        if room > 0 {
            for row in proxy_logs::between(&self.core.store, self.seen, newest, room).await? {
                let id = row.id;
                let data = serde_json::to_string(&Item::from(row)).unwrap_or_default();
                if !self.send(event_stream::event("log", &data)) {
                    break;
                }
                self.seen = id;
                self.shown.push_back(Instant::now());
            }
        }
        self.skipped += newest.get() - self.seen.get();
        self.seen = newest;
        Ok(())
    }

    fn send_skipped(&mut self) {
        if self.skipped > 0 && self.send(event_stream::event("skipped", &json!({ "count": self.skipped }))) {
            self.skipped = 0;
        }
    }

    /// Sends an event; returns false if the reader's queue is full.
    fn send(&self, event: Bytes) -> bool {
        !matches!(self.events.try_send(event), Err(TrySendError::Full(_)))
    }
}
