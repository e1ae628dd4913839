//! Connections that may go on in another protocol, which learn of the service's stop.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};

use hyper::upgrade::OnUpgrade;
use tokio::sync::watch;

use super::connection_state::ConnectionState;
use super::stop::StopStage;
use crate::sync::lock;

/// A connection that may go on in another protocol after its next answer.
pub struct Upgrade {
    pub(super) socket: OnUpgrade,
    pub(super) upgrade_slot: UpgradeSlot,
}

/// What a connection does after its last answer: runs the task of another protocol, if a handler has set one, until the
/// stop signal ends it.
#[derive(Clone)]
pub(super) struct UpgradeSlot(Arc<UpgradeState>);

struct UpgradeState {
    task: Mutex<Option<UpgradedTask>>,
    stop: watch::Receiver<StopStage>,
    wire: Arc<ConnectionState>,
}

type UpgradedTask = Pin<Box<dyn Future<Output = ()> + Send>>;

impl UpgradeSlot {
    pub(super) fn new(stop: watch::Receiver<StopStage>, wire: Arc<ConnectionState>) -> Self {
        Self(Arc::new(UpgradeState { task: Mutex::default(), stop, wire }))
    }

    pub(super) fn stop(&self) -> watch::Receiver<StopStage> {
        self.0.stop.clone()
    }

    /// Sets the `task` that goes on once the answer has been sent.
    pub(super) fn set(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.0.wire.upgrade();
        *lock(&self.0.task) = Some(Box::pin(task));
    }

    pub(super) fn take(&self) -> Option<UpgradedTask> {
        lock(&self.0.task).take()
    }
}
