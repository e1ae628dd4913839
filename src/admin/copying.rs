//! Refuses changes while everything is copied into another database: what operators set up meanwhile would stay behind
//! in the old one, and nobody would notice before that one is gone.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use hyper::{Method, StatusCode};

use super::errors::{AdminError, Result};

/// Whether a copy is in progress; clones share the state.
#[derive(Debug, Clone, Default)]
pub struct Copies {
    is_under_way: Arc<AtomicBool>,
}

/// A guard for a copy in progress; the copy ends when this is dropped.
#[derive(Debug)]
pub struct Copying {
    is_under_way: Arc<AtomicBool>,
}

impl Copies {
    /// Begins a copy; returns `None` if one is in progress.
    pub fn begin(&self) -> Option<Copying> {
        let was_under_way = self.is_under_way.swap(true, Ordering::SeqCst);
        (!was_under_way).then(|| Copying { is_under_way: self.is_under_way.clone() })
    }

    /// Admits requests that change nothing, and every request while no copy is in progress.
    ///
    /// # Errors
    /// Refuses a change while a copy is in progress.
    pub fn admit(&self, method: &Method) -> Result<()> {
        let changes = !matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS);
        if changes && self.is_under_way.load(Ordering::SeqCst) { Err(refused()) } else { Ok(()) }
    }
}

impl Drop for Copying {
    fn drop(&mut self) {
        self.is_under_way.store(false, Ordering::SeqCst);
    }
}

/// Builds the refusal of a change that arrives while a copy is in progress.
pub fn refused() -> AdminError {
    AdminError::new(
        StatusCode::SERVICE_UNAVAILABLE,
        "All data is being copied into another database, and changes are refused until that is done. GET \
         /api/tasks shows its progress",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_refused_until_the_copy_is_dropped() {
        let copies = Copies::default();
        assert!(copies.admit(&Method::POST).is_ok());
        let copying = copies.begin().expect("the first");
        assert!(copies.begin().is_none());
        assert!(copies.admit(&Method::GET).is_ok());
        for method in [Method::POST, Method::PUT, Method::PATCH, Method::DELETE] {
            assert!(copies.admit(&method).is_err(), "{method}");
        }
        drop(copying);
        assert!(copies.admit(&Method::POST).is_ok());
    }
}
