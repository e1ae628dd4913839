//! The seeds: bodies as clients and upstreams send them, most of them one conversation in every dialect.

pub const CHAT_REQUEST: &str = r#"{"model":"m","max_completion_tokens":4000,"reasoning_effort":"high","user":"u1","tool_choice":"auto","parallel_tool_calls":false,"stream":true,"stream_options":{"include_usage":true},"stop":["a"],"temperature":0.5,"n":1,"response_format":{"type":"json_schema","json_schema":{"name":"n","schema":{"type":"object"},"strict":true}},"tools":[{"type":"function","function":{"name":"add","description":"Add","parameters":{"type":"object","properties":{"a":{"type":"integer"}}}}},{"type":"custom","custom":{"name":"patch","format":{"type":"grammar","grammar":{"syntax":"lark","definition":"x"}}}},{"type":"web_search"}],"messages":[{"role":"system","content":"Be brief."},{"role":"user","content":[{"type":"text","text":"Sum these."},{"type":"image_url","image_url":{"url":"data:image/png;base64,iVBORw0K","detail":"low"}},{"type":"file","file":{"file_data":"data:application/pdf;base64,JVBERi0x","filename":"a.pdf"}},{"type":"input_audio","input_audio":{"data":"AAAA","format":"wav"}}]},{"role":"assistant","content":"Adding.","reasoning_content":"Need add.\n","reasoning_signature":"sy1:anthropic:W3sidCI6Ik5lZWQgYWRkLlxuIiwicyI6IlNJRzEifV0","tool_calls":[{"id":"call_1","type":"function","function":{"name":"add","arguments":"{\"a\":2,\"b\":3}"}},{"id":"call_2","type":"custom","custom":{"name":"patch","input":"raw"}}]},{"role":"tool","tool_call_id":"call_1","content":"5"},{"role":"tool","tool_call_id":"call_2","content":[{"type":"text","text":"a"}]}]}"#;

pub const RESPONSES_REQUEST: &str = r#"{"model":"m","max_output_tokens":4000,"reasoning":{"effort":"high","summary":"auto"},"include":["reasoning.encrypted_content"],"store":false,"user":"u1","tool_choice":{"type":"allowed_tools","mode":"auto","tools":[{"type":"function","name":"add"}]},"instructions":"Be brief.","text":{"format":{"type":"json_object"},"verbosity":"low"},"tools":[{"type":"function","name":"add","description":"Add","parameters":{"type":"object"},"strict":false},{"type":"custom","name":"patch","format":{"type":"text"}},{"type":"web_search","user_location":{"type":"approximate","city":"P"}}],"input":[{"role":"developer","content":"D"},{"type":"message","role":"user","content":[{"type":"input_text","text":"Sum these."},{"type":"input_image","image_url":"data:image/png;base64,iVBORw0K","detail":"low"},{"type":"input_file","file_data":"data:application/pdf;base64,JVBERi0x","filename":"a.pdf"}]},{"type":"reasoning","id":"rs_1","summary":[{"type":"summary_text","text":"Need add.\n"}],"encrypted_content":"gAAA"},{"type":"message","role":"assistant","content":[{"type":"output_text","text":"Adding."},{"type":"refusal","refusal":"No."}]},{"type":"function_call","id":"fc_sy2","call_id":"call_1","name":"add","arguments":"{\"a\":2}"},{"type":"custom_tool_call","call_id":"call_2","name":"patch","input":"raw"},{"type":"function_call_output","call_id":"call_1","output":[{"type":"input_text","text":"5"},{"type":"input_image","image_url":"https://a/b.png"}]},{"type":"custom_tool_call_output","call_id":"call_2","output":"ok"}]}"#;

pub const MESSAGES_REQUEST: &str = r#"{"model":"m","max_tokens":4000,"thinking":{"type":"enabled","budget_tokens":2000},"output_config":{"effort":"high"},"metadata":{"user_id":"u1"},"tool_choice":{"type":"auto","disable_parallel_tool_use":true},"stop_sequences":["a"],"system":[{"type":"text","text":"Be brief.","cache_control":{"type":"ephemeral"}}],"tools":[{"name":"add","description":"Add","input_schema":{"type":"object"}},{"type":"web_search_20250305","name":"web_search","max_uses":3},{"type":"bash_20250124","name":"bash"}],"messages":[{"role":"user","content":[{"type":"text","text":"Sum these."},{"type":"image","source":{"type":"base64","media_type":"image/png","data":"iVBORw0K"}},{"type":"document","title":"T","source":{"type":"text","media_type":"text/plain","data":"words"}}]},{"role":"assistant","content":[{"type":"thinking","thinking":"Need add.\n","signature":"sy1:openai:eyJpZCI6InJzXzEiLCJlIjoiRU5DIiwic3VtIjpbIlMxIl19"},{"type":"redacted_thinking","data":"RR"},{"type":"text","text":"Adding."},{"type":"tool_use","id":"call_1","name":"add","input":{"a":2,"b":3}}]},{"role":"user","content":[{"type":"text","text":"first"},{"type":"tool_result","tool_use_id":"call_1","is_error":true,"content":[{"type":"text","text":"5"},{"type":"image","source":{"type":"url","url":"https://a/b"}}]}]}]}"#;

