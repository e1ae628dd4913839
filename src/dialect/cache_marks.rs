//! Where a client wants its prompt cached: `cache_control`, as Anthropic has it, and as aggregators take it in chat
//! bodies (<https://openrouter.ai/docs/features/prompt-caching>).
//!
//! A mark says something about a block, and is none itself. Between turns it is read as a part behind the one it
//! marks, `Part::CacheMark`, so that it moves along with it; those of tools and of system texts are kept by place.
//! Only messages has a place for them: towards every other dialect they are taken out.

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
