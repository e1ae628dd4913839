//! The stop of a server, as its connections learn of it.

use tokio::sync::watch;

/// How far the stop of a server has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum StopStage {
    /// The server accepts connections and answers requests.
    Serving,
    /// No connection is accepted any more, and those that are open end after the answer under way.
    Draining,
    /// The grace period is over: a stream or a handler under way ends with an error.
    Cutting,
}

/// Waits until the stop has come this far.
pub(super) async fn reached(stop: &mut watch::Receiver<StopStage>, stage: StopStage) {
    // An error means that the sender is gone, which counts as a stop.
    drop(stop.wait_for(|reached| *reached >= stage).await);
}
