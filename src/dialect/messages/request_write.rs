//! Writes a request body.

use bytes::Bytes;

use super::blocks_write::Block;
use super::turns;
use crate::dialect::canonical::{
    ConversionError, Format, Part, Request, Role, Target, Tool, ToolChoice, WebSearch,
};
use crate::dialect::effort::{ClaudeModel, ClaudeThinking, claude_thinking};
use crate::dialect::json_schema;
use crate::dialect::literal::{Json, Text};
use crate::dialect::marked_turns;
use crate::dialect::tree::Node;
use crate::dialect::writer::Writer;

const WEB_SEARCH: &str = "web_search";
/// The version of the web search tool that all models with web search know.
const WEB_SEARCH_TYPE: &str = "web_search_20250305";
/// The longest user id that the API accepts, in characters.
const MAX_USER_ID: usize = 256;
/// The number of blocks that a lookup in the prompt cache goes back from a breakpoint.
const LOOKBACK: usize = 20;
/// The cache mark that we set ourselves.
const MARK: &str = r#"{"type":"ephemeral"}"#;
/// The schema of a tool without parameters.
const NO_PARAMETERS: &str = r#"{"type":"object","properties":{}}"#;

/// Writes a request body.
pub fn write_request(request: &Request<'_>, target: &Target<'_>) -> Result<Bytes, ConversionError> {
    refuse_inexpressible(request)?;
    let model = ClaudeModel::of(target.model);
    let arranged = turns::arrange(&request.turns);
    let messages = blocks_of(&arranged)?;
    let tools = offered(request);
    let max_tokens = request.max_output.unwrap_or_else(|| model.max_tokens());
    let wanted = claude_thinking(&request.reasoning, model, max_tokens);
    let thinking = wanted.filter(|thinking| match thinking {
        ClaudeThinking::Disabled => true,
        _ if chosen(request, &tools).is_some_and(|choice| choice.is_forced()) => false,
        ClaudeThinking::Adaptive { .. } => true,
        ClaudeThinking::Enabled { .. } => !turns::lacks_thinking(&arranged),
    });

    let mut json = Writer::with_capacity(4096);
    json.object(|o| {
        o.field("model", target.model);
        o.field("max_tokens", max_tokens);
        if target.stream {
            o.field("stream", true);
        }
        if let Some(thinking) = thinking {
            put_thinking(o, thinking, model);
        }
        let effort = match wanted {
            Some(ClaudeThinking::Adaptive { effort }) => Some(effort),
            _ => None,
        };
        put_output_config(o, effort, request, model);
        put_sampling(o, request, model, thinking.is_some_and(|on| on != ClaudeThinking::Disabled));
        // The API refuses blank stop sequences.
        let stop: Vec<_> = request.stop.iter().filter(|text| !text.is_blank()).collect();
        if !stop.is_empty() {
            o.array("stop_sequences", |list| stop.iter().for_each(|text| list.item(*text)));
        }
        if let Some(user) = user_id(request) {
            o.object_at("metadata", |o| o.field("user_id", user));
        }
        o.field_if("service_tier", service_tier(request));
        let marks = Marks { request, own: marked_turns::are_set(request) };
        o.field_if("cache_control", request.cache_marks.request.as_ref());
        put_system(o, &marks, model);
        if !tools.is_empty() {
            put_tool_choice(o, chosen(request, &tools), request.parallel == Some(false));
            put_tools(o, &tools, &marks, model);
        }
        put_messages(o, &messages, &marks, only_allowed(request, &tools));
    });
    Ok(json.into_bytes())
}

/// Refuses a request whose answer would have another shape in this dialect.
fn refuse_inexpressible(request: &Request<'_>) -> Result<(), ConversionError> {
    if request.n.is_some_and(|n| n > 1) {
        return Err(ConversionError::unsupported("n"));
    }
    if request.logprobs {
        return Err(ConversionError::unsupported("logprobs"));
    }
    request.check_native()?;
    // Codex offers a group of tools of its own (`namespace`) beside its functions, and works without it.
    request.check_tools()
}

// === members ===

fn put_thinking(o: &mut Writer, thinking: ClaudeThinking, model: ClaudeModel) {
    o.object_at("thinking", |o| match thinking {
        ClaudeThinking::Disabled => o.field("type", "disabled"),
        ClaudeThinking::Adaptive { .. } => {
            o.field("type", "adaptive");
            if model.hides_thinking() {
                o.field("display", "summarized");
            }
        }
        ClaudeThinking::Enabled { budget } => {
            o.field("type", "enabled");
            o.field("budget_tokens", budget);
        }
    });
}

