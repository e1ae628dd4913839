//! Writes a request body for an upstream.

use std::collections::HashSet;

use bytes::Bytes;

use super::contents_write;
use crate::dialect::canonical::{ConversionError, Effort, Format, Request, Target, Tool, ToolChoice};
use crate::dialect::effort::{GeminiThinking, gemini_thinking, may_be_third_gemini};
use crate::dialect::literal::Text;
use crate::dialect::writer::Writer;

/// The most stop sequences that Google accepts.
const MAX_STOPS: usize = 5;

/// Writes a request body. The model and whether to stream stand in the path of the request.
pub fn write_request(request: &Request<'_>, target: &Target<'_>) -> Result<Bytes, ConversionError> {
    check(request)?;
    let model = target.model.to_ascii_lowercase();
    let thinking = thinks(&model).then(|| gemini_thinking(&request.reasoning, &model)).flatten();
    let may_be_third = may_be_third_gemini(&model);
    let is_off = request.reasoning.wanted_effort() == Some(Effort::None);
    let signs = may_be_third || (thinking.is_some() && !is_off);
    let mut json = Writer::with_capacity(4096);
    let mut says_something = false;
    json.object(|o| {
        let format = format_in_words(request, may_be_third);
        if !request.system.is_empty() || format.is_some() {
            o.object_at("systemInstruction", |o| {
                o.array("parts", |a| {
                    let texts = request.system.iter().chain(&format);
                    texts.for_each(|text| a.object(|o| o.field("text", text)))
                });
            });
        }
        o.array("contents", |a| says_something = contents_write::write(a, request, signs));
        write_tools(o, request, may_be_third);
        let mut config = Writer::new();
        config.object(|o| {
            write_config(o, request);
            if format.is_none() {
                write_format(o, request);
            }
            write_thinking(o, thinking, is_off);
        });
        if config.as_str() != "{}" {
            o.field("generationConfig", crate::dialect::literal::Json::checked(config.as_str()));
        }
    });
    // A conversation of nothing but empty texts or blank instructions ends up empty.
    if !says_something {
        return Err(ConversionError::without_content());
    }
    Ok(json.into_bytes())
}

fn check(request: &Request<'_>) -> Result<(), ConversionError> {
    request.check_native()?;
    request.check_tools()?;
    contents_write::check(request)
}

/// Returns whether a model knows `thinkingConfig`. A name that tells no version is an alias of a current model.
pub(super) fn thinks(model: &str) -> bool {
    !["gemma", "claude", "gpt", "gemini-1.", "gemini-2.0", "learnlm"]
        .iter()
        .any(|older| model.contains(older))
}

pub(super) fn write_thinking(o: &mut Writer, thinking: Option<GeminiThinking>, is_off: bool) {
    let Some(thinking) = thinking else { return };
    o.object_at("thinkingConfig", |o| {
        if !is_off {
            o.field("includeThoughts", true);
        }
        match thinking {
            GeminiThinking::Level(level) => o.field("thinkingLevel", level),
            GeminiThinking::Budget(budget) => o.field("thinkingBudget", budget),
        }
    });
}

fn write_config(o: &mut Writer, request: &Request<'_>) {
    o.field_if("maxOutputTokens", request.max_output);
    o.field_if("temperature", request.temperature.as_ref());
    o.field_if("topP", request.top_p.as_ref());
    o.field_if("topK", request.top_k.as_ref());
    if !request.stop.is_empty() {
        o.array("stopSequences", |a| request.stop.iter().take(MAX_STOPS).for_each(|text| a.item(text)));
    }
    o.field_if("seed", request.seed.as_ref());
    o.field_if("presencePenalty", request.presence_penalty.as_ref());
    o.field_if("frequencyPenalty", request.frequency_penalty.as_ref());
    o.field_if("candidateCount", request.n);
    if request.logprobs {
        o.field("responseLogprobs", true);
        let others = request.top_logprobs.as_ref();
        o.field_if("logprobs", others.filter(|others| others.f64().is_some_and(|count| count > 0.0)));
    }
}

fn write_format(o: &mut Writer, request: &Request<'_>) {
    match &request.format {
        Some(Format::JsonObject) => o.field("responseMimeType", "application/json"),
        Some(Format::JsonSchema { schema, .. }) => {
            o.field("responseMimeType", "application/json");
            o.field_if("responseJsonSchema", schema.as_ref());
        }
        Some(Format::Text) | None => {}
    }
}