pub const COMPLETIONS_REQUEST: &str = r#"{"model":"m","prompt":["Once upon"],"max_tokens":5,"temperature":0.5,"n":2,"best_of":2,"echo":true,"logprobs":null,"stop":["\n"],"suffix":"","stream":true,"stream_options":{"include_usage":true},"user":"u","seed":1,"logit_bias":{"1":-100}}"#;

pub const GEMINI_REQUEST: &str = r#"{"systemInstruction":{"parts":[{"text":"Be brief."}]},"generationConfig":{"maxOutputTokens":4000,"topK":5,"stopSequences":["a"],"thinkingConfig":{"includeThoughts":true,"thinkingBudget":2000},"responseMimeType":"application/json","responseSchema":{"type":"OBJECT","properties":{"a":{"type":"STRING"}}}},"tools":[{"functionDeclarations":[{"name":"add","description":"Add","parameters":{"type":"OBJECT"}}]},{"googleSearch":{}}],"toolConfig":{"functionCallingConfig":{"mode":"ANY","allowedFunctionNames":["add"]}},"contents":[{"role":"user","parts":[{"text":"Sum these."},{"inlineData":{"mimeType":"image/png","data":"iVBORw0K"}},{"fileData":{"fileUri":"https://a/b.pdf","mimeType":"application/pdf"}}]},{"role":"model","parts":[{"text":"T","thought":true,"thoughtSignature":"Cq=="},{"text":"Adding."},{"functionCall":{"name":"add","args":{"a":2,"b":3}},"thoughtSignature":"Cr=="}]},{"role":"user","parts":[{"functionResponse":{"name":"add","response":{"result":"5"}}}]}]}"#;

pub const CHAT_REPLY: &str = r#"{"id":"chatcmpl-1","object":"chat.completion","created":1790000000,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"<think>a</think>5, next:","reasoning_content":"Now 5+1.","refusal":null,"annotations":[{"type":"url_citation","url_citation":{"start_index":0,"end_index":2,"title":"A","url":"https://a.b"}}],"tool_calls":[{"id":"call_2","type":"function","function":{"name":"add","arguments":"{\"a\":5,\"b\":1}"}}]},"logprobs":{"content":[{"token":"5","logprob":-0.5,"bytes":[53],"top_logprobs":[{"token":"6","logprob":-1.5,"bytes":null}]}]},"finish_reason":"tool_calls"}],"usage":{"prompt_tokens":120,"completion_tokens":25,"total_tokens":145,"prompt_tokens_details":{"cached_tokens":40},"completion_tokens_details":{"reasoning_tokens":9}}}"#;

pub const RESPONSES_REPLY: &str = r#"{"id":"resp_01","object":"response","created_at":1790000000,"status":"incomplete","incomplete_details":{"reason":"max_output_tokens"},"error":null,"model":"m","output":[{"id":"rs_0","type":"reasoning","summary":[{"type":"summary_text","text":"Now 5+1."},{"type":"summary_text","text":"So."}],"encrypted_content":"gAAA"},{"id":"msg_1","type":"message","status":"completed","role":"assistant","content":[{"type":"output_text","text":"5, next:","annotations":[{"type":"url_citation","start_index":0,"end_index":2,"title":"A","url":"https://a.b"}],"logprobs":[{"token":"5","logprob":-0.5,"bytes":[53],"top_logprobs":[{"token":"6","logprob":-1.5,"bytes":null}]}]},{"type":"refusal","refusal":"No."}]},{"id":"fc_2","type":"function_call","status":"completed","call_id":"call_2","name":"add","arguments":"{\"a\":5,\"b\":1}"},{"id":"ct_3","type":"custom_tool_call","call_id":"call_3","name":"patch","input":"raw"},{"id":"ws_4","type":"web_search_call","status":"completed","action":{"type":"search","query":"q","sources":[{"type":"url","url":"https://a.b"}]}}],"usage":{"input_tokens":120,"input_tokens_details":{"cached_tokens":40},"output_tokens":25,"output_tokens_details":{"reasoning_tokens":9},"total_tokens":145}}"#;

