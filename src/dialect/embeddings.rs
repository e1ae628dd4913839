//! Embeddings, converted between OpenAI's form and Google's.
//!
//! | OpenAI | Google |
//! |---|---|
//! | `input`, one text or several | a request for each in `requests`; `content` of a single one |
//! | `dimensions` | `outputDimensionality` |
//! | `encoding_format: "base64"` | nothing: the gateway packs the numbers |
//! | `task_type`, `title`, which OpenAI itself does not know | `taskType`, `title` |
//!
//! OpenAI's models have one embedding of a text for all tasks: a `taskType` is left out on the way there, and a title
//! goes in front of its text. Tokens instead of text, and content that is not text, cannot be expressed in the other
//! form.

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use bytes::Bytes;
use serde_json::{Map, Value, json};

use super::canonical::ConversionError;
use super::json;

/// Google's action for the embedding of one text.
pub const ONE: &str = "embedContent";
/// Google's action for the embeddings of several texts.
pub const SEVERAL: &str = "batchEmbedContents";

/// Whether an OpenAI client wants the numbers packed as base64.
pub fn wants_base64(body: &str) -> bool {
    json::member(body, "encoding_format") == Some("\"base64\"")
}

/// Converts OpenAI's request to Google's [`SEVERAL`].
pub fn to_gemini(body: &str, model: &str) -> Result<Bytes, ConversionError> {
    let body = object(body)?;
    let texts = match &body["input"] {
        Value::String(text) => vec![text.as_str()],
        Value::Array(texts) if !texts.is_empty() => {
            let texts: Option<Vec<&str>> = texts.iter().map(Value::as_str).collect();
            texts.ok_or_else(|| ConversionError::unsupported("input"))?
        }
        _ => return Err(ConversionError::invalid("input", "must be a text, or a list of texts")),
    };
    if !matches!(body["encoding_format"].as_str().unwrap_or("float"), "float" | "base64") {
        return Err(ConversionError::invalid("encoding_format", "must be float or base64"));
    }
    let dimensions = dimensions(&body["dimensions"], "dimensions")?;
    let name = if model.starts_with("tunedModels/") { model.to_owned() } else { format!("models/{model}") };
    let request = |text: &str| {
        let mut request = json!({ "model": name, "content": { "parts": [{ "text": text }] } });
        for (member, own) in [("taskType", ["task_type", "taskType"]), ("title", ["title", "title"])] {
            if let Some(given) = own.iter().find_map(|own| body[*own].as_str()) {
                request[member] = json!(given);
            }
        }
        if let Some(dimensions) = dimensions {
            request["outputDimensionality"] = json!(dimensions);
        }
        request
    };
    let requests: Vec<Value> = texts.into_iter().map(request).collect();
    Ok(Bytes::from(json!({ "requests": requests }).to_string()))
}

/// Converts Google's request for this action to OpenAI's.
pub fn to_openai(action: &str, body: &str, model: &str) -> Result<Bytes, ConversionError> {
    let body = object(body)?;
    let mut written = Map::from_iter([("model".to_owned(), json!(model))]);
    let mut dimensions = None;
    if action == ONE {
        let (text, own) = asked(&body, "content.parts")?;
        (written, dimensions) = (with(written, "input", json!(text)), own);
    } else {
        let requests = body["requests"].as_array().filter(|requests| !requests.is_empty());
        let requests = requests.ok_or_else(|| ConversionError::invalid("requests", "must not be empty"))?;
        let mut texts = Vec::with_capacity(requests.len());
        for (place, request) in requests.iter().enumerate() {
            let (text, own) = asked(request, "requests.content.parts")?;
            if place > 0 && own != dimensions {
                return Err(ConversionError::unsupported("requests.outputDimensionality"));
            }
            dimensions = own;
            texts.push(text);
        }
        written = with(written, "input", json!(texts));
    }
    if let Some(dimensions) = dimensions {
        written = with(written, "dimensions", json!(dimensions));
    }
    written = with(written, "encoding_format", json!("float"));
    Ok(Bytes::from(Value::Object(written).to_string()))
}

