//! `GET /api/routes` and `GET /api/routes/summary`: the routes by ascending id, all of them or a page
//! (`limit`, `offset`); `X-Total-Count` says how many there are.
//!
//! A list of many channels is read and written a portion at a time, as the client takes it: whole, with its rows, it
//! would take a hundred times the memory of a portion.

use std::mem;
use std::sync::Arc;
use std::vec::IntoIter;

use bytes::Bytes;
use futures_util::stream;
use http_body::Frame;
use http_body_util::StreamBody;
use hyper::StatusCode;
use serde::Serialize;

use super::view::{ListedRoute, RouteIndex, RouteSummary};
use crate::admin::Admin;
use crate::admin::errors::{AdminError, Result};
use crate::admin::guard;
use crate::admin::paging::{self, Page};
use crate::http::body::Truncated;
use crate::http::{self, Request, Response, ResponseBody};
use crate::ids::RouteId;
use crate::limits::bucket;
use crate::store::names::Names;
use crate::store::routes::RouteRow;

/// A portion ends with this many channels.
const CHANNELS: usize = 500;
/// A portion ends with this many routes.
const ROUTES: usize = 100;

/// `GET /api/routes`
pub async fn list(admin: Arc<Admin>, request: Request) -> Result<Response> {
    guard(&admin, &request, &bucket::ROUTES_READ)?;
    answer(admin, &request, |admin, index, row, text| write(text, &ListedRoute::new(admin, index, row))).await
}

/// `GET /api/routes/summary`
pub async fn summary(admin: Arc<Admin>, request: Request) -> Result<Response> {
    guard(&admin, &request, &bucket::ROUTES_SUMMARY_READ)?;
    answer(admin, &request, |admin, index, row, text| write(text, &RouteSummary::new(admin, index, row)))
        .await
}

/// Writes one route behind what is there.
type WriteRoute = fn(&Admin, &RouteIndex, &RouteRow, &mut Vec<u8>) -> serde_json::Result<()>;

fn write(text: &mut Vec<u8>, route: &impl Serialize) -> serde_json::Result<()> {
    serde_json::to_writer(text, route)
}

async fn answer(admin: Arc<Admin>, request: &Request, write: WriteRoute) -> Result<Response> {
    let page = Page::of(&request.query);
    let snapshot = admin.core.snapshot.load_full();
    let routes = snapshot.routes().iter().skip(page.offset()).take(page.limit());
    let ids: Vec<_> = routes.map(|route| (route.id, route.channels.len())).collect();
    let mut portions =
        Portions { admin, ids: ids.into_iter(), write, names: Names::default(), written: 0, is_ended: false };
    // A list that cannot be read is an answer of its own as long as nothing of it was sent.
    let first = portions.next().await?;
    let mut response = match portions.is_ended {
        true => http::json_bytes(StatusCode::OK, first),
        false => {
            let mut response = http::json_bytes(StatusCode::OK, Bytes::new());
            *response.body_mut() = ResponseBody::stream(StreamBody::new(stream::unfold(
                (portions, Some(first)),
                |(mut portions, ready)| async move {
                    let portion = match ready {
                        Some(first) => Ok(first),
                        None if portions.is_ended => return None,
                        None => portions.next().await,
                    };
                    let frame = portion.map(Frame::data).map_err(|error| {
                        portions.is_ended = true;
                        log::warn!("a list of routes ends early: {}", error.message());
                        Truncated("the list could not be read to its end")
                    });
                    Some((frame, (portions, None)))
                },
            )));
            response
        }
    };
    paging::tell_total(&mut response, snapshot.routes().len());
    Ok(response)
}

/// The rest of a list.
struct Portions {
    admin: Arc<Admin>,
    /// Routes with the number of their channels.
    ids: IntoIter<(RouteId, usize)>,
    write: WriteRoute,
    /// What earlier portions have shown: the channels of one route are through the accounts of another.
    names: Names,
    written: usize,
    is_ended: bool,
}

impl Portions {
    /// The text of the next few routes.
    async fn next(&mut self) -> Result<Bytes> {
        let (mut ids, mut channels) = (Vec::new(), 0);
        while ids.len() < ROUTES
            && channels < CHANNELS
            && let Some((id, count)) = self.ids.next()
        {
            ids.push(id);
            channels += count;
        }
        let known = mem::take(&mut self.names);
        let index = RouteIndex::listing(&self.admin.core.store, &ids, known).await?;
        let mut text = Vec::new();
        for row in ids.iter().filter_map(|id| index.route(*id)) {
            text.push(if self.written == 0 { b'[' } else { b',' });
            self.written += 1;
            (self.write)(&self.admin, &index, row, &mut text)
                .map_err(|error| AdminError::internal("writing a list of routes", error))?;
        }
        self.names = index.into_names();
        self.is_ended = self.ids.as_slice().is_empty();
        if self.is_ended {
            text.extend_from_slice(if self.written == 0 { b"[]" } else { b"]" });
        }
        Ok(Bytes::from(text))
    }
}
