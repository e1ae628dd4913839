//! The cache marks among the parts of turns ([`Part::CacheMark`]): finds them, and removes them for dialects that have
//! no place for them.

use super::cache_marks::CacheMarks;
use super::canonical::{Part, Request};
use super::literal::Json;

/// Removes the marks from parts and returns the last: content that is not sent as blocks bears it as a whole.
pub(super) fn taken<'a>(parts: &mut Vec<Part<'a>>) -> Option<Json<'a>> {
    let mut last = None;
    parts.retain(|part| match part {
        Part::CacheMark(mark) => {
            last = Some(mark.clone());
            false
        }
        _ => true,
    });
    last
}

/// Removes the marks from the turns of a request.
pub(super) fn remove(request: &mut Request<'_>) {
    for turn in &mut request.turns {
        turn.parts.retain(|part| !matches!(part, Part::CacheMark(_)));
    }
}

/// Whether the client has set any mark.
pub(super) fn are_set(request: &Request<'_>) -> bool {
    let CacheMarks { request: whole, tools, system } = &request.cache_marks;
    let is_mark = |part: &Part<'_>| matches!(part, Part::CacheMark(_));
    whole.is_some()
        || !tools.is_empty()
        || !system.is_empty()
        || request.turns.iter().any(|turn| turn.parts.iter().any(is_mark))
}
