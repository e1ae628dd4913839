mod answers;
mod requests;
mod streams;

use serde_json::Value;

use crate::dialect::canonical::{ConversionError, ReplyContext, Request, Target, Vendor};
use crate::dialect::tree::Node;

/// Reads a request and writes it again for a model.
fn through(body: &Value, model: &str) -> Result<Value, ConversionError> {
    let body = body.to_string();
    let node = Node::parse(&body).unwrap();
    written(&super::read_request(&node)?, model)
}

fn written(request: &Request<'_>, model: &str) -> Result<Value, ConversionError> {
    let target = Target { model, stream: false, vendor: Vendor::Gemini };
    super::write_request(request, &target).map(|body| serde_json::from_slice(&body).unwrap())
}

fn read<T>(body: &Value, look: impl FnOnce(Request<'_>) -> T) -> T {
    let body = body.to_string();
    let node = Node::parse(&body).unwrap();
    look(super::read_request(&node).unwrap())
}

fn context() -> ReplyContext {
    ReplyContext { now: 7, fallback_id: "r1".to_owned(), ..ReplyContext::default() }
}
