//! Web searches that an upstream ran itself.
//!
//! | | the search | its results |
//! |---|---|---|
//! | responses | a `web_search_call` item, whose `action` holds the query | `action.sources`, if the client asks for them |
//! | messages | a `server_tool_use` block, whose input is the query | the `web_search_tool_result` block behind it |
//! | gemini | `groundingMetadata.webSearchQueries` | |
//!
//! Chat has no place for one. In requests there are none: the model that searched knows the results already, and for
//! every other they are text, if anything.

use super::literal::Text;

/// A search in an answer.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Search<'a> {
    pub id: Text<'a>,
    /// The query; empty when it is not known.
    pub query: Text<'a>,
    /// The outcome; `None` when the answer ended before the search did.
    pub found: Option<SearchOutcome<'a>>,
}

/// The outcome of a search.
#[derive(Clone, Debug, PartialEq)]
pub enum SearchOutcome<'a> {
    Pages(Vec<Page<'a>>),
    /// The reason of a failure, in the words of messages (`max_uses_exceeded`, …).
    Failure(Text<'a>),
}

/// A page that was found.
#[derive(Clone, Debug, PartialEq)]
pub struct Page<'a> {
    pub url: Text<'a>,
    pub title: Option<Text<'a>>,
}

impl SearchOutcome<'_> {
    pub fn into_owned(self) -> SearchOutcome<'static> {
        match self {
            Self::Pages(pages) => SearchOutcome::Pages(pages.into_iter().map(Page::into_owned).collect()),
            Self::Failure(reason) => SearchOutcome::Failure(reason.into_owned()),
        }
    }
}

impl Page<'_> {
    fn into_owned(self) -> Page<'static> {
        Page { url: self.url.into_owned(), title: self.title.map(Text::into_owned) }
    }
}
