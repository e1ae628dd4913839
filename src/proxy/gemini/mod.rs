//! Gemini's own surface, whose paths name the model and what is to be done.
//!
//! | file | what it has |
//! |---|---|
//! | `generate` | the calls of models |
//! | `array_stream` | streams without events: one JSON array, piece by piece |
//! | `cli_envelope` | the envelope in which Gemini CLI asks, and its streams |

mod array_stream;
mod cli_envelope;
mod generate;

pub(super) use generate::{call, call_of_cli};
