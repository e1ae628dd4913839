//! Reads a complete answer.

use super::calls::{self, input};
use super::{content, reasoning, searches};
use crate::dialect::Dialect;
use crate::dialect::canonical::{Call, CallKind, Candidate, Part, Reply, Stop};
use crate::dialect::citation::Citation;
use crate::dialect::literal::Text;
use crate::dialect::logprobs;
use crate::dialect::service_tier::ServedTier;
use crate::dialect::tree::Node;
use crate::dialect::upstream_error::{UpstreamError, is_error};
use crate::dialect::usage::{self, Usage};

/// Reads a complete answer; an answer that reports a failure is an error.
pub fn read_reply<'a>(body: &Node<'a>) -> Result<Reply<'a>, UpstreamError> {
    if let Some(failure) = failure(body) {
        return Err(failure);
    }
    let output = body.get("output");
    if output.is_none() && body.get("output_text").is_none() {
        return Err(UpstreamError::new("Upstream's answer has no output"));
    }
    let mut parts = Vec::new();
    let (mut citations, mut weighed) = (Vec::new(), Vec::new());
    for (index, item) in output.map_or(&[][..], Node::items).iter().enumerate() {
        match item.str_at("type").as_ref() {
            "message" => {
                for block in item.get("content").into_iter().flat_map(blocks) {
                    let Some(part) = text_or_refusal(block) else { continue };
                    let cited = block.items_at("annotations").iter().filter_map(Citation::of_annotation);
                    citations.extend(cited.map(|citation| (parts.len(), citation)));
                    let tokens = logprobs::read(block.items_at("logprobs"));
                    weighed.extend(tokens.into_iter().map(|token| (parts.len(), token)));
                    parts.push(part);
                }
            }
            "reasoning" => parts.extend(reasoning::read(item).into_iter().map(Part::Thinking)),
            "function_call" => parts.extend(call(index, item, CallKind::Function)),
            "custom_tool_call" => parts.extend(call(index, item, CallKind::Custom)),
            "web_search_call" => parts.extend(searches::read(item).map(Part::Search)),
            // Other tools that ran at the upstream have no name in the other dialects.
            _ => {}
        }
    }
    if parts.is_empty()
        && let Some(text) = body.text_at("output_text").filter(|text| !text.is_empty())
    {
        parts.push(Part::Text(text));
    }
    let called = parts.iter().any(|part| matches!(part, Part::Call(_)));
    Ok(Reply {
        id: body.text_at("id").unwrap_or_default(),
        model: body.text_at("model").unwrap_or_default(),
        created: body.u64_at("created_at"),
        candidates: vec![Candidate { parts, citations, logprobs: weighed, stop: stop(body, called) }],
        usage: usage(body),
    })
}

/// Returns the failure that a response object reports. If the response has an output, an error counts only when the
/// status is a failure, too.
pub(super) fn failure(response: &Node<'_>) -> Option<UpstreamError> {
    let failed = matches!(response.str_at("status").as_ref(), "failed" | "cancelled");
    match response.get("error").filter(|error| is_error(error)) {
        Some(error) if failed || response.get("output").is_none() => {
            UpstreamError::of(error).or_else(|| Some(unnamed()))
        }
        _ => failed.then(unnamed),
    }
}

pub(super) fn unnamed() -> UpstreamError {
    UpstreamError::new("Upstream reported that the response failed")
}

/// Returns the blocks of a message; some sites write a plain text instead.
fn blocks<'n, 'a>(content: &'n Node<'a>) -> &'n [Node<'a>] {
    if content.is_array() { content.items() } else { std::slice::from_ref(content) }
}

/// Reads a text or a refusal; blocks of other kinds are left out.
fn text_or_refusal<'a>(block: &Node<'a>) -> Option<Part<'a>> {
    let part = content::read_block(block, String::new).ok();
    part.filter(|part| matches!(part, Part::Text(_) | Part::Refusal(_)))
}

fn call<'a>(index: usize, item: &Node<'a>, kind: CallKind) -> Option<Part<'a>> {
    let name = item.text_at("name").filter(|name| !name.is_blank())?;
    let id = calls::call_id(item).unwrap_or_else(|| Text::of(&format!("call_{index}")));
    let input = input(item, if kind == CallKind::Custom { "input" } else { "arguments" });
    Some(Part::Call(Call { id, name, kind, input, signature: None }))
}

/// Returns why the model stopped. Limits and filters take precedence over calls.
pub(super) fn stop(response: &Node<'_>, called: bool) -> Stop<'static> {
    let status = response.str_at("status");
    let reason = response.path(&["incomplete_details", "reason"]).and_then(Node::str).unwrap_or_default();
    match (status.as_ref(), reason.as_ref()) {
        (_, reason) if reason.contains("filter") => Stop::Filtered,
        (_, reason) if reason.contains("max") => Stop::OutputLimit,
        ("incomplete", _) => Stop::OutputLimit,
        _ if called => Stop::ToolCall,
        _ => Stop::End,
    }
}

/// Reads the usage of a response object, counted as the canonical form requires.
pub(super) fn usage(response: &Node<'_>) -> Option<Usage> {
    let mut usage = usage::of_text(Dialect::Responses, response.get("usage")?.raw())?;
    // Some sites count like the messages dialect, with cached tokens apart.
    usage.count_cache_in();
    usage.tier = ServedTier::read(&response.str_at("service_tier"));
    Some(usage)
}
