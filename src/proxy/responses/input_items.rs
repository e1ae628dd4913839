//! A page of the input items of a stored request, as `GET /v1/responses/{id}/input_items` tells them.

use hyper::StatusCode;

use super::turns::StoredTurn;
use crate::dialect::responses::input_items;
use crate::dialect::tree::Node;
use crate::dialect::writer::Writer;
use crate::http::{self, Request, Response};
use crate::proxy::reply::ErrorShape;

/// The number of items on a page, and the most that a client may ask for, as OpenAI has them.
const USUAL_ITEMS: usize = 20;
const MAX_ITEMS: usize = 100;

/// Builds the page that the query asks for.
pub(super) fn page(turn: &StoredTurn, request: &Request, shape: ErrorShape) -> Response {
    let query = &request.query;
    let limit = match query.get("limit").map(|limit| limit.parse::<usize>()) {
        None => USUAL_ITEMS,
        Some(Ok(limit @ 1..=MAX_ITEMS)) => limit,
        Some(_) => {
            let message = "limit must be a whole number from 1 to 100";
            return shape.refuse(400, message, None, Some("limit"));
        }
    };
    let stored = std::str::from_utf8(&turn.request).ok().and_then(|text| Node::parse(text).ok());
    let mut items =
        stored.as_ref().map(|stored| input_items(stored, request.params.get("id"))).unwrap_or_default();
    match query.get("order").as_deref() {
        Some("asc") => {}
        None | Some("desc") => items.reverse(),
        Some(_) => return shape.refuse(400, "order must be asc or desc", None, Some("order")),
    }
    if let Some(after) = query.get("after") {
        let known = items.iter().position(|item| item.id == after);
        let Some(at) = known else {
            return shape.refuse(400, "after must be the id of an item", None, Some("after"));
        };
        items.drain(..=at);
    }
    let has_more = items.len() > limit;
    items.truncate(limit);
    let mut page = Writer::new();
    page.object(|o| {
        o.field("object", "list");
        o.array("data", |a| items.iter().for_each(|item| a.item(&item.json)));
        o.field("first_id", items.first().map(|item| &item.id));
        o.field("last_id", items.last().map(|item| &item.id));
        o.field("has_more", has_more);
    });
    http::json_bytes(StatusCode::OK, page.into_bytes())
}
