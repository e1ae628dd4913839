//! Builds requests that are as expensive for a gateway as a request can be, in each dialect that clients speak.

use std::fmt;
use std::io::{self, Write};
use std::process::{Command, Stdio};

/// The longest body accepted by default, in bytes.
pub const LIMIT: usize = 20 << 20;
/// The most parts and calls of a converted request by default.
const PARTS: usize = 20_000;
/// Room for the JSON around the parts of a body, in bytes.
const FRAME: usize = 4096;

/// A dialect of clients and upstreams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    Chat,
    Responses,
    Messages,
    Gemini,
}

impl Dialect {
    pub const ALL: [Self; 4] = [Self::Chat, Self::Responses, Self::Messages, Self::Gemini];

    pub fn name(self) -> &'static str {
        match self {
            Self::Chat => "chat",
            Self::Responses => "responses",
            Self::Messages => "messages",
            Self::Gemini => "gemini",
        }
    }

    /// Returns the path at which a client asks for a model.
    pub fn path(self, model: &str) -> String {
        match self {
            Self::Chat => "/v1/chat/completions".to_owned(),
            Self::Responses => "/v1/responses".to_owned(),
            Self::Messages => "/v1/messages".to_owned(),
            Self::Gemini => format!("/v1beta/models/{model}:generateContent"),
        }
    }

    /// Returns an upstream's short answer.
    pub fn answer(self) -> &'static str {
        match self {
            Self::Chat => {
                r#"{"id":"c","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"ok"},"finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":1,"total_tokens":2}}"#
            }
            Self::Responses => {
                r#"{"id":"resp_1","object":"response","created_at":1,"status":"completed","model":"m","output":[{"type":"message","id":"msg_1","role":"assistant","status":"completed","content":[{"type":"output_text","text":"ok","annotations":[]}]}],"usage":{"input_tokens":1,"output_tokens":1,"total_tokens":2}}"#
            }
            Self::Messages => {
                r#"{"id":"msg_1","type":"message","role":"assistant","model":"m","content":[{"type":"text","text":"ok"}],"stop_reason":"end_turn","stop_sequence":null,"usage":{"input_tokens":1,"output_tokens":1}}"#
            }
            Self::Gemini => {
                r#"{"candidates":[{"content":{"role":"model","parts":[{"text":"ok"}]},"finishReason":"STOP","index":0}],"usageMetadata":{"promptTokenCount":1,"candidatesTokenCount":1,"totalTokenCount":2}}"#
            }
        }
    }

    /// Builds a request body of these messages, items or contents, and these further members.
    fn request(self, model: &str, list: &str, more: &str) -> String {
        match self {
            Self::Chat => format!(r#"{{"model":"{model}","messages":[{list}]{more}}}"#),
            Self::Responses => format!(r#"{{"model":"{model}","store":false,"input":[{list}]{more}}}"#),
            Self::Messages => format!(r#"{{"model":"{model}","max_tokens":9,"messages":[{list}]{more}}}"#),
            Self::Gemini => format!(r#"{{"contents":[{list}]{more}}}"#),
        }
    }

    /// Builds a short request body.
    pub fn greeting(self, model: &str) -> String {
        self.request(model, &self.turn(&self.text("x")), "")
    }

    fn turn(self, parts: &str) -> String {
        match self {
            Self::Gemini => format!(r#"{{"role":"user","parts":[{parts}]}}"#),
            _ => format!(r#"{{"role":"user","content":[{parts}]}}"#),
        }
    }

    fn text(self, text: &str) -> String {
        match self {
            Self::Gemini => format!(r#"{{"text":"{text}"}}"#),
            Self::Responses => format!(r#"{{"type":"input_text","text":"{text}"}}"#),
            Self::Chat | Self::Messages => format!(r#"{{"type":"text","text":"{text}"}}"#),
        }
    }

    /// Builds a call and its result, as entries of the list.
    fn call(self, id: usize, text: &str) -> String {
        match self {
            Self::Chat => format!(
                r#"{{"role":"assistant","tool_calls":[{{"id":"c{id}","type":"function","function":{{"name":"f","arguments":"{{\"a\":\"{text}\"}}"}}}}]}},{{"role":"tool","tool_call_id":"c{id}","content":"{text}"}}"#
            ),
            Self::Responses => format!(
                r#"{{"type":"function_call","call_id":"c{id}","name":"f","arguments":"{{\"a\":\"{text}\"}}"}},{{"type":"function_call_output","call_id":"c{id}","output":"{text}"}}"#
            ),
            Self::Messages => format!(
                r#"{{"role":"assistant","content":[{{"type":"tool_use","id":"c{id}","name":"f","input":{{"a":"{text}"}}}}]}},{{"role":"user","content":[{{"type":"tool_result","tool_use_id":"c{id}","content":"{text}"}}]}}"#
            ),
            Self::Gemini => format!(
                r#"{{"role":"model","parts":[{{"functionCall":{{"name":"f","args":{{"a":"{text}"}}}}}}]}},{{"role":"user","parts":[{{"functionResponse":{{"name":"f","response":{{"a":"{text}"}}}}}}]}}"#
            ),
        }
    }

    /// Builds the member that declares a function with this schema.
    fn tools(self, schema: &str) -> String {
        match self {
            Self::Chat => {
                format!(r#","tools":[{{"type":"function","function":{{"name":"f","parameters":{schema}}}}}]"#)
            }
            Self::Responses => {
                format!(r#","tools":[{{"type":"function","name":"f","parameters":{schema}}}]"#)
            }
            Self::Messages => format!(r#","tools":[{{"name":"f","input_schema":{schema}}}]"#),
            Self::Gemini => {
                format!(
                    r#","tools":[{{"functionDeclarations":[{{"name":"f","parametersJsonSchema":{schema}}}]}}]"#
                )
            }
        }
    }
}

impl fmt::Display for Dialect {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.pad(self.name())
    }
}

/// The way in which a request is expensive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// As many parts as are converted.
    Parts,
    /// As many turns as are converted.
    Turns,
    /// As many calls and results as are converted.
    Calls,
    /// A schema of very many numbers: of all JSON, its tree takes the most memory.
    Numbers,
    /// A schema as deep as JSON may be, many times over.
    Deep,
    /// One text in which every character is escaped.
    Escapes,
    /// Far more turns than are converted; refused.
    TooMany,
    /// [`Shape::Numbers`], compressed to a few kilobytes.
    Compressed,
    /// A compressed body that decodes to nothing.
    Hollow,
    /// A body without a Content-Length.
    Chunked,
}

impl Shape {
    pub const ALL: [Self; 10] = [
        Self::Parts,
        Self::Turns,
        Self::Calls,
        Self::Numbers,
        Self::Deep,
        Self::Escapes,
        Self::TooMany,
        Self::Compressed,
        Self::Hollow,
        Self::Chunked,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Self::Parts => "parts",
            Self::Turns => "turns",
            Self::Calls => "calls",
            Self::Numbers => "numbers",
            Self::Deep => "deep",
            Self::Escapes => "escapes",
            Self::TooMany => "too-many",
            Self::Compressed => "compressed",
            Self::Hollow => "hollow",
            Self::Chunked => "chunked",
        }
    }

    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|shape| shape.name() == name)
    }

    /// Builds a whole request, head and body.
    pub fn request(self, dialect: Dialect, model: &str, key: &str) -> io::Result<Vec<u8>> {
        let (body, more) = match self {
            Self::Hollow => (repeated(&gzip(b"")?, LIMIT), "content-encoding: gzip\r\n"),
            Self::Compressed => {
                let numbers = Self::Numbers.body(dialect, model);
                (gzip(numbers.as_bytes())?, "content-encoding: gzip\r\n")
            }
            Self::Chunked => {
                let body = Self::Parts.body(dialect, model);
                let chunk = format!("{:x}\r\n{body}\r\n0\r\n\r\n", body.len());
                (chunk.into_bytes(), "transfer-encoding: chunked\r\n")
            }
            _ => (self.body(dialect, model).into_bytes(), ""),
        };
        let length = match self {
            Self::Chunked => String::new(),
            _ => format!("content-length: {}\r\n", body.len()),
        };
        let head = format!(
            "POST {} HTTP/1.1\r\nhost: bench.test\r\nauthorization: Bearer {key}\r\ncontent-type: application/json\r\n{length}{more}\r\n",
            dialect.path(model)
        );
        Ok([head.as_bytes(), &body].concat())
    }

    fn body(self, dialect: Dialect, model: &str) -> String {
        let room = LIMIT - FRAME;
        let hello = || dialect.turn(&dialect.text("x"));
        match self {
            Self::Parts => {
                let count = PARTS - 10;
                let text = "x".repeat(room / count - dialect.text("").len() - 1);
                dialect.request(model, &dialect.turn(&joined(count, |_| dialect.text(&text))), "")
            }
            Self::Turns => {
                // A turn counts, and so does its part.
                let count = PARTS / 2 - 10;
                let text = "x".repeat(room / count - dialect.turn(&dialect.text("")).len() - 1);
                dialect.request(model, &joined(count, |_| dialect.turn(&dialect.text(&text))), "")
            }
            Self::Calls => {
                let count = PARTS / 4 - 10;
                let text = "x".repeat((room / count - dialect.call(9999, "").len() - 1) / 2);
                let calls = joined(count, |id| dialect.call(id, &text));
                dialect.request(model, &format!("{},{calls}", hello()), "")
            }
            Self::Numbers => {
                let numbers = "1,".repeat(room / 2 - 1) + "1";
                dialect.request(model, &hello(), &dialect.tools(&format!(r#"{{"enum":[{numbers}]}}"#)))
            }
            Self::Deep => {
                let one = "[".repeat(100) + &"]".repeat(100);
                let deep = joined(room / 201, |_| one.clone());
                dialect.request(model, &hello(), &dialect.tools(&format!(r#"{{"enum":[{deep}]}}"#)))
            }
            Self::Escapes => {
                let text = r#"\""#.repeat(room / 2);
                dialect.request(model, &dialect.turn(&dialect.text(&text)), "")
            }
            Self::TooMany => {
                let turn = hello();
                dialect.request(model, &joined(room / (turn.len() + 1), |_| turn.clone()), "")
            }
            Self::Compressed | Self::Hollow | Self::Chunked => String::new(),
        }
    }
}

fn joined(count: usize, part: impl Fn(usize) -> String) -> String {
    (0..count).map(part).collect::<Vec<_>>().join(",")
}

fn repeated(piece: &[u8], limit: usize) -> Vec<u8> {
    piece.repeat(limit / piece.len())
}

/// Compresses with the `gzip` program, which every system has.
fn gzip(data: &[u8]) -> io::Result<Vec<u8>> {
    let mut child =
        Command::new("gzip").args(["-9", "-n", "-c"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    let input = child.stdin.take();
    let data = data.to_owned();
    let feeding = std::thread::spawn(move || input.map_or(Ok(()), |mut input| input.write_all(&data)));
    let packed = child.wait_with_output()?.stdout;
    feeding.join().map_err(|_| io::Error::other("gzip was not fed"))??;
    Ok(packed)
}
