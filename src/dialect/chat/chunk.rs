//! The members that all chunks of a stream share, and the end of the stream. Legacy completions have the same.

use super::usage;
use crate::dialect::canonical::Event;
use crate::dialect::literal::Text;
use crate::dialect::service_tier::ServedTier;
use crate::dialect::usage::Usage;
use crate::dialect::writer::Writer;

/// The beginning of every chunk of a stream, up to the choices.
#[derive(Debug, Default)]
pub(in crate::dialect) struct ChunkHead {
    pub id: Text<'static>,
    pub model: Text<'static>,
    pub created: Option<u64>,
    /// Empty until the first chunk is written.
    text: String,
}

impl ChunkHead {
    /// Takes the id and the name of the model from an event. All chunks have one head: a later name is ignored.
    pub fn read(&mut self, event: &Event<'_>) {
        match event {
            Event::Start { id, model, created } => {
                self.id = id.clone().into_owned();
                self.model = model.clone().into_owned();
                self.created = *created;
            }
            Event::Model(model) if !self.is_built() => self.model = model.clone().into_owned(),
            _ => {}
        }
    }

    pub fn is_built(&self) -> bool {
        !self.text.is_empty()
    }

    /// Builds the head; `members` writes the members before the choices.
    pub fn build(&mut self, members: impl FnOnce(&mut Writer, &Self)) {
        let mut json = Writer::new();
        json.object(|o| members(o, self));
        let members = json.as_str().strip_suffix('}').unwrap_or_default();
        self.text = format!("data: {members},\"choices\":[");
    }

    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Ends a stream whose chunks have this head; usage has a chunk of its own, in which a chat tells the tier as well.
    pub fn conclude(&self, usage: Option<Usage>, tier: Option<ServedTier>, out: &mut String) {
        if let Some(usage) = usage {
            let mut json = Writer::new();
            json.object(|o| {
                o.field_if("service_tier", tier.map(ServedTier::word));
                usage::write(o, &usage);
            });
            let members = json.as_str().strip_prefix('{').unwrap_or_default();
            [self.text.as_str(), "],", members, "\n\n"].iter().for_each(|piece| out.push_str(piece));
        }
        out.push_str("data: [DONE]\n\n");
    }
}

/// Returns the end of a chunk, after its choices. A client that asked for usage gets the member in every chunk, and
/// its value in the last.
pub(in crate::dialect) fn chunk_tail(tells_usage: bool) -> &'static str {
    if tells_usage { "],\"usage\":null}\n\n" } else { "]}\n\n" }
}
