//! A web search that the upstream ran: the call, and after it the block with the results.

use super::citations::NO_SIGNATURE;
use crate::dialect::literal::Text;
use crate::dialect::search::{Page, Search, SearchOutcome};
use crate::dialect::tree::Node;
use crate::dialect::writer::Writer;

/// The only server tool that other dialects have, too.
const NAME: &str = "web_search";
/// The prefix of ids of searches that another provider ran. The API accepts only ids that begin like Anthropic's own.
const OWN_ID: &str = "srvtoolu_sy";

/// Returns whether a `server_tool_use` block is a search.
pub(super) fn is_search(block: &Node<'_>) -> bool {
    block.str_at("name") == NAME
}

/// Reads the query from the input of a search, which is JSON text.
pub(super) fn query(input: &str) -> Text<'static> {
    let input = Node::parse(input).ok();
    input.and_then(|input| Some(input.text_at("query")?.into_owned())).unwrap_or_default()
}

/// Reads the results, or the failure, in a `web_search_tool_result` block.
pub(super) fn found<'a>(block: &Node<'a>) -> SearchOutcome<'a> {
    let content = block.get("content");
    if let Some(reason) = content.and_then(|content| content.text_at("error_code")) {
        return SearchOutcome::Failure(reason);
    }
    let page = |page: &Node<'a>| Some(Page { url: page.text_at("url")?, title: page.text_at("title") });
    SearchOutcome::Pages(content.map_or(&[][..], Node::items).iter().filter_map(page).collect())
}

/// Returns the id that clients get for a search of another provider.
pub(super) fn own_id(id: &Text<'_>, number: usize) -> Text<'static> {
    let id = id.decode();
    let bare = id.strip_prefix("ws_").unwrap_or(&id);
    let plain: String = bare.chars().map(|it| if it.is_ascii_alphanumeric() { it } else { '_' }).collect();
    Text::of(&format!("{OWN_ID}{number}_{plain}"))
}

/// Returns whether a block belongs to a search that another provider ran.
pub(super) fn is_own(block: &Node<'_>) -> bool {
    let id = match block.str_at("type").as_ref() {
        "server_tool_use" => block.text_at("id"),
        "web_search_tool_result" => block.text_at("tool_use_id"),
        _ => None,
    };
    id.is_some_and(|id| id.literal().starts_with(OWN_ID))
}

/// Writes the members of the call.
pub(super) fn put_call(o: &mut Writer, id: &Text<'_>, input: impl FnOnce(&mut Writer)) {
    o.field("type", "server_tool_use");
    o.field("id", id);
    o.field("name", NAME);
    o.object_at("input", input);
}

/// Writes the members of the call's input.
pub(super) fn put_query(o: &mut Writer, search: &Search<'_>) {
    o.field_if("query", Some(&search.query).filter(|query| !query.is_empty()));
}

/// Writes the members of the block with the results.
pub(super) fn put_found(o: &mut Writer, id: &Text<'_>, found: &SearchOutcome<'_>) {
    o.field("type", "web_search_tool_result");
    o.field("tool_use_id", id);
    match found {
        SearchOutcome::Failure(reason) => o.object_at("content", |o| {
            o.field("type", "web_search_tool_result_error");
            o.field("error_code", reason);
        }),
        SearchOutcome::Pages(pages) => o.array("content", |list| {
            for page in pages {
                list.object(|o| {
                    o.field("type", "web_search_result");
                    o.field("url", &page.url);
                    o.field("title", page.title.as_ref().unwrap_or(&page.url));
                    o.field("encrypted_content", NO_SIGNATURE);
                    o.field("page_age", ());
                });
            }
        }),
    }
}

/// Writes the number of the upstream's searches as a member of the usage.
pub(super) fn put_count(o: &mut Writer, searches: usize) {
    if searches > 0 {
        o.object_at("server_tool_use", |o| {
            o.field("web_search_requests", searches as u64);
            o.field("web_fetch_requests", 0u64);
        });
    }
}
