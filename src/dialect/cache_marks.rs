//! Where a client wants its prompt cached: `cache_control`, as Anthropic has it, and as aggregators take it in chat
//! bodies (<https://openrouter.ai/docs/features/prompt-caching>).
//!
//! A mark says something about a block, and is none itself. Between turns it is read as a part behind the one it
//! marks, [`Part::CacheMark`], so that it moves along with it; those of tools and of system texts are kept by place.
//! Only messages has a place for them: towards every other dialect they are taken out.

use super::canonical::{Part, Request};
use super::literal::Json;
use super::tree::Node;

/// The marks outside the turns, as they came.
#[derive(Clone, Debug, Default)]
pub struct CacheMarks<'a> {
    /// The one of the request itself, of which the upstream chooses the place.
    pub request: Option<Json<'a>>,
    /// Those of tools and of system texts, by their places in the request.
    pub tools: Vec<(usize, Json<'a>)>,
    pub system: Vec<(usize, Json<'a>)>,
}

impl<'a> CacheMarks<'a> {
    /// The mark of the tool at that place.
    pub fn of_tool(&self, place: usize) -> Option<&Json<'a>> {
        at(&self.tools, place)
    }

    /// The mark of the system text at that place.
    pub fn of_system(&self, place: usize) -> Option<&Json<'a>> {
        at(&self.system, place)
    }
}

fn at<'m, 'a>(marks: &'m [(usize, Json<'a>)], place: usize) -> Option<&'m Json<'a>> {
    let found = marks.binary_search_by_key(&place, |(place, _)| *place).ok()?;
    marks.get(found).map(|(_, mark)| mark)
}

/// The mark that a block, a message or a tool bears.
pub(super) fn of<'a>(marked: &Node<'a>) -> Option<Json<'a>> {
    marked.get("cache_control").filter(|mark| mark.is_object()).map(Node::json)
}

/// Takes the marks out of parts, and gives the last: what is not sent as blocks bears it as a whole.
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

/// Takes the marks out of the turns of a request.
pub(super) fn remove(request: &mut Request<'_>) {
    for turn in &mut request.turns {
        turn.parts.retain(|part| !matches!(part, Part::CacheMark(_)));
    }
}

/// Whether the client has set any.
pub(super) fn are_set(request: &Request<'_>) -> bool {
    let CacheMarks { request: whole, tools, system } = &request.cache_marks;
    let is_mark = |part: &Part<'_>| matches!(part, Part::CacheMark(_));
    whole.is_some()
        || !tools.is_empty()
        || !system.is_empty()
        || request.turns.iter().any(|turn| turn.parts.iter().any(is_mark))
}
