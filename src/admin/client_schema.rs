//! Descriptions of the routes for clients.
//!
//! A request's description has the members that the gateway itself reads; a response's has the members that clients use
//! most. Everything else that a vendor documents passes through unchanged. A member is required only if the gateway
//! refuses a request without it.
//!
//! Sources: platform.openai.com/docs/api-reference, docs.anthropic.com/en/api, ai.google.dev/api.

use super::schema::Shape::{
    Any, Boolean, Count, Either, Integer, List, Map, Number, Of, OneOf, OrNull, Text,
};
use super::schema::{FORM, JSON, Object, Operation, has, may, op};

const EVENTS: &[&str] = &["text/event-stream"];
/// The media type of bodies that may be audio, images or files of any type.
const BYTES: &str = "*/*";
const JSON_OR_FORM: &[&str] = &[JSON, FORM];
const AS_FORM: &[&str] = &[FORM];
const SOCKET: &str = "Open a WebSocket that carries responses; 426 if the request is no upgrade";

#[rustfmt::skip]
pub static OPERATIONS: &[Operation] = &[
    op("POST /v1/chat/completions", "Chat completion").takes(&CHAT).gives_or(Of(&COMPLETION), EVENTS),
    op("POST /chat/completions", "Chat completion").takes(&CHAT).gives_or(Of(&COMPLETION), EVENTS),
    op("POST /v1/responses", "Response").takes(&RESPONSES).gives_or(Of(&RESPONSE), EVENTS),
    op("POST /responses", "Response").takes(&RESPONSES).gives_or(Of(&RESPONSE), EVENTS),
    op("POST /backend-api/codex/responses", "Create a response, below Codex's own base URL").takes(&RESPONSES).gives_or(Of(&RESPONSE), EVENTS),
    op("GET /backend-api/codex/responses", SOCKET),
    op("POST /backend-api/codex/responses/compact", "Compact a conversation").takes(&RESPONSES).gives(Of(&RESPONSE)),
    op("GET /v1/responses", SOCKET),
    op("GET /responses", SOCKET),
    op("POST /v1/responses/input_tokens", "Count the tokens of a request").takes(&RESPONSES).gives(Of(&COUNTED_TOKENS)),
    op("GET /v1/responses/{id}", "Get a response that was created earlier").asks(&[may("stream", Text), may("starting_after", Text), may("include", Text)]).gives_or(Of(&RESPONSE), EVENTS),
    op("DELETE /v1/responses/{id}", "Delete a response").gives(Of(&DELETED)),
    op("POST /v1/responses/{id}/cancel", "Cancel a background response").gives(Of(&RESPONSE)),
    op("GET /v1/responses/{id}/input_items", "List the input items of a response").asks(&[may("limit", Text), may("order", Text), may("after", Text)]).gives(Of(&PAGE)),
    op("POST /v1/responses/compact", "Compact a conversation").takes(&RESPONSES).gives(Of(&RESPONSE)),
    op("POST /responses/compact", "Compact a conversation").takes(&RESPONSES).gives(Of(&RESPONSE)),
    op("GET /v1/responses/compact", "Always refused with 426: send POST"),
    op("GET /responses/compact", "Always refused with 426: send POST"),
    op("POST /v1/messages", "Message").takes(&MESSAGES).gives_or(Of(&MESSAGE), EVENTS),
    op("POST /v1/messages/count_tokens", "Count the tokens of a message").takes(&MESSAGES).gives(Of(&COUNTED_TOKENS)),
    op("POST /anthropic/v1/messages", "Message").takes(&MESSAGES).gives_or(Of(&MESSAGE), EVENTS),
    op("POST /anthropic/v1/messages/count_tokens", "Count the tokens of a message").takes(&MESSAGES).gives(Of(&COUNTED_TOKENS)),
    op("GET /v1beta/models", "List models in Gemini's format").gives(Of(&GEMINI_MODELS)),
    op("GET /gemini/{version}/models", "List models in Gemini's format").gives(Of(&GEMINI_MODELS)),
    op("POST /v1beta/models/{model}", "Gemini's generateContent, streamGenerateContent, countTokens, embedContent and batchEmbedContents, and Google's predict: `{model}` is MODEL:ACTION").takes(&GEMINI).gives_or(Of(&GEMINI_ANSWER), EVENTS),
    op("POST /v1/models/{model}", "Gemini's actions in version v1 of its API").takes(&GEMINI).gives_or(Of(&GEMINI_ANSWER), EVENTS),
    op("POST /gemini/{version}/models/{model}", "Gemini's actions under the prefix /gemini").takes(&GEMINI).gives_or(Of(&GEMINI_ANSWER), EVENTS),
    op("POST /v1beta/{vendor}/{model}", "The same for a model with a slash in its name, which several of Google's SDKs send without `models/`").takes(&GEMINI).gives_or(Of(&GEMINI_ANSWER), EVENTS),
    op("GET /v1beta/models/{model}", "Get one model in Gemini's format").gives(Of(&GEMINI_MODEL)),
    op("GET /gemini/{version}/models/{model}", "Get one model in Gemini's format").gives(Of(&GEMINI_MODEL)),
    op("POST /v1internal:generateContent", "Gemini's generateContent in the envelope that Google's command line sends").takes(&CODE_ASSIST).gives(Of(&CODE_ASSIST_ANSWER)),
    op("POST /v1internal:streamGenerateContent", "Gemini's streamGenerateContent in the envelope that Google's command line sends").takes(&CODE_ASSIST).streams(),
    op("POST /v1internal:countTokens", "Gemini's countTokens in the envelope that Google's command line sends").takes(&CODE_ASSIST).gives(Of(&GEMINI_ANSWER)),
    op("POST /v1/search", "Search the web").takes(&SEARCH_REQUEST).gives(Of(&FOUND_PAGES)),
    op("POST /v1/alpha/search", "Run the commands of Codex's web search tool, or search as /v1/search does").takes(&ALPHA_SEARCH_REQUEST).gives(Of(&ALPHA_FOUND)),
    op("POST /backend-api/codex/alpha/search", "Run the commands of Codex's web search tool, below Codex's own base URL").takes(&ALPHA_SEARCH_REQUEST).gives(Of(&ALPHA_FOUND)),
    op("POST /v1/completions", "Legacy completion").takes(&COMPLETION_REQUEST).gives_or(Of(&COMPLETION), EVENTS),
    op("POST /v1/embeddings", "Embeddings").takes(&EMBEDDINGS_REQUEST).gives(Of(&EMBEDDINGS)),
    op("POST /v1/images/generations", "Image generation").takes(&IMAGES_REQUEST).gives_or(Of(&IMAGES), EVENTS),
    op("POST /v1/images/edits", "Edit an image; the body is a form or JSON").takes(&IMAGES_REQUEST).in_media(JSON_OR_FORM).gives_or(Of(&IMAGES), EVENTS),
    op("POST /v1/images/variations", "Make variations of an image; the body is a form").takes(&IMAGES_REQUEST).in_media(AS_FORM).gives(Of(&IMAGES)),
    op("GET /v1/realtime", "Open a WebSocket for a spoken conversation; 426 if the request is no upgrade").asks(&[may("model", Text)]),
    op("POST /v1/audio/speech", "Read a text aloud; the answer is audio or server-sent events").takes(&SPEECH_REQUEST).writes(BYTES),
    op("POST /v1/audio/transcriptions", "Transcribe a recording; the body is a form").takes(&TRANSCRIPTION_REQUEST).in_media(AS_FORM).gives_or(Of(&TRANSCRIPTION), &["text/event-stream", "text/plain"]),
    op("POST /v1/audio/translations", "Translate a recording into English text; the body is a form").takes(&TRANSCRIPTION_REQUEST).in_media(AS_FORM).gives_or(Of(&TRANSCRIPTION), &["text/plain"]),
    op("POST /v1/rerank", "Rank documents by how well they answer a query").takes(&RERANK_REQUEST).gives(Of(&RANKED_DOCUMENTS)),
    op("POST /v2/rerank", "Rank documents by how well they answer a query, at the path of Cohere's version 2").takes(&RERANK_REQUEST).gives(Of(&RANKED_DOCUMENTS)),
    op("POST /v1/moderations", "Check whether a text or an image violates a policy").takes(&MODERATION_REQUEST).gives(Of(&MODERATION)),
    op("POST /v1/files", "Upload a file").takes(&FILE_UPLOAD).in_media(AS_FORM).gives(Of(&FILE)),
    op("GET /v1/files", "List the caller's files").asks(&[may("limit", Text), may("after", Text), may("order", Text), may("purpose", Text)]).gives(Of(&PAGE)),
    op("GET /v1/files/{id}", "Get a file's name, size and purpose").gives(Of(&FILE)),
    op("DELETE /v1/files/{id}", "Delete a file").gives(Of(&DELETED)),
    op("GET /v1/files/{id}/content", "Get the content of a file").writes(BYTES),
    op("POST /v1/videos", "Start making a video; the body is a form or JSON").takes(&VIDEO_REQUEST).in_media(JSON_OR_FORM).gives(Of(&VIDEO)),
    op("GET /v1/videos/{id}", "Get a video's status and progress").gives(Of(&VIDEO)),
    op("DELETE /v1/videos/{id}", "Delete a video").gives(Of(&DELETED)),
    op("GET /v1/videos/{id}/content", "Get the content of a video").asks(&[may("variant", Text)]).writes(BYTES),
    op("POST /v1/batches", "Create a batch of requests for one model").takes(&BATCH_REQUEST).gives(Of(&BATCH)),
    op("GET /v1/batches", "List the caller's batches, as they were when last looked at").asks(&[may("limit", Text), may("after", Text)]).gives(Of(&PAGE)),
    op("GET /v1/batches/{id}", "Get a batch's status and progress").gives(Of(&BATCH)),
    op("POST /v1/batches/{id}/cancel", "Cancel a batch").gives(Of(&BATCH)),
    op("POST /v1/messages/batches", "Create a batch of messages for one model").takes(&MESSAGE_BATCH_REQUEST).gives(Of(&MESSAGE_BATCH)),
    op("GET /v1/messages/batches", "List the caller's batches of messages").asks(&[may("limit", Text), may("after_id", Text), may("before_id", Text)]).gives(Of(&PAGE)),
    op("GET /v1/messages/batches/{id}", "Get the status and progress of a batch of messages").gives(Of(&MESSAGE_BATCH)),
    op("DELETE /v1/messages/batches/{id}", "Delete a batch of messages").gives(Of(&MESSAGE_BATCH)),
    op("POST /v1/messages/batches/{id}/cancel", "Cancel a batch of messages").gives(Of(&MESSAGE_BATCH)),
    op("GET /v1/messages/batches/{id}/results", "Get the results of a batch of messages, one JSON object a line").writes(BYTES),
    op("POST /anthropic/v1/messages/batches", "Create a batch of messages for one model, under /anthropic").takes(&MESSAGE_BATCH_REQUEST).gives(Of(&MESSAGE_BATCH)),
    op("GET /anthropic/v1/messages/batches", "List the caller's batches of messages, under /anthropic").asks(&[may("limit", Text), may("after_id", Text), may("before_id", Text)]).gives(Of(&PAGE)),
    op("GET /anthropic/v1/messages/batches/{id}", "Get the status and progress of a batch of messages, under /anthropic").gives(Of(&MESSAGE_BATCH)),
    op("DELETE /anthropic/v1/messages/batches/{id}", "Delete a batch of messages, under /anthropic").gives(Of(&MESSAGE_BATCH)),
    op("POST /anthropic/v1/messages/batches/{id}/cancel", "Cancel a batch of messages, under /anthropic").gives(Of(&MESSAGE_BATCH)),
    op("GET /anthropic/v1/messages/batches/{id}/results", "Get the results of a batch of messages, one JSON object a line, under /anthropic").writes(BYTES),
    op("GET /v1/models", "List the models that the caller's key may use, in OpenAI's format or in Anthropic's").asks(&[may("limit", Text), may("after_id", Text), may("before_id", Text)]).gives(Of(&PAGE)),
    op("GET /v1/models/{model}", "One model").gives(Of(&MODEL)),
    op("GET /v1/usage", "Get what the caller's key has used and what is left of its budgets").gives(Of(&KEY_USAGE)),
    op("GET /v1/dashboard/billing/subscription", "Get the cost limit of the caller's key, in OpenAI's format").gives(Of(&SUBSCRIPTION)),
    op("GET /dashboard/billing/subscription", "Get the cost limit of the caller's key, in OpenAI's format").gives(Of(&SUBSCRIPTION)),
    op("GET /v1/dashboard/billing/usage", "Get what the caller's key has cost, in OpenAI's format").gives(Of(&BILLING_USAGE)),
    op("GET /dashboard/billing/usage", "Get what the caller's key has cost, in OpenAI's format").gives(Of(&BILLING_USAGE)),
];