fn put_output_config(o: &mut Writer, effort: Option<&str>, request: &Request<'_>, model: ClaudeModel) {
    let schema = match &request.format {
        Some(Format::JsonSchema { schema: Some(schema), .. }) if model.knows_schemas() => Some(schema),
        _ => None,
    };
    if effort.is_none() && schema.is_none() {
        return;
    }
    o.object_at("output_config", |o| {
        o.field_if("effort", effort);
        if let Some(schema) = schema {
            o.object_at("format", |o| {
                o.field("type", "json_schema");
                o.field("schema", schema);
            });
        }
    });
}

/// Writes the sampling members. Temperature ranges from 0 to 1 and is not sent together with `top_p`. While a model
/// thinks, the API accepts neither `top_k`, nor a temperature other than 1, nor a `top_p` below 0.95.
fn put_sampling(o: &mut Writer, request: &Request<'_>, model: ClaudeModel, thinking: bool) {
    if model.refuses_sampling() {
        return;
    }
    let temperature = request.temperature.as_ref().and_then(|json| Some((json.f64()?.clamp(0.0, 1.0), json)));
    let temperature = temperature.filter(|(value, _)| !thinking || *value == 1.0);
    if let Some((value, json)) = &temperature {
        if json.f64() == Some(*value) {
            o.field("temperature", json)
        } else {
            o.field("temperature", *value as u64)
        }
    }
    let top_p = request
        .top_p
        .as_ref()
        .filter(|json| temperature.is_none() && json.f64().is_some_and(|value| !thinking || value >= 0.95));
    o.field_if("top_p", top_p);
    o.field_if("top_k", request.top_k.as_ref().filter(|_| !thinking));
}

fn user_id<'r>(request: &'r Request<'_>) -> Option<Text<'r>> {
    let named = [&request.user, &request.safety_identifier].into_iter().flatten();
    let named = named.map(Text::borrowed).find(|id| !id.is_empty());
    let in_metadata = || {
        let metadata = Node::parse(request.metadata.as_ref()?.as_str()).ok()?;
        Some(metadata.text_at("user_id")?.into_owned())
    };
    let id = named.or_else(in_metadata).filter(|id| !id.is_empty())?;
    Some(id.or_hash(MAX_USER_ID).into_owned())
}

fn service_tier(request: &Request<'_>) -> Option<&'static str> {
    match request.service_tier.as_ref()?.decode().as_ref() {
        "auto" => Some("auto"),
        "default" => Some("standard_only"),
        _ => None,
    }
}

fn put_system(o: &mut Writer, marks: &Marks<'_, '_>, model: ClaudeModel) {
    let request = marks.request;
    let texts = request.system.iter().enumerate().filter(|(_, text)| turns::says_something(text));
    let mut texts: Vec<_> =
        texts.map(|(place, text)| (text.borrowed(), request.cache_marks.of_system(place))).collect();
    texts.extend(format_sentence(request, model).map(|text| (text, None)));
    if texts.is_empty() {
        return;
    }
    o.array("system", |list| {
        for (index, (text, own)) in texts.iter().enumerate() {
            list.object(|o| {
                o.field("type", "text");
                o.field("text", text);
                o.field_if("cache_control", marks.of(*own, index + 1 == texts.len()));
            });
        }
    });
}

// === the cache of the prompt ===

/// The places up to which the prompt is cached: those that the client marked, or else those where the next request
/// will begin in the same way.
struct Marks<'r, 'a> {
    request: &'r Request<'a>,
    /// Whether the client has set marks; then we set none.
    own: bool,
}

impl Marks<'_, '_> {
    /// Returns the client's mark of a place, or our own where the client has set none and the place is `ours` to
    /// mark.
    fn of(&self, own: Option<&Json<'_>>, ours: bool) -> Option<Json<'static>> {
        match own {
            Some(mark) => Some(mark.clone().into_owned()),
            None => (!self.own && ours).then(|| Json::checked(MARK)),
        }
    }
}

/// Describes the form of the answer in words, for models that cannot be held to it otherwise.
fn format_sentence(request: &Request<'_>, model: ClaudeModel) -> Option<Text<'static>> {
    const OBJECT: &str = "Answer with one JSON object and nothing else.";
    match request.format.as_ref()? {
        Format::Text => None,
        Format::JsonSchema { schema: Some(schema), .. } => {
            (!model.knows_schemas()).then(|| Format::schema_in_words(schema))
        }
        Format::JsonObject | Format::JsonSchema { schema: None, .. } => Some(Text::plain(OBJECT)),
    }
}

// === tools ===

/// A tool to send, and its position among those of the request.
type Offered<'r, 'a> = (usize, &'r Tool<'a>);

/// Returns the tools to send: all of them, even if only some may be called. The prompt begins with them, and would
/// otherwise begin differently with each choice. The API refuses a second web search, which would have the same name.
fn offered<'r, 'a>(request: &'r Request<'a>) -> Vec<Offered<'r, 'a>> {
    let search = request.tools.iter().position(|tool| matches!(tool, Tool::WebSearch(_)));
    let is_offered = |(place, tool): &Offered<'_, '_>| match tool {
        Tool::Function { name, .. } | Tool::Custom { name, .. } => !name.is_blank(),
        Tool::WebSearch(_) => Some(*place) == search,
        Tool::Hosted(_) => false,
    };
    request.tools.iter().enumerate().filter(is_offered).collect()
}

/// Returns the name by which a tool is called.
fn name_of<'r>(tool: &'r Tool<'_>) -> Text<'r> {
    match tool {
        Tool::Function { name, .. } | Tool::Custom { name, .. } => name.borrowed(),
        Tool::WebSearch(_) | Tool::Hosted(_) => Text::plain(WEB_SEARCH),
    }
}

/// Returns the names of the offered tools that may be called; `None` where all may be called.
fn allowed<'r>(request: &Request<'_>, tools: &[Offered<'r, '_>]) -> Option<Vec<Text<'r>>> {
    let names = request.tool_choice.as_ref().and_then(ToolChoice::allowed)?;
    let is_allowed = |tool: &Tool<'_>| match tool {
        Tool::WebSearch(_) => names.iter().any(|name| name.starts_with(WEB_SEARCH)),
        tool => names.contains(name_of(tool).literal()),
    };
    let left: Vec<_> =
        tools.iter().filter(|(_, tool)| is_allowed(tool)).map(|(_, tool)| name_of(tool)).collect();
    (left.len() < tools.len()).then_some(left)
}

