//! Gemini's own surface, whose paths name the model and the action.
//!
//! | file | what it holds |
//! |---|---|
//! | `generate` | the calls of models |
//! | `array_stream` | streams without events: one JSON array, piece by piece |
//! | `cli_envelope` | the envelope of the Gemini CLI and its streams |

mod array_stream;
mod cli_envelope;
mod generate;

pub(super) use generate::{call, call_of_cli};
