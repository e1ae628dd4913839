//! From one dialect to another: the two halves put together, and what all pairs share.
//!
//! ```text
//! request   read ─▶ names, ids and custom tools fitted to the target ─▶ write
//! answer    read ─▶ names and custom tools of the client restored     ─▶ write
//! ```

use bytes::Bytes;

use super::canonical::{Asked, Event, Reply, Request, Target, Unfit};
use super::tree::Node;
use super::upstream_error::UpstreamError;
use super::{Dialect, chat, gemini, messages, responses};

/// Reads a request.
pub fn read_request<'a>(dialect: Dialect, body: &Node<'a>) -> Result<Request<'a>, Unfit> {
    match dialect {
        Dialect::Chat => chat::read_request(body),
        Dialect::Responses => responses::read_request(body),
        Dialect::Messages => messages::read_request(body),
        Dialect::Gemini => gemini::read_request(body),
        _ => Err(Unfit::unsupported("model")),
    }
}

/// Writes a request.
pub fn write_request(dialect: Dialect, request: &Request<'_>, target: &Target<'_>) -> Result<Bytes, Unfit> {
    match dialect {
        Dialect::Chat => chat::write_request(request, target),
        Dialect::Responses => responses::write_request(request, target),
        Dialect::Messages => messages::write_request(request, target),
        Dialect::Gemini => gemini::write_request(request, target),
        _ => Err(Unfit::unsupported("model")),
    }
}

/// Reads a complete answer.
pub fn read_reply<'a>(dialect: Dialect, body: &Node<'a>) -> Result<Reply<'a>, UpstreamError> {
    match dialect {
        Dialect::Chat => chat::read_reply(body),
        Dialect::Responses => responses::read_reply(body),
        Dialect::Messages => messages::read_reply(body),
        Dialect::Gemini => gemini::read_reply(body),
        _ => Err(UpstreamError::default()),
    }
}

/// Writes a complete answer.
pub fn write_reply(dialect: Dialect, reply: &Reply<'_>, asked: &Asked) -> Bytes {
    match dialect {
        Dialect::Responses => responses::write_reply(reply, asked),
        Dialect::Messages => messages::write_reply(reply, asked),
        Dialect::Gemini => gemini::write_reply(reply, asked),
        _ => chat::write_reply(reply, asked),
    }
}

/// Reads a stream.
#[derive(Debug)]
pub enum Reader {
    Chat(chat::StreamReader),
    Responses(responses::StreamReader),
    Messages(messages::StreamReader),
    Gemini(gemini::StreamReader),
}

impl Reader {
    pub fn new(dialect: Dialect) -> Self {
        match dialect {
            Dialect::Responses => Self::Responses(Default::default()),
            Dialect::Messages => Self::Messages(Default::default()),
            Dialect::Gemini => Self::Gemini(Default::default()),
            _ => Self::Chat(Default::default()),
        }
    }

    pub fn read(&mut self, name: &[u8], data: &str, each: &mut dyn FnMut(Event<'_>)) {
        match self {
            Self::Chat(reader) => reader.read(name, data, each),
            Self::Responses(reader) => reader.read(name, data, each),
            Self::Messages(reader) => reader.read(name, data, each),
            Self::Gemini(reader) => reader.read(name, data, each),
        }
    }

    pub fn close(&mut self, each: &mut dyn FnMut(Event<'_>)) {
        match self {
            Self::Chat(reader) => reader.close(each),
            Self::Responses(reader) => reader.close(each),
            Self::Messages(reader) => reader.close(each),
            Self::Gemini(reader) => reader.close(each),
        }
    }
}

/// Writes a stream.
#[derive(Debug)]
pub enum Writer {
    Chat(chat::StreamWriter),
    Responses(Box<responses::StreamWriter>),
    Messages(messages::StreamWriter),
    Gemini(gemini::StreamWriter),
}

impl Writer {
    pub fn new(dialect: Dialect, asked: &Asked) -> Self {
        match dialect {
            Dialect::Responses => Self::Responses(Box::new(responses::StreamWriter::new(asked))),
            Dialect::Messages => Self::Messages(messages::StreamWriter::new(asked)),
            Dialect::Gemini => Self::Gemini(gemini::StreamWriter::new(asked)),
            _ => Self::Chat(chat::StreamWriter::new(asked)),
        }
    }

    pub fn write(&mut self, event: &Event<'_>, asked: &Asked, out: &mut String) {
        match self {
            Self::Chat(writer) => writer.write(event, asked, out),
            Self::Responses(writer) => writer.write(event, asked, out),
            Self::Messages(writer) => writer.write(event, asked, out),
            Self::Gemini(writer) => writer.write(event, asked, out),
        }
    }
}