// === What models are asked ===

static CHAT: Object = Object::open(
    "ChatRequest",
    &[
        has("model", Text),
        has("messages", List(&Of(&CHAT_MESSAGE))),
        may("stream", OrNull(&Boolean)),
        may("stream_options", OrNull(&Map(&Any))),
        may("tools", OrNull(&List(&Any))),
        may("tool_choice", Any),
        may("response_format", OrNull(&Map(&Any))),
        may("reasoning_effort", OrNull(&Text)),
        may("max_tokens", OrNull(&Integer)),
        may("max_completion_tokens", OrNull(&Integer)),
        may("stop", OrNull(&Either(&[Text, List(&Text)]))),
        may("prompt_cache_key", OrNull(&Text)),
        may("service_tier", OrNull(&Text)),
        may("user", OrNull(&Text)),
    ],
);

static CHAT_MESSAGE: Object = Object::open("ChatMessage", &[may("role", Text), may("content", Any)]);

static RESPONSES: Object = Object::open(
    "ResponsesRequest",
    &[
        has("model", Text),
        may("input", Either(&[Text, List(&Any)])),
        may("instructions", OrNull(&Text)),
        may("stream", OrNull(&Boolean)),
        may("previous_response_id", OrNull(&Text)),
        may("conversation", Any).about("An id, or an object with the member id"),
        may("store", OrNull(&Boolean)),
        may("background", OrNull(&Boolean)),
        may("include", OrNull(&List(&Text))),
        may("tools", OrNull(&List(&Any))),
        may("tool_choice", Any),
        may("text", OrNull(&Map(&Any))),
        may("reasoning", OrNull(&Map(&Any))),
        may("max_output_tokens", OrNull(&Integer)),
        may("prompt_cache_key", OrNull(&Text)),
        may("service_tier", OrNull(&Text)),
        may("user", OrNull(&Text)),
    ],
);

