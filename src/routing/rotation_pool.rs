//! The two kinds of sites behind a route.

/// The two kinds of sites behind a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pool {
    /// The sites that work best: they have all but one of [`OBSERVE_EVERY`](super::rotation::OBSERVE_EVERY) requests.
    Primary,
    /// The others, which get a request now and then so that they can show themselves.
    Observation,
}