/// Converts Google's answer to OpenAI's; `None` where it has no embeddings.
pub fn answer_to_openai(answer: &[u8], model: &str, base64: bool) -> Option<Bytes> {
    let answer = json::tree(answer)?;
    let values = |embedding: &Value| numbers(&embedding["values"]);
    let embeddings: Option<Vec<Vec<f64>>> = match &answer["embeddings"] {
        Value::Array(several) => several.iter().map(values).collect(),
        _ => values(&answer["embedding"]).map(|one| vec![one]),
    };
    let data: Vec<Value> = embeddings?
        .into_iter()
        .enumerate()
        .map(|(index, numbers)| {
            let embedding = if base64 { json!(packed(&numbers)) } else { json!(numbers) };
            json!({ "object": "embedding", "index": index, "embedding": embedding })
        })
        .collect();
    let tokens = answer["usageMetadata"]["promptTokenCount"].as_u64().unwrap_or(0);
    let usage = json!({ "prompt_tokens": tokens, "total_tokens": tokens });
    let written = json!({ "object": "list", "data": data, "model": model, "usage": usage });
    Some(Bytes::from(written.to_string()))
}

/// Converts OpenAI's answer to Google's answer for this action; `None` where it has no embeddings.
pub fn answer_to_gemini(action: &str, answer: &[u8]) -> Option<Bytes> {
    let answer = json::tree(answer)?;
    let mut data: Vec<&Value> = answer["data"].as_array()?.iter().collect();
    data.sort_by_key(|embedding| embedding["index"].as_u64());
    let values = |embedding: &&Value| {
        let numbers = match embedding["embedding"].as_str() {
            Some(packed) => unpacked(packed),
            None => numbers(&embedding["embedding"]),
        };
        numbers.map(|numbers| json!({ "values": numbers }))
    };
    let embeddings: Vec<Value> = data.iter().map(values).collect::<Option<_>>()?;
    let mut written = match action {
        ONE => json!({ "embedding": embeddings.first()? }),
        _ => json!({ "embeddings": embeddings }),
    };
    if let Some(tokens) = answer["usage"]["prompt_tokens"].as_u64() {
        written["usageMetadata"] = json!({ "promptTokenCount": tokens, "totalTokenCount": tokens });
    }
    Some(Bytes::from(written.to_string()))
}

/// Returns the text that one of Google's requests asks for, and the number of dimensions.
fn asked(request: &Value, place: &'static str) -> Result<(String, Option<u64>), ConversionError> {
    let parts = request["content"]["parts"].as_array().filter(|parts| !parts.is_empty());
    let parts = parts.ok_or_else(|| ConversionError::invalid(place, "must not be empty"))?;
    let texts: Option<Vec<&str>> = parts.iter().map(|part| part["text"].as_str()).collect();
    let text = texts.ok_or_else(|| ConversionError::unsupported(place))?.join("\n");
    let config = &request["embedContentConfig"];
    let given = |names: [&str; 2]| {
        let of =
            |holder: &Value| names.iter().map(|name| holder[*name].clone()).find(|value| !value.is_null());
        of(request).or_else(|| of(config)).unwrap_or_default()
    };
    let title = given(["title", "title"]);
    let text = match title.as_str().filter(|title| !title.trim().is_empty()) {
        Some(title) => format!("{title}\n\n{text}"),
        None => text,
    };
    let most = dimensions(&given(["outputDimensionality", "output_dimensionality"]), "outputDimensionality")?;
    Ok((text, most))
}

fn dimensions(given: &Value, field: &'static str) -> Result<Option<u64>, ConversionError> {
    match given.as_u64() {
        _ if given.is_null() => Ok(None),
        Some(number @ 1..) => Ok(Some(number)),
        _ => Err(ConversionError::invalid(field, "must be a positive whole number")),
    }
}

fn with(mut members: Map<String, Value>, name: &str, value: Value) -> Map<String, Value> {
    members.insert(name.to_owned(), value);
    members
}

fn object(body: &str) -> Result<Value, ConversionError> {
    let object = json::tree(body.as_bytes()).filter(Value::is_object);
    object.ok_or_else(|| ConversionError::invalid("body", "is not valid JSON"))
}

fn numbers(values: &Value) -> Option<Vec<f64>> {
    values.as_array()?.iter().map(Value::as_f64).collect()
}

/// Packs numbers as OpenAI does: single floats, the lowest byte first.
fn packed(numbers: &[f64]) -> String {
    let bytes: Vec<u8> = numbers.iter().flat_map(|number| (*number as f32).to_le_bytes()).collect();
    BASE64.encode(bytes)
}