static MESSAGES: Object = Object::open(
    "MessagesRequest",
    &[
        has("model", Text),
        has("messages", List(&Of(&CHAT_MESSAGE))),
        may("system", Either(&[Text, List(&Any)])),
        may("max_tokens", Integer),
        may("stream", Boolean),
        may("tools", List(&Any)),
        may("tool_choice", Map(&Any)),
        may("thinking", Map(&Any)),
        may("stop_sequences", List(&Text)),
        may("metadata", Map(&Any)),
        may("service_tier", Text),
    ],
);

static GEMINI: Object = Object::open(
    "GeminiRequest",
    &[
        may("contents", Any),
        may("systemInstruction", Any),
        may("tools", Any),
        may("toolConfig", Map(&Any)),
        may("generationConfig", Map(&Any)),
        may("safetySettings", List(&Any)),
        may("cachedContent", Text),
    ],
);

static CODE_ASSIST: Object = Object::open(
    "CodeAssistRequest",
    &[may("model", Text), has("request", Of(&GEMINI)), may("project", Text)],
);

static COMPLETION_REQUEST: Object = Object::open(
    "CompletionRequest",
    &[
        has("model", Text),
        may("prompt", Any),
        may("stream", OrNull(&Boolean)),
        may("max_tokens", OrNull(&Integer)),
        may("suffix", OrNull(&Text)),
        may("stop", OrNull(&Either(&[Text, List(&Text)]))),
    ],
);