pub const MESSAGES_REPLY: &str = r#"{"id":"msg_01","type":"message","role":"assistant","model":"m","content":[{"type":"thinking","thinking":"Now 5+1.","signature":"SIG2"},{"type":"redacted_thinking","data":"RR"},{"type":"text","text":"5, next:","citations":[{"type":"web_search_result_location","url":"https://a.b","title":"A","cited_text":"five","encrypted_index":"E"}]},{"type":"tool_use","id":"call_2","name":"add","input":{"a":5,"b":1}},{"type":"server_tool_use","id":"s","name":"web_search","input":{"query":"q"}},{"type":"web_search_tool_result","tool_use_id":"s","content":[{"type":"web_search_result","url":"https://a.b","title":"A","encrypted_content":"E","page_age":null}]}],"stop_reason":"tool_use","stop_sequence":null,"usage":{"input_tokens":80,"cache_creation_input_tokens":0,"cache_read_input_tokens":40,"output_tokens":25}}"#;

pub const GEMINI_REPLY: &str = r#"{"candidates":[{"index":0,"content":{"role":"model","parts":[{"text":"Now 5+1.","thought":true},{"text":"5, next:"},{"functionCall":{"name":"add","args":{"a":5,"b":1}},"thoughtSignature":"Cq=="}]},"finishReason":"STOP","groundingMetadata":{"webSearchQueries":["q"],"groundingChunks":[{"web":{"uri":"https://a.b","title":"A"}}],"groundingSupports":[{"segment":{"partIndex":0,"startIndex":1,"endIndex":3,"text":", "},"groundingChunkIndices":[0]}]},"logprobsResult":{"topCandidates":[{"candidates":[{"token":"6","logProbability":-1.5}]}],"chosenCandidates":[{"token":"5","logProbability":-0.5}]}}],"usageMetadata":{"promptTokenCount":120,"cachedContentTokenCount":40,"candidatesTokenCount":16,"thoughtsTokenCount":9,"totalTokenCount":145},"modelVersion":"m","responseId":"msg_01"}"#;

pub const CHAT_STREAM: &str = r#": hello

