//! Searches of the web that an upstream ran itself.
//!
//! | | the search | what it found |
//! |---|---|---|
//! | responses | a `web_search_call` item, whose `action` tells the query | `action.sources`, for who asks |
//! | messages | a `server_tool_use` block, whose input is the query | the `web_search_tool_result` block behind it |
//! | gemini | `groundingMetadata.webSearchQueries` | |
//!
//! Chat has no place for one. In requests there are none: what was found is known to the model that
//! searched, and is text, if anything, for every other.

use super::literal::Text;

/// A search in an answer.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Search<'a> {
    pub id: Text<'a>,
    /// Empty when nobody tells it.
    pub query: Text<'a>,
    /// `None` when the answer ended before the search did.
    pub found: Option<Found<'a>>,
}

/// How a search ended.
#[derive(Clone, Debug, PartialEq)]
pub enum Found<'a> {
    Pages(Vec<Page<'a>>),
    /// With the reason in the words of messages (`max_uses_exceeded`, …).
    Failure(Text<'a>),
}

/// A page that was found.
#[derive(Clone, Debug, PartialEq)]
pub struct Page<'a> {
    pub url: Text<'a>,
    pub title: Option<Text<'a>>,
}

impl Found<'_> {
    pub fn into_owned(self) -> Found<'static> {
        match self {
            Self::Pages(pages) => Found::Pages(pages.into_iter().map(Page::into_owned).collect()),
            Self::Failure(reason) => Found::Failure(reason.into_owned()),
        }
    }
}

impl Page<'_> {
    fn into_owned(self) -> Page<'static> {
        Page { url: self.url.into_owned(), title: self.title.map(Text::into_owned) }
    }
}
