//! `web_search_call`: a search of the web that the upstream ran.

use super::status::Status;
use crate::dialect::literal::Text;
use crate::dialect::search::{Page, Search, SearchOutcome};
use crate::dialect::tree::Node;
use crate::dialect::writer::Writer;

/// The error code of a failed search, in the words of other dialects: this dialect gives no reason.
const UNAVAILABLE: &str = "unavailable";

/// Reads an item. Only searches count: opening a page, or looking for something in it, does not.
pub(super) fn read<'a>(item: &Node<'a>) -> Option<Search<'a>> {
    let action = item.get("action");
    let kind = action.map(|action| action.str_at("type")).unwrap_or_default();
    if !matches!(kind.as_ref(), "search" | "") {
        return None;
    }
    let query = action.and_then(|action| {
        let all = action.items_at("queries").iter().filter_map(Node::text);
        action.text_at("query").filter(|query| !query.is_empty()).or_else(|| all.into_iter().next())
    });
    let page = |page: &Node<'a>| Some(Page { url: page.text_at("url")?, title: page.text_at("title") });
    let sources = action.map_or(&[][..], |action| action.items_at("sources"));
    let found = match item.str_at("status").as_ref() {
        "failed" => Some(SearchOutcome::Failure(Text::plain(UNAVAILABLE))),
        "in_progress" | "searching" | "incomplete" => None,
        _ => Some(SearchOutcome::Pages(sources.iter().filter_map(page).collect())),
    };
    Some(Search { id: item.text_at("id").unwrap_or_default(), query: query.unwrap_or_default(), found })
}

/// Writes the members of an item that follow its id.
pub(super) fn put(o: &mut Writer, search: &Search<'_>, status: Status<'_>) {
    o.field("type", "web_search_call");
    o.field(
        "status",
        match (status, &search.found) {
            (Status::InProgress, _) => "in_progress",
            (_, Some(SearchOutcome::Pages(_))) => "completed",
            (_, Some(SearchOutcome::Failure(_))) => "failed",
            (_, None) => "incomplete",
        },
    );
    o.object_at("action", |o| {
        o.field("type", "search");
        o.field("query", &search.query);
        if let Some(SearchOutcome::Pages(pages)) = &search.found {
            o.array("sources", |list| {
                for page in pages {
                    list.object(|o| {
                        o.field("type", "url");
                        o.field("url", &page.url);
                    });
                }
            });
        }
    });
}