data: {"id":"c","object":"chat.completion.chunk","created":7,"model":"m","choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}

data: {"id":"c","choices":[{"index":0,"delta":{"reasoning_content":"Now 5+1."},"finish_reason":null}]}

data: {"id":"c","choices":[{"index":0,"delta":{"reasoning_signature":"sy1:anthropic:W3siciI6IlJSIn1d"},"finish_reason":null}]}

data: {"id":"c","choices":[{"index":0,"delta":{"content":"5, "},"finish_reason":null}]}

data: {"id":"c","choices":[{"index":0,"delta":{"content":"next:"},"logprobs":{"content":[{"token":"5","logprob":-0.5,"bytes":[53],"top_logprobs":[{"token":"6","logprob":-1.5,"bytes":null}]}]},"finish_reason":""}]}

data: {"id":"c","choices":[{"index":0,"delta":{"annotations":[{"type":"url_citation","url_citation":{"start_index":0,"end_index":2,"title":"A","url":"https://a.b"}}]},"finish_reason":null}]}

data: {"id":"c","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"call_2","type":"function","function":{"name":"add","arguments":""}},{"index":1,"id":"call_3","function":{"name":"sub","arguments":"{"}}]},"finish_reason":null}]}

data: {"id":"c","choices":[{"index":0,"delta":{"tool_calls":[{"index":1,"function":{"arguments":"}"}},{"index":0,"function":{"arguments":"{\"a\":5,"}}]},"finish_reason":null}]}

data: {"id":"c","choices":[{"index":0,"delta":{"tool_calls":[{"function":{"arguments":"\"b\":1}"}}]},"finish_reason":null}]}

data: {"id":"c","choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}

data: {"id":"c","choices":[],"usage":{"prompt_tokens":120,"completion_tokens":25,"total_tokens":145,"prompt_tokens_details":{"cached_tokens":40}}}

data: [DONE]

"#;

pub const RESPONSES_STREAM: &str = r#"event: response.created
data: {"type":"response.created","sequence_number":0,"response":{"id":"resp_01","object":"response","created_at":7,"status":"in_progress","model":"m","output":[]}}

event: response.output_item.added
data: {"type":"response.output_item.added","sequence_number":1,"output_index":0,"item":{"id":"rs_0","type":"reasoning","summary":[]}}

event: response.output_item.done
data: {"type":"response.output_item.done","sequence_number":3,"output_index":9,"item":{"id":"ws_9","type":"web_search_call","status":"completed","action":{"type":"search","query":"q","sources":[{"type":"url","url":"https://a.b"}]}}}

event: response.reasoning_summary_text.delta
data: {"type":"response.reasoning_summary_text.delta","sequence_number":2,"item_id":"rs_0","output_index":0,"summary_index":0,"delta":"Now 5+1."}

event: response.output_item.done
data: {"type":"response.output_item.done","sequence_number":3,"output_index":0,"item":{"id":"rs_0","type":"reasoning","summary":[{"type":"summary_text","text":"Now 5+1."}],"encrypted_content":"gAAA"}}

event: response.output_item.added
data: {"type":"response.output_item.added","sequence_number":4,"output_index":1,"item":{"id":"msg_1","type":"message","role":"assistant","content":[]}}

event: response.output_text.delta
data: {"type":"response.output_text.delta","sequence_number":5,"item_id":"msg_1","output_index":1,"content_index":0,"delta":"5, next:","logprobs":[{"token":"5","logprob":-0.5,"bytes":[53],"top_logprobs":[{"token":"6","logprob":-1.5,"bytes":null}]}]}

event: response.output_text.annotation.added
data: {"type":"response.output_text.annotation.added","sequence_number":6,"item_id":"msg_1","output_index":1,"content_index":0,"annotation_index":0,"annotation":{"type":"url_citation","start_index":0,"end_index":2,"title":"A","url":"https://a.b"}}

event: response.output_text.done
data: {"type":"response.output_text.done","sequence_number":6,"item_id":"msg_1","output_index":1,"content_index":0,"text":"5, next:"}

event: response.output_item.added
data: {"type":"response.output_item.added","sequence_number":7,"output_index":2,"item":{"id":"fc_2","type":"function_call","call_id":"call_2","name":"add","arguments":""}}

event: response.function_call_arguments.delta
data: {"type":"response.function_call_arguments.delta","sequence_number":8,"item_id":"fc_2","output_index":2,"delta":"{\"a\":5}"}

event: response.custom_tool_call_input.delta
data: {"type":"response.custom_tool_call_input.delta","sequence_number":9,"item_id":"ct_3","output_index":3,"delta":"raw"}

event: response.completed
data: {"type":"response.completed","sequence_number":10,"response":{"id":"resp_01","object":"response","created_at":7,"status":"completed","model":"m","output":[{"id":"rs_0","type":"reasoning","summary":[{"type":"summary_text","text":"Now 5+1."}],"encrypted_content":"gAAA"},{"id":"msg_1","type":"message","role":"assistant","content":[{"type":"output_text","text":"5, next:","annotations":[]}]},{"id":"fc_2","type":"function_call","call_id":"call_2","name":"add","arguments":"{\"a\":5}"}],"usage":{"input_tokens":120,"output_tokens":25,"total_tokens":145}}}

"#;

pub const MESSAGES_STREAM: &str = r#"event: message_start
data: {"type":"message_start","message":{"id":"msg_01","type":"message","role":"assistant","model":"m","content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":80,"cache_read_input_tokens":40,"output_tokens":1}}}

event: content_block_start
data: {"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"","signature":""}}

event: content_block_delta
data: {"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"Now 5+1."}}

event: content_block_delta
data: {"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"SIG2"}}

event: content_block_stop
data: {"type":"content_block_stop","index":0}

event: ping
data: {"type":"ping"}

event: content_block_start
data: {"type":"content_block_start","index":7,"content_block":{"type":"server_tool_use","id":"s","name":"web_search","input":{}}}

event: content_block_delta
data: {"type":"content_block_delta","index":7,"delta":{"type":"input_json_delta","partial_json":"{\"query\":\"q\"}"}}

event: content_block_stop
data: {"type":"content_block_stop","index":7}

event: content_block_start
data: {"type":"content_block_start","index":8,"content_block":{"type":"web_search_tool_result","tool_use_id":"s","content":[{"type":"web_search_result","url":"https://a.b","title":"A","encrypted_content":"E"}]}}

event: content_block_stop
data: {"type":"content_block_stop","index":8}

event: content_block_start
data: {"type":"content_block_start","index":1,"content_block":{"type":"text","text":""}}

event: content_block_delta
data: {"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":"5, next:"}}

event: content_block_delta
data: {"type":"content_block_delta","index":1,"delta":{"type":"citations_delta","citation":{"type":"web_search_result_location","url":"https://a.b","title":"A","cited_text":"five","encrypted_index":"E"}}}

event: content_block_stop
data: {"type":"content_block_stop","index":1}

event: content_block_start
data: {"type":"content_block_start","index":2,"content_block":{"type":"tool_use","id":"call_2","name":"add","input":{}}}

event: content_block_delta
data: {"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta","partial_json":"{\"a\":5}"}}

event: content_block_stop
data: {"type":"content_block_stop","index":2}

event: message_delta
data: {"type":"message_delta","delta":{"stop_reason":"tool_use","stop_sequence":null},"usage":{"output_tokens":25}}

event: message_stop
data: {"type":"message_stop"}

"#;

pub const GEMINI_STREAM: &str = r#"data: {"candidates":[{"index":0,"content":{"role":"model","parts":[{"text":"Now 5+1.","thought":true}]}}],"modelVersion":"m","responseId":"r"}

data: {"candidates":[{"index":0,"content":{"role":"model","parts":[{"text":"5, next:"},{"functionCall":{"name":"add","args":{"a":5}},"thoughtSignature":"Cq=="}]}}],"modelVersion":"m","responseId":"r"}

data: {"candidates":[{"index":0,"content":{"role":"model","parts":[{"text":""}]},"finishReason":"STOP","groundingMetadata":{"webSearchQueries":["q"],"groundingChunks":[{"web":{"uri":"https://a.b","title":"A"}}],"groundingSupports":[{"segment":{"partIndex":0,"startIndex":1,"endIndex":3,"text":", "},"groundingChunkIndices":[0]}]},"logprobsResult":{"topCandidates":[{"candidates":[{"token":"6","logProbability":-1.5}]}],"chosenCandidates":[{"token":"5","logProbability":-0.5}]}}],"usageMetadata":{"promptTokenCount":120,"candidatesTokenCount":16,"thoughtsTokenCount":9,"totalTokenCount":145},"modelVersion":"m","responseId":"r"}

"#;

const ERROR_EVENT: &str =
    "event: error\ndata: {\"error\":{\"message\":\"boom\",\"type\":\"server_error\",\"code\":null}}\n\n";

pub const REQUESTS: [&str; 4] = [CHAT_REQUEST, RESPONSES_REQUEST, MESSAGES_REQUEST, GEMINI_REQUEST];
pub const REPLIES: [&str; 4] = [CHAT_REPLY, RESPONSES_REPLY, MESSAGES_REPLY, GEMINI_REPLY];
pub const EVENTS: [&str; 5] = [CHAT_STREAM, RESPONSES_STREAM, MESSAGES_STREAM, GEMINI_STREAM, ERROR_EVENT];

/// Keys and values that have a meaning somewhere.
pub const WORDS: &[&str] = &[
    "text",
    "type",
    "role",
    "content",
    "messages",
    "input",
    "output",
    "model",
    "system",
    "developer",
    "user",
    "assistant",
    "tool",
    "function",
    "custom",
    "name",
    "arguments",
    "input_text",
    "output_text",
    "refusal",
    "image_url",
    "input_image",
    "image",
    "source",
    "base64",
    "url",
    "file",
    "file_id",
    "input_file",
    "document",
    "data:;base64,",
    "data:text/plain;base64,aGk=",
    "tool_calls",
    "tool_use",
    "tool_result",
    "tool_use_id",
    "tool_call_id",
    "call_id",
    "id",
    "function_call",
    "function_call_output",
    "custom_tool_call",
    "reasoning",
    "reasoning_content",
    "reasoning_details",
    "thinking",
    "redacted_thinking",
    "signature",
    "summary",
    "encrypted_content",
    "sy1:openai:e30",
    "sy1:anthropic:",
    "metapi:gemini-thought-signature:x",
    "stop",
    "finish_reason",
    "stop_reason",
    "length",
    "content_filter",
    "error",
    "code",
    "message",
    "failed",
    "status",
    "incomplete",
    "usage",
    "prompt_tokens",
    "input_tokens",
    "output_tokens",
    "total_tokens",
    "cached_tokens",
    "choices",
    "delta",
    "index",
    "output_index",
    "content_index",
    "summary_index",
    "item",
    "item_id",
    "response",
    "response.completed",
    "response.output_item.done",
    "response.failed",
    "message_start",
    "message_stop",
    "content_block_start",
    "content_block_delta",
    "message_delta",
    "candidates",
    "parts",
    "thought",
    "functionCall",
    "functionResponse",
    "inlineData",
    "finishReason",
    "max_tokens",
    "tools",
    "tool_choice",
];