/// Returns an instruction that names the tools that may be called: the API's `tool_choice` cannot name several. It can
/// require a single tool, or forbid all; then there is no instruction.
fn only_allowed(request: &Request<'_>, tools: &[Offered<'_, '_>]) -> Option<Text<'static>> {
    let names = allowed(request, tools)?;
    let required = matches!(request.tool_choice, Some(ToolChoice::Allowed { required: true, .. }));
    if names.is_empty() || required && names.len() == 1 {
        return None;
    }
    Some(ToolChoice::none_but(&names))
}

/// A tool choice in the words of the API, among the tools that are offered.
struct Choice<'r> {
    kind: &'static str,
    name: Option<Text<'r>>,
}

impl Choice<'_> {
    /// Returns whether some tool must be called, which the API accepts only without thinking.
    fn is_forced(&self) -> bool {
        matches!(self.kind, "any" | "tool")
    }
}

fn chosen<'r>(request: &'r Request<'_>, tools: &[Offered<'r, '_>]) -> Option<Choice<'r>> {
    let is_offered = |wanted: &Text<'_>| {
        tools.iter().any(
            |(_, tool)| matches!(tool, Tool::Function { name, .. } | Tool::Custom { name, .. } if name == wanted),
        )
    };
    let of = |kind| Some(Choice { kind, name: None });
    let tool = |name| Some(Choice { kind: "tool", name: Some(name) });
    match request.tool_choice.as_ref().filter(|_| !tools.is_empty())? {
        ToolChoice::None => of("none"),
        ToolChoice::Required => of("any"),
        ToolChoice::Allowed { required, .. } => match allowed(request, tools).as_deref() {
            Some([]) => of("none"),
            Some([name]) if *required => tool(name.clone().into_owned()),
            _ => of(if *required { "any" } else { "auto" }),
        },
        ToolChoice::Named { name, .. } if is_offered(name) => tool(name.borrowed()),
        // Hosted tools other than web search are not offered.
        ToolChoice::Hosted(kind)
            if kind.literal().starts_with(WEB_SEARCH)
                && tools.iter().any(|(_, tool)| matches!(tool, Tool::WebSearch(_))) =>
        {
            tool(Text::plain(WEB_SEARCH))
        }
        _ => of("auto"),
    }
}

fn put_tool_choice(o: &mut Writer, choice: Option<Choice<'_>>, one_at_a_time: bool) {
    if choice.is_none() && !one_at_a_time {
        return;
    }
    let Choice { kind, name } = choice.unwrap_or(Choice { kind: "auto", name: None });
    o.object_at("tool_choice", |o| {
        o.field("type", kind);
        o.field_if("name", name);
        if one_at_a_time && kind != "none" {
            o.field("disable_parallel_tool_use", true);
        }
    });
}

