//! Writes a request body for an upstream.

use bytes::Bytes;

use super::{tools_write, turns_write};
use crate::dialect::canonical::{ConversionError, Effort, Format, Request, Target, Vendor};
use crate::dialect::literal::{Json, Text};
use crate::dialect::writer::Writer;

/// The longest `user` that OpenAI accepts, in characters.
const MAX_USER: usize = 64;
/// The most stop sequences that OpenAI accepts.
const MAX_STOPS: usize = 4;

/// Writes a request body.
pub fn write_request(request: &Request<'_>, target: &Target<'_>) -> Result<Bytes, ConversionError> {
    request.check_native()?;
    request.check_tools()?;
    turns_write::check(request, target.vendor)?;
    let mut json = Writer::with_capacity(4096);
    let mut says_something = false;
    json.object(|o| {
        o.field("model", target.model);
        o.array("messages", |a| {
            turns_write::write(a, request, target);
            says_something = !a.as_str().ends_with('[');
            if let Some(words) = tools_write::only_allowed(request, target.vendor) {
                turns_write::write_last_words(a, &words);
            }
        });
        tools_write::write(o, request, target);
        write_limits(o, request, target);
        write_sampling(o, request);
        write_advice(o, request);
        write_stream(o, request, target);
    });
    // The turns may consist of the thinking of another provider alone.
    if !says_something && !request.turns.is_empty() {
        return Err(ConversionError::without_content());
    }
    Ok(json.into_bytes())
}

fn write_limits(o: &mut Writer, request: &Request<'_>, target: &Target<'_>) {
    // OpenAI's reasoning models refuse the older name; hardly anyone else knows the newer one.
    let limit = if target.vendor == Vendor::OpenAi { "max_completion_tokens" } else { "max_tokens" };
    o.field_if(limit, request.max_output);
    let effort = request.reasoning.openai_effort(target.model);
    o.field_if("reasoning_effort", effort.map(Effort::openai_word));
    if let Some(format) = &request.format {
        o.object_at("response_format", |o| write_format(o, format));
    }
    if !request.stop.is_empty() {
        o.array("stop", |a| request.stop.iter().take(MAX_STOPS).for_each(|text| a.item(text)));
    }
}

fn write_format(o: &mut Writer, format: &Format<'_>) {
    match format {
        Format::Text => o.field("type", "text"),
        Format::JsonObject => o.field("type", "json_object"),
        Format::JsonSchema { name, description, schema, strict } => {
            o.field("type", "json_schema");
            o.object_at("json_schema", |o| {
                o.field("name", name.as_ref().unwrap_or(&Text::plain("output")));
                o.field_if("description", description.as_ref());
                o.field_if("schema", schema.as_ref());
                o.field_if("strict", *strict);
            });
        }
    }
}

fn write_sampling(o: &mut Writer, request: &Request<'_>) {
    o.field_if("temperature", request.temperature.as_ref());
    o.field_if("top_p", request.top_p.as_ref());
    o.field_if("n", request.n);
    o.field_if("seed", request.seed.as_ref());
    o.field_if("frequency_penalty", request.frequency_penalty.as_ref());
    o.field_if("presence_penalty", request.presence_penalty.as_ref());
    o.field_if("logit_bias", request.logit_bias.as_ref());
    if request.logprobs || request.top_logprobs.is_some() {
        o.field("logprobs", true);
        o.field_if("top_logprobs", request.top_logprobs.as_ref());
    }
}

fn write_advice(o: &mut Writer, request: &Request<'_>) {
    o.field_if("verbosity", request.verbosity.as_ref());
    o.field_if("metadata", request.metadata.as_ref());
    o.field_if("user", request.user.as_ref().map(|user| user.or_hash(MAX_USER)));
    o.field_if("safety_identifier", request.safety_identifier.as_ref());
    o.field_if("prompt_cache_key", request.cache_key.as_ref());
    o.field_if("prompt_cache_retention", shared(request, "prompt_cache_retention"));
    // `standard_only` belongs to the messages dialect; this dialect refuses it.
    let tier = request.service_tier.as_ref().filter(|tier| !tier.is("standard_only"));
    o.field_if("service_tier", tier);
}

fn write_stream(o: &mut Writer, request: &Request<'_>, target: &Target<'_>) {
    if !target.stream {
        return;
    }
    o.field("stream", true);
    o.object_at("stream_options", |o| {
        // The gateway needs it; clients that did not ask for it are not shown it.
        o.field("include_usage", true);
        if target.vendor == Vendor::OpenAi {
            o.field_if("include_obfuscation", shared(request, "include_obfuscation"));
        }
    });
}

/// Returns a member that the responses dialect has too.
fn shared<'r, 'a>(request: &'r Request<'a>, key: &str) -> Option<&'r Json<'a>> {
    request.openai.iter().find(|(name, _)| *name == key).map(|(_, value)| value)
}
