//! Events of a WebSocket's turns that come from us, not from an upstream.

use crate::dialect::canonical::ReplyContext;
use crate::dialect::literal::Text;
use crate::dialect::tree::Node;
use crate::dialect::usage::Usage;
use crate::dialect::writer::Writer;

use super::answer::Head;
use super::echo;
use super::status::Status;

/// Returns the events that answer a request which is only kept for the next one (`generate: false`): the beginning
/// and the end of an answer without output. `now` is in seconds since 1970.
pub fn warm_up(request: &Node<'_>, id: &str, now: u64) -> [String; 2] {
    let of = SyntheticAnswer { request, id, now };
    let usage = Usage::default();
    [
        of.event("response.created", 0, Status::InProgress, &[], None),
        of.event("response.completed", 1, Status::Completed, &[], Some(&usage)),
    ]
}

/// Returns the event that ends an answer which the client has cancelled: incomplete, with the items (JSON objects)
/// that were done by then.
pub fn cancelled_turn(request: &Node<'_>, id: &str, items: &[&str], sequence: u64, now: u64) -> String {
    let of = SyntheticAnswer { request, id, now };
    of.event("response.incomplete", sequence, Status::Incomplete("cancelled"), items, None)
}

/// The answer that the events belong to.
struct SyntheticAnswer<'r, 'a> {
    request: &'r Node<'a>,
    id: &'r str,
    now: u64,
}

impl SyntheticAnswer<'_, '_> {
    fn event(
        &self,
        kind: &str,
        sequence: u64,
        status: Status<'_>,
        items: &[&str],
        usage: Option<&Usage>,
    ) -> String {
        let context = ReplyContext { echo: echo(self.request), now: self.now, ..ReplyContext::default() };
        let model = self.request.text_at("model").unwrap_or(Text::EMPTY);
        let head = Head::new(&Text::of(self.id), &model, None, &context);
        let output = |list: &mut Writer| {
            items.iter().filter_map(|item| Node::parse(item).ok()).for_each(|item| list.item(item.json()));
        };
        let mut json = Writer::with_capacity(2048);
        json.object(|o| {
            o.field("type", kind);
            o.field("sequence_number", sequence);
            o.object_at("response", |o| head.put(o, status, output, usage, &context));
        });
        json.into_string()
    }
}