static EMBEDDINGS_REQUEST: Object = Object::open(
    "EmbeddingsRequest",
    &[has("model", Text), may("input", Any), may("encoding_format", Text), may("dimensions", Integer)],
);

static IMAGES_REQUEST: Object = Object::open(
    "ImagesRequest",
    &[
        may("model", Text).about("Default: gpt-image-1"),
        may("prompt", Text),
        may("image", Any).about("In a form: a file"),
        may("mask", Any).about("In a form: a file"),
        may("n", Any),
        may("size", Text),
        may("stream", Any),
    ],
);

static SPEECH_REQUEST: Object = Object::open(
    "SpeechRequest",
    &[
        has("model", Text),
        may("input", Text),
        may("voice", Any),
        may("response_format", Text),
        may("stream_format", Text),
    ],
);

static TRANSCRIPTION_REQUEST: Object = Object::open(
    "TranscriptionRequest",
    &[
        has("model", Text),
        may("file", Any),
        may("language", Text),
        may("response_format", Text),
        may("stream", Any),
    ],
);

static RERANK_REQUEST: Object = Object::open(
    "RerankRequest",
    &[has("model", Text), may("query", Any), may("documents", List(&Any)), may("top_n", Integer)],
);

static MODERATION_REQUEST: Object = Object::open(
    "ModerationRequest",
    &[may("model", Text).about("Default: omni-moderation-latest"), may("input", Any)],
);

