//! Turns an answer into a compacted conversation.

use crate::dialect::tree::Node;
use crate::dialect::writer::Writer;

/// Returns an ordinary answer in the form of a compaction with the same output; `None` when it is a compaction
/// already or has no output.
pub fn as_compaction(body: &str, fallback_id: &str, now: u64) -> Option<String> {
    let answer = Node::parse(body).ok().filter(Node::is_object)?;
    if answer.str_at("object") == "response.compaction" || answer.get("output").is_none() {
        return None;
    }
    let mut json = Writer::with_capacity(body.len());
    json.object(|o| {
        match answer.text_at("id").filter(|id| id.literal().starts_with("resp_")) {
            Some(id) => o.field("id", id),
            None => o.field("id", format!("resp_{fallback_id}")),
        }
        o.field("object", "response.compaction");
        o.field("created_at", answer.u64_at("created_at").unwrap_or(now));
        o.field_if("output", answer.json_at("output"));
        o.field_if("usage", answer.json_at("usage"));
    });
    Some(json.into_string())
}

#[cfg(test)]
mod tests {
    use super::as_compaction;

    #[test]
    fn an_answer_becomes_a_compaction_and_a_compaction_stays() {
        for (body, expected) in [
            (
                r#"{"id":"resp_1","object":"response","created_at":7,"model":"m","output":[{"type":"message"}],"usage":{"total_tokens":3}}"#,
                Some(
                    r#"{"id":"resp_1","object":"response.compaction","created_at":7,"output":[{"type":"message"}],"usage":{"total_tokens":3}}"#,
                ),
            ),
            (
                r#"{"id":"x","output":[]}"#,
                Some(r#"{"id":"resp_r","object":"response.compaction","created_at":9,"output":[]}"#),
            ),
            (r#"{"id":"resp_1","object":"response.compaction","output":[]}"#, None),
            (r#"{"id":"resp_1"}"#, None),
            ("[]", None),
        ] {
            assert_eq!(as_compaction(body, "r", 9).as_deref(), expected, "{body}");
        }
    }
}
