//! The two pools of sites behind a stable-first route.

/// One of the two pools of sites behind a stable-first route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pool {
    /// The sites that work best; they serve all but one of [`OBSERVE_EVERY`](super::rotation::OBSERVE_EVERY) requests.
    Primary,
    /// The other sites; they serve an occasional request, so that it is seen how well they work.
    Observation,
}