static SEARCH_REQUEST: Object = Object::open(
    "SearchRequest",
    &[
        has("query", Text),
        may("model", OrNull(&Text)),
        may("max_results", OrNull(&Integer)).about("From 1 to 20; default: 10"),
    ],
);

static ALPHA_SEARCH_REQUEST: Object = Object::open(
    "AlphaSearchRequest",
    &[
        may("id", Text),
        may("model", OrNull(&Text)),
        may("commands", OrNull(&Map(&Any))),
        may("input", OrNull(&Either(&[Text, List(&Any)]))),
        may("settings", OrNull(&Map(&Any))),
        may("max_output_tokens", OrNull(&Integer)),
        may("query", OrNull(&Text)).about("Makes it a plain search"),
        may("max_results", OrNull(&Integer)),
    ],
);

static FILE_UPLOAD: Object =
    Object::open("FileUpload", &[has("file", Any).about("In a form: a file"), may("purpose", Text)]);

static VIDEO_REQUEST: Object = Object::open(
    "VideoRequest",
    &[
        has("model", Text),
        may("prompt", Text),
        may("seconds", Any),
        may("size", Text),
        may("input_reference", Any),
    ],
);

// === What they answer ===

static COMPLETION: Object = Object::open(
    "Completion",
    &[
        may("id", Text),
        may("object", Text),
        may("created", Number),
        may("model", Text),
        may("choices", List(&Map(&Any))),
        may("usage", OrNull(&Map(&Any))),
    ],
);

static RESPONSE: Object = Object::open(
    "Response",
    &[
        may("id", Text),
        may("object", Text),
        may("status", Text),
        may("model", Text),
        may("created_at", Number),
        may("output", List(&Map(&Any))),
        may("error", Any),
        may("usage", OrNull(&Map(&Any))),
    ],
);

static MESSAGE: Object = Object::open(
    "AnthropicMessage",
    &[
        may("id", Text),
        may("type", Text),
        may("role", Text),
        may("model", Text),
        may("content", List(&Map(&Any))),
        may("stop_reason", OrNull(&Text)),
        may("usage", Map(&Any)),
    ],
);

static COUNTED_TOKENS: Object = Object::open("CountedTokens", &[has("input_tokens", Count)]);

static GEMINI_ANSWER: Object = Object::open(
    "GeminiAnswer",
    &[
        may("candidates", List(&Map(&Any))),
        may("usageMetadata", Map(&Any)),
        may("modelVersion", Text),
        may("responseId", Text),
        may("totalTokens", Integer),
    ],
);

static CODE_ASSIST_ANSWER: Object = Object::open("CodeAssistAnswer", &[may("response", Of(&GEMINI_ANSWER))]);