fn unpacked(packed: &str) -> Option<Vec<f64>> {
    let bytes = BASE64.decode(packed).ok()?;
    let (floats, rest) = bytes.as_chunks::<4>();
    rest.is_empty().then(|| floats.iter().map(|float| f64::from(f32::from_le_bytes(*float))).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(written: Result<Bytes, ConversionError>) -> Value {
        json::tree(&written.expect("converted")).expect("JSON")
    }

    #[test]
    fn a_request_is_said_in_the_other_form() {
        let body = r#"{"model":"m","input":["a","b"],"dimensions":2,"encoding_format":"base64","user":"u","task_type":"RETRIEVAL_DOCUMENT","title":"T"}"#;
        let request = |text| {
            json!({"model": "models/e-1", "content": {"parts": [{"text": text}]}, "outputDimensionality": 2,
                   "taskType": "RETRIEVAL_DOCUMENT", "title": "T"})
        };
        assert_eq!(tree(to_gemini(body, "e-1")), json!({"requests": [request("a"), request("b")]}));
        assert!(wants_base64(body) && !wants_base64("{}"));
        let one = r#"{"content":{"parts":[{"text":"a"},{"text":"b"}]},"taskType":"CLUSTERING","title":"T","outputDimensionality":3}"#;
        let written =
            json!({"model": "m", "input": "T\n\na\nb", "dimensions": 3, "encoding_format": "float"});
        assert_eq!(tree(to_openai(ONE, one, "m")), written);
        let several =
            r#"{"requests":[{"content":{"parts":[{"text":"a"}]}},{"content":{"parts":[{"text":"b"}]}}]}"#;
        let written = json!({"model": "m", "input": ["a", "b"], "encoding_format": "float"});
        assert_eq!(tree(to_openai(SEVERAL, several, "m")), written);
    }

    #[test]
    fn what_cannot_be_said_names_its_field() {
        let field = |written: Result<Bytes, ConversionError>| match written.expect_err("refused") {
            ConversionError::Invalid { field, .. } | ConversionError::Unsupported { field, .. } => field,
        };
        for (body, wanted) in [
            (r#"{"input":[1,2]}"#, "input"),
            (r#"{"input":[[1],[2]]}"#, "input"),
            (r#"{"input":[]}"#, "input"),
            (r#"{}"#, "input"),
            (r#"{"input":"a","dimensions":0}"#, "dimensions"),
            (r#"{"input":"a","encoding_format":"int8"}"#, "encoding_format"),
        ] {
            assert_eq!(field(to_gemini(body, "m")), wanted, "{body}");
        }
        for (action, body, wanted) in [
            (ONE, r#"{}"#, "content.parts"),
            (ONE, r#"{"content":{"parts":[{"inlineData":{}}]}}"#, "content.parts"),
            (SEVERAL, r#"{"requests":[]}"#, "requests"),
            (
                SEVERAL,
                r#"{"requests":[{"content":{"parts":[{"text":"a"}]}},{"content":{"parts":[{"text":"b"}]},"outputDimensionality":2}]}"#,
                "requests.outputDimensionality",
            ),
        ] {
            assert_eq!(field(to_openai(action, body, "m")), wanted, "{body}");
        }
    }

    #[test]
    fn an_answer_is_told_in_the_other_form() {
        let google =
            br#"{"embeddings":[{"values":[0.5,-1]},{"values":[2]}],"usageMetadata":{"promptTokenCount":7}}"#;
        let told = |base64| json::tree(&answer_to_openai(google, "m", base64).expect("told")).expect("JSON");
        assert_eq!(told(false)["data"][0]["embedding"], json!([0.5, -1.0]));
        assert_eq!(told(false)["usage"], json!({"prompt_tokens": 7, "total_tokens": 7}));
        let packed = told(true)["data"][0]["embedding"].clone();
        assert_eq!(packed, json!("AAAAPwAAgL8="));
        let openai = json!({"data": [{"index": 1, "embedding": [2.0]}, {"index": 0, "embedding": packed}],
                            "usage": {"prompt_tokens": 7}});
        let told = answer_to_gemini(SEVERAL, openai.to_string().as_bytes()).expect("told");
        let usage = json!({"promptTokenCount": 7, "totalTokenCount": 7});
        let wanted =
            json!({"embeddings": [{"values": [0.5, -1.0]}, {"values": [2.0]}], "usageMetadata": usage});
        assert_eq!(json::tree(&told), Some(wanted));
        for nothing in ["{}", "[]", r#"{"embeddings":[{}]}"#, r#"{"data":[{"embedding":"!"}]}"#] {
            assert_eq!(answer_to_openai(nothing.as_bytes(), "m", false), None, "{nothing}");
            assert_eq!(answer_to_gemini(ONE, nothing.as_bytes()), None, "{nothing}");
        }
    }
}