/// Describes the form of the answer in words, where it can be asked for in no other way: before the third generation,
/// a model that may call functions is not held to a form.
fn format_in_words(request: &Request<'_>, may_be_third: bool) -> Option<Text<'static>> {
    const OBJECT: &str = "Answer with one JSON object and nothing else, unless you call a function.";
    let calls = request.tools.iter().any(|tool| matches!(tool, Tool::Function { .. }));
    match request.format.as_ref().filter(|_| calls && !may_be_third)? {
        Format::Text => None,
        Format::JsonSchema { schema: Some(schema), .. } => Some(Format::schema_in_words(schema)),
        Format::JsonObject | Format::JsonSchema { schema: None, .. } => Some(Text::plain(OBJECT)),
    }
}

/// Writes the tools. Before the third generation a model either searches or calls functions, not both.
fn write_tools(o: &mut Writer, request: &Request<'_>, may_be_third: bool) {
    let searches = request.tools.iter().any(|tool| matches!(tool, Tool::WebSearch(_)));
    let calls = request.tools.iter().any(|tool| matches!(tool, Tool::Function { .. }));
    if !searches && !calls {
        return;
    }
    let does_both = searches && calls && may_be_third;
    o.array("tools", |a| {
        if calls {
            a.object(|o| {
                o.array("functionDeclarations", |a| request.tools.iter().for_each(|it| write_tool(a, it)))
            });
        }
        if does_both || !calls {
            a.object(|o| o.object_at("googleSearch", |_| {}));
        }
    });
    let choice = request.tool_choice.as_ref().filter(|_| calls);
    let mode = choice.and_then(|choice| calling_mode(choice, &request.tools));
    // A model that does both has another default mode, and refuses AUTO ("Combine built-in tools and function calling").
    let mode = mode.filter(|(mode, _)| !does_both || *mode != "AUTO");
    if mode.is_some() || does_both {
        o.object_at("toolConfig", |o| {
            if let Some((mode, names)) = mode {
                write_calling_mode(o, mode, &names);
            }
            if does_both {
                o.field("includeServerSideToolInvocations", true);
            }
        });
    }
}

fn write_tool(list: &mut Writer, tool: &Tool<'_>) {
    let Tool::Function { name, description, parameters, .. } = tool else { return };
    list.object(|o| {
        o.field("name", name);
        o.field_if("description", description.as_ref());
        o.field_if("parametersJsonSchema", parameters.as_ref());
    });
}

/// Returns the mode for a tool choice, and the functions that it names; only those that are declared.
fn calling_mode<'r, 'a>(
    choice: &'r ToolChoice<'a>,
    tools: &[Tool<'_>],
) -> Option<(&'static str, Vec<&'r Text<'a>>)> {
    let declared = tools.iter().filter_map(|tool| match tool {
        Tool::Function { name, .. } => Some(name.literal()),
        _ => None,
    });
    let declared: HashSet<&str> = declared.collect();
    let (mode, mut names): (_, Vec<&Text<'_>>) = match choice {
        ToolChoice::Auto => ("AUTO", Vec::new()),
        ToolChoice::None => ("NONE", Vec::new()),
        ToolChoice::Required => ("ANY", Vec::new()),
        ToolChoice::Named { name, .. } => ("ANY", vec![name]),
        ToolChoice::Allowed { names, required } => {
            // AUTO takes no names.
            let mode = if *required { "ANY" } else { "VALIDATED" };
            (mode, names.iter().map(|(name, _)| name).collect())
        }
        ToolChoice::Hosted(_) => return None,
    };
    let names_some = !names.is_empty();
    names.retain(|name| declared.contains(name.literal()));
    match choice {
        // Without names, any function could be called.
        ToolChoice::Allowed { .. } if names.is_empty() => Some(("NONE", names)),
        _ if names_some && names.is_empty() => None,
        _ => Some((mode, names)),
    }
}

fn write_calling_mode(o: &mut Writer, mode: &str, names: &[&Text<'_>]) {
    o.object_at("functionCallingConfig", |o| {
        o.field("mode", mode);
        if !names.is_empty() {
            o.array("allowedFunctionNames", |a| names.iter().for_each(|name| a.item(*name)));
        }
    });
}
