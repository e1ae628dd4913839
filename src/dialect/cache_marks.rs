//! The places up to which a client wants its prompt cached: `cache_control`, as Anthropic has it, and as aggregators
//! take it in chat bodies (<https://openrouter.ai/docs/features/prompt-caching>).
//!
//! A mark belongs to a block, and is not one itself. Between turns it is read as a part behind the one it marks,
//! `Part::CacheMark`, so that it moves along with it; those of tools and of system texts are kept by place. Only
//! messages has a place for marks: they are removed for every other dialect.

use super::literal::Json;
use super::tree::Node;

/// The marks outside the turns, in their order.
#[derive(Clone, Debug, Default)]
pub struct CacheMarks<'a> {
    /// The mark of the request itself, whose place the upstream chooses.
    pub request: Option<Json<'a>>,
    /// The marks of tools, by their places in the request; `system` has those of system texts.
    pub tools: Vec<(usize, Json<'a>)>,
    pub system: Vec<(usize, Json<'a>)>,
}

impl<'a> CacheMarks<'a> {
    /// Returns the mark of the tool at this place.
    pub fn of_tool(&self, place: usize) -> Option<&Json<'a>> {
        at(&self.tools, place)
    }

    /// Returns the mark of the system text at this place.
    pub fn of_system(&self, place: usize) -> Option<&Json<'a>> {
        at(&self.system, place)
    }
}

fn at<'m, 'a>(marks: &'m [(usize, Json<'a>)], place: usize) -> Option<&'m Json<'a>> {
    let found = marks.binary_search_by_key(&place, |(place, _)| *place).ok()?;
    marks.get(found).map(|(_, mark)| mark)
}

/// Returns the mark of a block, a message or a tool.
pub(super) fn of<'a>(marked: &Node<'a>) -> Option<Json<'a>> {
    marked.get("cache_control").filter(|mark| mark.is_object()).map(Node::json)
}