fn put_tools(o: &mut Writer, tools: &[Offered<'_, '_>], marks: &Marks<'_, '_>, model: ClaudeModel) {
    o.array("tools", |list| {
        for (index, (place, tool)) in tools.iter().enumerate() {
            list.object(|o| {
                put_tool(o, tool, model);
                let own = marks.request.cache_marks.of_tool(*place);
                o.field_if("cache_control", marks.of(own, index + 1 == tools.len()));
            });
        }
    });
}

fn put_tool(o: &mut Writer, tool: &Tool<'_>, model: ClaudeModel) {
    match tool {
        Tool::Function { name, description, parameters, strict } => {
            o.field("name", name);
            o.field_if("description", description.as_ref());
            put_schema(o, parameters.as_ref());
            if *strict == Some(true) && model.takes_strict_tools() {
                o.field("strict", true);
            }
        }
        Tool::Custom { name, description, .. } => {
            o.field("name", name);
            o.field_if("description", description.as_ref());
            put_schema(o, None);
        }
        Tool::WebSearch(search) => put_web_search(o, search),
        Tool::Hosted(_) => {}
    }
}

fn put_web_search(o: &mut Writer, search: &WebSearch<'_>) {
    o.field("type", WEB_SEARCH_TYPE);
    o.field("name", WEB_SEARCH);
    o.field_if("max_uses", search.max_uses);
    o.field_if("allowed_domains", search.allowed_domains.as_ref());
    o.field_if("user_location", search.user_location.as_ref());
}

/// Writes a schema in the form that the API accepts: there has to be one, and it has to be of type `object`.
fn put_schema(o: &mut Writer, parameters: Option<&Json<'_>>) {
    match parameters.and_then(json_schema::with_members) {
        None => o.field("input_schema", Json::checked(NO_PARAMETERS)),
        Some(schema) => json_schema::put_object_schema(o, "input_schema", &schema),
    }
}

// === messages ===

/// A turn as blocks.
struct Message<'r, 'a> {
    role: Role,
    /// Each block with its client's mark.
    blocks: Vec<(Block<'r, 'a>, Option<&'r Json<'a>>)>,
}

fn blocks_of<'r, 'a>(turns: &[turns::Turn<'r, 'a>]) -> Result<Vec<Message<'r, 'a>>, ConversionError> {
    if turns.is_empty() {
        return Err(ConversionError::without_content());
    }
    let message = |turn: &turns::Turn<'r, 'a>| {
        if turn.role == Role::Assistant && turn.parts.iter().any(|said| matches!(said.part, Part::Image(_))) {
            return Err(ConversionError::unsupported("image_url"));
        }
        let blocks = turn.parts.iter().map(|said| Ok((Block::of(said.part)?, said.mark)));
        let blocks = blocks.collect::<Result<_, ConversionError>>()?;
        Ok(Message { role: turn.role, blocks })
    };
    turns.iter().map(message).collect()
}

/// Writes the turns. `last_words` go to the end of the last turn of the user, after everything that is cached,
/// because the next request does not repeat them.
fn put_messages(
    o: &mut Writer,
    messages: &[Message<'_, '_>],
    marks: &Marks<'_, '_>,
    last_words: Option<Text<'_>>,
) {
    let breakpoints = breakpoints(messages);
    o.array("messages", |list| {
        for (turn, message) in messages.iter().enumerate() {
            list.object(|o| {
                o.field("role", if message.role == Role::Assistant { "assistant" } else { "user" });
                o.array("content", |list| {
                    for (index, (block, own)) in message.blocks.iter().enumerate() {
                        let own = own.filter(|_| block.is_cacheable());
                        let mark = marks.of(own, breakpoints.contains(&Some((turn, index))));
                        block.put(list, mark.as_ref());
                    }
                    if turn + 1 == messages.len()
                        && message.role == Role::User
                        && let Some(words) = &last_words
                    {
                        Block::Text(words).put(list, None);
                    }
                });
            });
        }
    });
}

/// Returns the places up to which the prompt is cached, as turn and block: the end of the user's last turn and, in a
/// long conversation, one lookup before it, so that the next request finds one or the other.
fn breakpoints(messages: &[Message<'_, '_>]) -> [Option<(usize, usize)>; 2] {
    let mut cacheable = Vec::new();
    for (turn, message) in messages.iter().enumerate() {
        let blocks = message.blocks.iter().enumerate().filter(|(_, (block, _))| block.is_cacheable());
        cacheable.extend(blocks.map(|(index, _)| (turn, index)));
    }
    let last = cacheable.iter().rposition(|(turn, _)| messages[*turn].role == Role::User);
    let earlier = last.filter(|_| cacheable.len() >= LOOKBACK).map(|last| last.saturating_sub(LOOKBACK));
    [last, earlier].map(|at| at.map(|at| cacheable[at]))
}
