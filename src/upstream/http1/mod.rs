//! HTTP/1.1 as a client speaks it (RFC 9112): parses the head of an answer, finds the end of its body, and writes the
//! head of a request. Pure: [`super::connection`] does the input and output.
//!
//! Written here because every request passes through it and only one exchange at a time is needed: there are no
//! channels between the connection, the exchange and the body, and a header is looked at once.

mod framing;
mod head;
mod headers;

pub use framing::{Framing, FramingError, FramingStep};
pub use head::{AnswerHead, HeadError, parse_answer, parse_answer_to_head, write_request};
pub use headers::AnswerHeaders;
