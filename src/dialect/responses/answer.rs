//! The response object and its items, finished or in progress.
//!
//! The types of the clients' SDKs require every member: a member that the request set is repeated, every other one
//! has the dialect's default.

use serde::de::IgnoredAny;

use crate::dialect::canonical::{CallKind, ReplyContext, Stop};
use crate::dialect::citation::Citation;
use crate::dialect::errors;
use crate::dialect::literal::{Json, Text};
use crate::dialect::logprobs::{self, Token};
use crate::dialect::search::Search;
use crate::dialect::service_tier::ServedTier;
use crate::dialect::tree::Node;
use crate::dialect::upstream_error::UpstreamError;
use crate::dialect::usage::Usage;
use crate::dialect::writer::Writer;

use super::status::Status;
use super::{reasoning, searches};

/// The members that every answer has, with their values where the request does not set them.
const DEFAULTS: [(&str, &str); 19] = [
    ("background", "false"),
    ("completed_at", "null"),
    ("frequency_penalty", "0"),
    ("instructions", "null"),
    ("max_output_tokens", "null"),
    ("max_tool_calls", "null"),
    ("metadata", "{}"),
    ("parallel_tool_calls", "true"),
    ("presence_penalty", "0"),
    ("previous_response_id", "null"),
    ("reasoning", r#"{"effort":null,"summary":null}"#),
    ("store", "false"),
    ("temperature", "1"),
    ("text", r#"{"format":{"type":"text"}}"#),
    ("tool_choice", r#""auto""#),
    ("tools", "[]"),
    ("top_p", "1"),
    ("truncation", r#""disabled""#),
    ("user", "null"),
];
/// The beginning of an answer: its id, its model and its time.
#[derive(Clone, Debug)]
pub(super) struct Head {
    pub id: String,
    /// The hex digits in item ids that name the answer; empty where the answer keeps the upstream's id.
    answer_id: String,
    pub model: Text<'static>,
    /// Seconds since 1970.
    pub created: u64,
}

impl Head {
    pub(super) fn new(id: &Text<'_>, model: &Text<'_>, created: Option<u64>, context: &ReplyContext) -> Self {
        Self {
            id: response_id(id, context),
            answer_id: context.answer_id.clone().unwrap_or_default(),
            model: model.borrowed().into_owned(),
            created: created.unwrap_or(context.now),
        }
    }

    /// Returns the id of the item at that place of the output. It is removed again before an upstream of this dialect
    /// sees it ([`without_own_ids`](super::without_own_ids)).
    pub(super) fn item_id(&self, item: &Item<'_>, index: usize) -> String {
        let prefix = match item {
            Item::Reasoning { id: Some(id), .. } => return id.decode().into_owned(),
            Item::Reasoning { .. } => "rs_sy",
            Item::Message(_) => "msg_sy",
            Item::Call { .. } => "fc_sy",
            Item::Search(_) => "ws_sy",
        };
        format!("{prefix}{}{index}", self.answer_id)
    }

    /// Writes the members of a response object; `output` writes its items.
    pub(super) fn put(
        &self,
        o: &mut Writer,
        status: Status<'_>,
        output: impl FnOnce(&mut Writer),
        usage: Option<&Usage>,
        context: &ReplyContext,
    ) {
        o.field("id", &self.id);
        o.field("object", "response");
        o.field("created_at", self.created);
        o.field("status", status.word());
        match status {
            Status::Failed(error) => o.object_at("error", |o| put_error(o, error)),
            _ => o.field("error", ()),
        }
        match status {
            Status::Incomplete(reason) => {
                o.object_at("incomplete_details", |o| o.field("reason", reason));
            }
            _ => o.field("incomplete_details", ()),
        }
        o.field("model", &self.model);
        o.array("output", output);
        let echoed = |name: &str| context.echo.iter().find(|(key, _)| *key == name);
        for (name, default) in DEFAULTS {
            o.field(name, Json::checked(echoed(name).map_or(default, |(_, value)| value)));
        }
        for (name, value) in &context.echo {
            if !DEFAULTS.iter().any(|(known, _)| known == name) {
                o.field(name, Json::checked(value));
            }
        }
        o.field_if("service_tier", usage.and_then(|usage| usage.tier).map(ServedTier::word));
        match usage {
            Some(usage) => o.object_at("usage", |o| put_usage(o, usage)),
            None => o.field("usage", ()),
        }
    }
}

/// Returns the members that an answer lacks, each with the value from the request or else the dialect's default.
pub(super) fn lacking<'t>(answer: &Node<'_>, context: &'t ReplyContext) -> Vec<(&'t str, &'t str)> {
    let echoed = |name: &str| context.echo.iter().find(|(key, _)| *key == name);
    let defaults = DEFAULTS.iter().chain(&[("error", "null"), ("incomplete_details", "null")]);
    let lacking = defaults.filter(|(name, _)| answer.member(name).is_none());
    lacking.map(|(name, default)| (*name, echoed(name).map_or(*default, |(_, value)| value))).collect()
}

/// Returns the id that we gave the answer, or else the upstream's.
fn response_id(id: &Text<'_>, context: &ReplyContext) -> String {
    match &context.answer_id {
        Some(own) => format!("resp_{own}"),
        None if id.is_empty() => format!("resp_{}", context.fallback_id),
        None => id.decode().into_owned(),
    }
}

fn put_error(o: &mut Writer, error: &UpstreamError) {
    o.field("code", error.response_code());
    o.field("message", &error.message);
    o.field_if("type", errors::reported_kind(error));
}

/// Writes the usage. Both objects of details always come with their numbers, because clients' types require them.
fn put_usage(o: &mut Writer, usage: &Usage) {
    let (input, output) = (usage.prompt.unwrap_or(0), usage.completion.unwrap_or(0));
    o.field("input_tokens", input);
    o.object_at("input_tokens_details", |o| {
        o.field("cached_tokens", usage.cache_read.unwrap_or(0));
        let written = usage.cache_creation.unwrap_or(0);
        o.field("cache_write_tokens", written);
        // The name that others give it.
        o.field_if("cache_creation_tokens", Some(written).filter(|written| *written > 0));
    });
    o.field("output_tokens", output);
    o.object_at("output_tokens_details", |o| {
        o.field("reasoning_tokens", usage.reasoning.unwrap_or(0));
    });
    o.field("total_tokens", usage.total.unwrap_or(0).max(input.saturating_add(output)));
}

/// An item of the output.
#[derive(Debug)]
pub(super) enum Item<'t> {
    Reasoning {
        /// The upstream's id, when the item comes from an upstream of this dialect.
        id: Option<Text<'t>>,
        summary: Vec<Text<'t>>,
        encrypted: Option<Text<'t>>,
    },
    Message(Vec<OutputPart<'t>>),
    Call {
        call_id: Text<'t>,
        name: Text<'t>,
        kind: CallKind,
        input: Text<'t>,
    },
    Search(Search<'t>),
}

/// A part of a message.
#[derive(Debug)]
pub(super) struct OutputPart<'t> {
    pub refused: bool,
    pub text: Text<'t>,
    pub citations: Vec<Citation<'t>>,
    pub logprobs: Vec<Token<'t>>,
    /// The number of `logprobs` that have been written to a stream.
    pub weighed: usize,
}

impl Item<'_> {
    /// Returns the status of the item as the last one of an answer that ended by `stop`. A call whose arguments are
    /// not complete JSON was cut off: a client must not run it.
    pub(super) fn status(&self, stop: &Stop<'_>) -> Status<'static> {
        match self {
            Self::Message(_) => Status::of(stop),
            _ if self.is_cut_off() => Status::of(stop),
            _ => Status::Completed,
        }
    }

    /// Returns whether the item is a call whose arguments are not complete JSON; empty arguments count as complete.
    pub(super) fn is_cut_off(&self) -> bool {
        matches!(self, Self::Call { kind: CallKind::Function, input, .. } if !input.is_empty() && !is_whole(input))
    }

    /// Writes the item's members.
    pub(super) fn put(&self, o: &mut Writer, id: &str, status: Status<'_>) {
        o.field("id", id);
        match self {
            Self::Reasoning { summary, encrypted, .. } => {
                o.field("type", "reasoning");
                o.array("summary", |a| summary.iter().for_each(|text| reasoning::put_part(a, text)));
                o.field_if("encrypted_content", encrypted.as_ref());
            }
            Self::Message(parts) => {
                o.field("type", "message");
                o.field("status", status.word());
                o.field("role", "assistant");
                o.array("content", |a| parts.iter().for_each(|part| a.object(|o| part.put(o))));
            }
            Self::Call { call_id, name, kind, input } => {
                let (word, key) = match kind {
                    CallKind::Function => ("function_call", "arguments"),
                    CallKind::Custom => ("custom_tool_call", "input"),
                };
                o.field("type", word);
                o.field("status", status.word());
                o.field("call_id", call_id);
                o.field("name", name);
                o.field(key, input);
            }
            Self::Search(search) => searches::put(o, search, status),
        }
    }
}

fn is_whole(arguments: &Text<'_>) -> bool {
    serde_json::from_str::<IgnoredAny>(&arguments.decode()).is_ok()
}

impl<'t> OutputPart<'t> {
    pub(super) fn new(refused: bool, text: Text<'t>) -> Self {
        Self { refused, text, citations: Vec::new(), logprobs: Vec::new(), weighed: 0 }
    }

    pub(super) fn put(&self, o: &mut Writer) {
        if self.refused {
            o.field("type", "refusal");
            o.field("refusal", &self.text);
        } else {
            o.field("type", "output_text");
            o.field("text", &self.text);
            let letters = self.cited_chars();
            o.array("annotations", |a| {
                self.citations.iter().for_each(|it| a.object(|o| put_citation(o, it, letters)));
            });
            logprobs::put(o, "logprobs", &self.logprobs);
        }
    }

    /// Returns the length of the text for [`put_citation`], in characters; 0 where every citation has its own span.
    pub(super) fn cited_chars(&self) -> u64 {
        let is_of_all = self.citations.iter().any(|citation| citation.span.is_none());
        if is_of_all { self.text.char_count() } else { 0 }
    }
}

/// Writes the members of an annotation of a text with `letters` characters; a citation without a span covers the
/// whole text.
pub(super) fn put_citation(o: &mut Writer, citation: &Citation<'_>, letters: u64) {
    o.field("type", "url_citation");
    citation.within(0, letters).put_annotation(o);
}

/// Returns the input of a complete call; for a function without arguments, an empty object.
pub(super) fn complete_input(kind: CallKind, input: &Text<'_>) -> Text<'static> {
    if kind == CallKind::Function && input.is_empty() {
        Text::plain("{}")
    } else {
        input.borrowed().into_owned()
    }
}