static EMBEDDINGS: Object = Object::open(
    "Embeddings",
    &[may("object", Text), may("model", Text), may("data", List(&Map(&Any))), may("usage", Map(&Any))],
);

static IMAGES: Object =
    Object::open("Images", &[may("created", Number), may("data", List(&Map(&Any))), may("usage", Map(&Any))]);

static TRANSCRIPTION: Object = Object::open("Transcription", &[may("text", Text)]);

static RANKED_DOCUMENTS: Object = Object::open("RankedDocuments", &[may("results", List(&Map(&Any)))]);

static MODERATION: Object =
    Object::open("Moderation", &[may("id", Text), may("model", Text), may("results", List(&Map(&Any)))]);

static FOUND_PAGES: Object = Object::open("FoundPages", &[may("results", Any)]);

static ALPHA_FOUND: Object = Object::open(
    "AlphaFound",
    &[may("output", Text), may("encrypted_output", OrNull(&Text)), may("results", Any)],
);

static VIDEO: Object = Object::open(
    "Video",
    &[has("id", Text), may("object", Text), may("status", Text), may("progress", Any), may("model", Text)],
);

static BATCH_REQUEST: Object = Object::open(
    "BatchRequest",
    &[
        has("input_file_id", Text).about("The id of one of the caller's files with the purpose batch"),
        has("endpoint", Text),
        has("completion_window", Text),
        may("metadata", OrNull(&Map(&Any))),
    ],
);

static BATCH: Object = Object::open(
    "Batch",
    &[
        has("id", Text),
        may("object", Text),
        may("status", Text),
        may("input_file_id", Text),
        may("output_file_id", OrNull(&Text)),
        may("error_file_id", OrNull(&Text)),
    ],
);

static MESSAGE_BATCH_REQUEST: Object = Object::open(
    "MessageBatchRequest",
    &[has("requests", List(&Map(&Any))).about("Requests, each with custom_id and params")],
);

static MESSAGE_BATCH: Object = Object::open(
    "MessageBatch",
    &[has("id", Text), may("type", Text), may("processing_status", Text), may("results_url", OrNull(&Text))],
);

// === What the gateway answers itself ===

static DELETED: Object =
    Object::open("Deleted", &[may("id", Text), may("object", Text), may("deleted", Boolean)]);

static PAGE: Object = Object::open(
    "Page",
    &[
        has("data", List(&Map(&Any))),
        may("object", Text),
        may("first_id", OrNull(&Text)),
        may("last_id", OrNull(&Text)),
        may("has_more", Boolean),
    ],
);

static FILE: Object = Object::open(
    "File",
    &[
        has("id", Text),
        has("object", OneOf(&["file"])),
        has("bytes", Count),
        has("created_at", Integer),
        has("filename", Text),
        has("purpose", Text),
        may("expires_at", OrNull(&Integer)),
        may("mime_type", Text),
        may("status", Text),
    ],
);

static MODEL: Object = Object::open("Model", &[may("id", Text), may("name", Text)]);

static GEMINI_MODELS: Object = Object::open("GeminiModels", &[has("models", List(&Of(&GEMINI_MODEL)))]);

static GEMINI_MODEL: Object = Object::open(
    "GeminiModel",
    &[has("name", Text), has("displayName", Text), has("supportedGenerationMethods", List(&Text))],
);

static KEY_USAGE: Object = Object::open(
    "KeyUsage",
    &[
        has("object", OneOf(&["usage"])),
        has("key", Of(&USED_KEY)),
        has("totals", Map(&Number)),
        has("budgets", List(&Map(&Any))),
        has("daily", List(&Map(&Any))),
    ],
);

static USED_KEY: Object = Object::new("UsedKey", &[has("name", Text), has("expiresAt", OrNull(&Text))]);

static SUBSCRIPTION: Object = Object::open(
    "BillingSubscription",
    &[has("object", Text), has("hard_limit_usd", Number), has("access_until", Any)],
);

static BILLING_USAGE: Object =
    Object::open("BillingUsage", &[has("object", Text), has("total_usage", Number)]);
