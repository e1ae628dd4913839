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

use super::canonical::{ConversionError, MAX_REPEATED};
use super::json;
use super::literal::{Json, Text, compact};
use super::tree::Node;
use super::writer::Writer;

/// Google's action for the embedding of one text.
pub const ONE: &str = "embedContent";
/// Google's action for the embeddings of several texts.
pub const SEVERAL: &str = "batchEmbedContents";
/// The most texts of one request, as OpenAI has it.
const MAX_TEXTS: usize = 2048;

/// Whether an OpenAI client wants the numbers packed as base64.
pub fn wants_base64(body: &str) -> bool {
    json::member(body, "encoding_format") == Some("\"base64\"")
}

/// Converts OpenAI's request to Google's [`SEVERAL`].
pub fn to_gemini(body: &str, model: &str) -> Result<Bytes, ConversionError> {
    let body = object(body)?;
    let invalid = |problem: &'static str| ConversionError::invalid("input", problem);
    let texts: Vec<Text<'_>> = match body.get("input") {
        Some(one) if one.is_string() => one.text().into_iter().collect(),
        Some(several) if !several.items().is_empty() => {
            let texts: Option<_> = several.items().iter().map(Node::text).collect();
            texts.ok_or_else(|| ConversionError::unsupported("input"))?
        }
        _ => return Err(invalid("must be a text, or a list of texts")),
    };
    if texts.len() > MAX_TEXTS {
        return Err(invalid("must not have more than 2048 texts"));
    }
    let format = body.get("encoding_format").map_or("\"float\"", Node::raw);
    if !matches!(format, "\"float\"" | "\"base64\"") {
        return Err(ConversionError::invalid("encoding_format", "must be float or base64"));
    }
    let dimensions = dimensions(body.get("dimensions"), "dimensions")?;
    let repeated = |names: &[&'static str]| {
        let given = names.iter().find_map(|name| Some((*name, body.text_at(name)?)));
        match given {
            Some((name, text)) if text.literal().len() > MAX_REPEATED => {
                Err(ConversionError::invalid(name, "is too long: each text would repeat it"))
            }
            given => Ok(given.map(|(_, text)| text)),
        }
    };
    let (task, title) = (repeated(&["task_type", "taskType"])?, repeated(&["title"])?);
    let name = if model.starts_with("tunedModels/") { model.to_owned() } else { format!("models/{model}") };
    let mut written = Writer::with_capacity(body.raw().len() + 128 * texts.len());
    written.object(|o| {
        o.array("requests", |a| {
            for text in &texts {
                a.object(|o| {
                    o.field("model", &name);
                    o.object_at("content", |o| o.array("parts", |a| a.object(|o| o.field("text", text))));
                    o.field_if("taskType", task.as_ref());
                    o.field_if("title", title.as_ref());
                    o.field_if("outputDimensionality", dimensions);
                });
            }
        });
    });
    Ok(written.into_bytes())
}

/// Converts Google's request for this action to OpenAI's.
pub fn to_openai(action: &str, body: &str, model: &str) -> Result<Bytes, ConversionError> {
    let body = object(body)?;
    let (mut texts, mut dimensions) = (Vec::new(), None);
    if action == ONE {
        let (text, own) = asked(&body, "content.parts")?;
        (texts, dimensions) = (vec![text], own);
    } else {
        let requests = body.items_at("requests");
        if requests.is_empty() {
            return Err(ConversionError::invalid("requests", "must not be empty"));
        }
        for (place, request) in requests.iter().enumerate() {
            let (text, own) = asked(request, "requests.content.parts")?;
            if place > 0 && own != dimensions {
                return Err(ConversionError::unsupported("requests.outputDimensionality"));
            }
            dimensions = own;
            texts.push(text);
        }
    }
    let mut written = Writer::with_capacity(body.raw().len());
    written.object(|o| {
        o.field("model", model);
        match texts.as_slice() {
            [one] if action == ONE => o.field("input", one),
            several => o.array("input", |a| several.iter().for_each(|text| a.item(text))),
        }
        o.field_if("dimensions", dimensions);
        o.field("encoding_format", "float");
    });
    Ok(written.into_bytes())
}

/// Converts Google's answer to OpenAI's; `None` where it has no embeddings.
pub fn answer_to_openai(answer: &[u8], model: &str, base64: bool) -> Option<Bytes> {
    let answer = Node::parse(std::str::from_utf8(answer).ok()?).ok()?;
    let embeddings = match answer.get("embeddings") {
        Some(several) if several.is_array() => several.items(),
        _ => std::slice::from_ref(answer.get("embedding")?),
    };
    let tokens = answer.path(&["usageMetadata", "promptTokenCount"]).and_then(Node::u64).unwrap_or(0);
    let mut is_whole = true;
    let mut written = Writer::with_capacity(answer.raw().len());
    written.object(|o| {
        o.field("object", "list");
        o.array("data", |a| {
            for (index, embedding) in (0u64..).zip(embeddings) {
                let values = embedding.get("values").and_then(|values| Some((values, numbers(values)?)));
                let Some((values, numbers)) = values else {
                    is_whole = false;
                    return;
                };
                a.object(|o| {
                    o.field("object", "embedding");
                    o.field("index", index);
                    if base64 {
                        o.field("embedding", packed(&numbers))
                    } else {
                        o.field("embedding", Json::checked(&compact(values.raw())))
                    }
                });
            }
        });
        o.field("model", model);
        o.object_at("usage", |o| {
            o.field("prompt_tokens", tokens);
            o.field("total_tokens", tokens);
        });
    });
    is_whole.then(|| written.into_bytes())
}

