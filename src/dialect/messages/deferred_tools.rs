//! Tools that stay out of the prompt until the model has found them by a search that its client runs.
//!
//! A client with many tools marks most of them (`defer_loading`), offers one that searches among them, and answers
//! its calls with a `tool_reference` to each tool that was found:
//! <https://platform.claude.com/docs/en/agents-and-tools/tool-use/tool-search-tool>. From there on a messages
//! upstream shows the model the definition. Other upstreams get a tool once the conversation has mentioned it, after
//! all other tools and in the order of these mentions, so that the beginning of the prompt does not change. If the
//! upstream itself was to search, no other upstream could, so all tools are in the prompt.

use std::collections::HashMap;

use crate::dialect::tree::Node;

/// Returns the tools of a request that the model is to see.
pub(super) fn seen<'n, 'a>(body: &'n Node<'a>) -> Vec<&'n Node<'a>> {
    let tools = body.items_at("tools");
    let is_deferred = |tool: &&Node<'_>| tool.bool_at("defer_loading") == Some(true);
    let is_search = |tool: &Node<'_>| tool.str_at("type").starts_with("tool_search_tool");
    let (deferred, mut seen): (Vec<_>, Vec<_>) = tools.iter().partition(is_deferred);
    // If all tools are deferred, none is left that could search.
    if deferred.is_empty() || seen.is_empty() || tools.iter().any(is_search) {
        return tools.iter().collect();
    }
    let mut deferred: HashMap<_, _> = deferred.into_iter().map(|tool| (tool.str_at("name"), tool)).collect();
    for message in body.items_at("messages") {
        for block in message.items_at("content") {
            match block.str_at("type").as_ref() {
                "tool_use" => seen.extend(deferred.remove(&block.str_at("name"))),
                "tool_result" => {
                    let said = block.items_at("content").iter();
                    let found = said.filter(|item| item.str_at("type") == "tool_reference");
                    seen.extend(found.filter_map(|item| deferred.remove(&item.str_at("tool_name"))));
                }
                _ => {}
            }
        }
    }
    let chosen = body.path(&["tool_choice", "name"]).and_then(Node::str).unwrap_or_default();
    seen.extend(deferred.remove(&chosen));
    seen
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(more: &str) -> String {
        let body = format!(
            r#"{{"tools":[{{"name":"search"}},{{"name":"a","defer_loading":true}},{{"name":"b","defer_loading":true}},
                {{"name":"read","defer_loading":false}}{more}}}"#
        );
        let body = Node::parse(&body).unwrap();
        seen(&body).iter().map(|tool| tool.str_at("name").into_owned()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn a_deferred_tool_is_seen_once_the_conversation_has_come_to_it() {
        let found = r#"{"role":"user","content":[{"type":"tool_result","tool_use_id":"1","content":[
            {"type":"text","text":"Found:"},{"type":"tool_reference","tool_name":"b"},{"type":"tool_reference","tool_name":"gone"}]}]}"#;
        let called = r#"{"role":"assistant","content":[{"type":"tool_use","id":"2","name":"a","input":{}}]}"#;
        let words = r#"{"role":"user","content":"a b"}"#;
        for (more, expected) in [
            ("]".to_owned(), "search read"),
            (format!(r#"],"messages":[{words}]"#), "search read"),
            (format!(r#"],"messages":[{words},{found}]"#), "search read b"),
            (format!(r#"],"messages":[{words},{found},{called},{found}]"#), "search read b a"),
            (r#"],"tool_choice":{"type":"tool","name":"a"}"#.to_owned(), "search read a"),
            (r#",{"type":"tool_search_tool_bm25_20251119","name":"s"}]"#.to_owned(), "search a b read s"),
        ] {
            assert_eq!(names(&more), expected, "{more}");
        }
    }

    #[test]
    fn where_all_tools_are_deferred_all_are_seen() {
        let body = Node::parse(r#"{"tools":[{"name":"a","defer_loading":true}]}"#).unwrap();
        assert_eq!(seen(&body).len(), 1);
    }
}