/// Converts OpenAI's answer to Google's answer for this action; `None` where it has no embeddings.
pub fn answer_to_gemini(action: &str, answer: &[u8]) -> Option<Bytes> {
    let answer = Node::parse(std::str::from_utf8(answer).ok()?).ok()?;
    let data = answer.get("data").filter(|data| data.is_array())?;
    let mut data: Vec<&Node<'_>> = data.items().iter().collect();
    data.sort_by_key(|embedding| embedding.u64_at("index"));
    let values: Option<Vec<String>> = data.into_iter().map(values).collect();
    let values = values?;
    let put = |o: &mut Writer, values: &str| o.field("values", Json::checked(values));
    if action == ONE && values.is_empty() {
        return None;
    }
    let mut written = Writer::with_capacity(answer.raw().len());
    written.object(|o| {
        match values.as_slice() {
            [one, ..] if action == ONE => o.object_at("embedding", |o| put(o, one)),
            several => o.array("embeddings", |a| several.iter().for_each(|one| a.object(|o| put(o, one)))),
        }
        if let Some(tokens) = answer.path(&["usage", "prompt_tokens"]).and_then(Node::u64) {
            o.object_at("usageMetadata", |o| {
                o.field("promptTokenCount", tokens);
                o.field("totalTokenCount", tokens);
            });
        }
    });
    Some(written.into_bytes())
}

/// Returns the numbers of one of OpenAI's embeddings, packed or not, as a list in JSON.
fn values(embedding: &Node<'_>) -> Option<String> {
    let embedding = embedding.get("embedding")?;
    match embedding.str() {
        Some(packed) => serde_json::to_string(&unpacked(&packed)?).ok(),
        None => numbers(embedding).map(|_| compact(embedding.raw()).into_owned()),
    }
}

/// Returns the text that one of Google's requests asks for, and the number of dimensions.
fn asked(request: &Node<'_>, place: &'static str) -> Result<(Text<'static>, Option<u64>), ConversionError> {
    let parts = request.path(&["content", "parts"]).map_or(&[][..], Node::items);
    if parts.is_empty() {
        return Err(ConversionError::invalid(place, "must not be empty"));
    }
    let texts: Option<Vec<Text<'_>>> = parts.iter().map(|part| part.text_at("text")).collect();
    let mut texts = texts.ok_or_else(|| ConversionError::unsupported(place))?;
    let given = |names: [&str; 2]| {
        let holders = [Some(request), request.get("embedContentConfig")];
        holders.into_iter().flatten().find_map(|holder| names.iter().find_map(|name| holder.get(name)))
    };
    if let Some(title) = given(["title"; 2]).and_then(Node::text).filter(|title| !title.is_blank()) {
        // A blank line between the title and the text.
        texts.splice(0..0, [title, Text::EMPTY]);
    }
    let most = dimensions(given(["outputDimensionality", "output_dimensionality"]), "outputDimensionality")?;
    Ok((Text::join(&texts, "\\n"), most))
}

fn dimensions(given: Option<&Node<'_>>, field: &'static str) -> Result<Option<u64>, ConversionError> {
    match given.map(|given| given.raw().parse()) {
        None => Ok(None),
        Some(Ok(number @ 1..)) => Ok(Some(number)),
        Some(_) => Err(ConversionError::invalid(field, "must be a positive whole number")),
    }
}

fn object(body: &str) -> Result<Node<'_>, ConversionError> {
    let object = Node::parse(body).ok().filter(Node::is_object);
    object.ok_or_else(|| ConversionError::invalid("body", "is not valid JSON"))
}

fn numbers(values: &Node<'_>) -> Option<Vec<f64>> {
    serde_json::from_str(values.raw()).ok()
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
    use serde_json::{Value, json};

    use super::*;
    use crate::dialect::json;

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
            (&format!(r#"{{"input":[{}"a"]}}"#, r#""a","#.repeat(MAX_TEXTS)), "input"),
            (&format!(r#"{{"input":"a","title":"{}"}}"#, "t".repeat(MAX_REPEATED + 1)), "title"),
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
        assert_eq!(told(false)["data"][0]["embedding"], json!([0.5, -1]));
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
        let numbers = vec!["0.012345678901"; 3072].join(",\n ");
        let google =
            format!(r#"{{"embeddings":[{}]}}"#, vec![format!(r#"{{"values":[{numbers}]}}"#); 60].join(","));
        let told = answer_to_openai(google.as_bytes(), "m", false).expect("an answer of more than 2 MB");
        assert_eq!(String::from_utf8_lossy(&told).matches("0.012345678901").count(), 60 * 3072);
        assert!(answer_to_gemini(SEVERAL, &told).is_some_and(|back| back.len() > 2 << 20));
        for nothing in ["{}", "[]", r#"{"embeddings":[{}]}"#, r#"{"data":[{"embedding":"!"}]}"#] {
            assert_eq!(answer_to_openai(nothing.as_bytes(), "m", false), None, "{nothing}");
            assert_eq!(answer_to_gemini(ONE, nothing.as_bytes()), None, "{nothing}");
        }
    }
}
