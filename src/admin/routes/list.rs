//! `GET /api/routes` and `GET /api/routes/summary`: the routes by ascending id, all of them or a page (`limit`,
//! `offset`); `X-Total-Count` is the number of routes.
//!
//! A long list is read and written in portions as the client takes it: the whole list, with its rows, would take a
//! hundred times the memory of a portion.

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
use crate::admin::bucket;
use crate::admin::errors::{AdminError, Result};
use crate::admin::guard;
use crate::admin::paging::{self, Page};
use crate::http::body::Truncated;
use crate::http::{self, Request, Response, ResponseBody};
use crate::ids::RouteId;
use crate::store::names::Names;
use crate::store::routes::RouteRow;

/// The number of channels after which a portion ends.
const CHANNELS: usize = 500;
/// Maximum number of routes in a portion.
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

/// A function that appends one route to the text.
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
    // An error can only be returned as long as no part of the list was sent.
    let first = portions.next().await?;
    let mut response = if portions.is_ended {
        http::json_bytes(StatusCode::OK, first)
    } else {
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
                    log::warn!("a list of routes was cut off: {}", error.message());
                    Truncated("the rest of the list could not be read")
                });
                Some((frame, (portions, None)))
            },
        )));
        response
    };
    paging::tell_total(&mut response, snapshot.routes().len());
    Ok(response)
}

/// The remaining portions of a list.
struct Portions {
    admin: Arc<Admin>,
    /// The remaining routes, with the number of their channels.
    ids: IntoIter<(RouteId, usize)>,
    write: WriteRoute,
    /// The names that earlier portions have read: the accounts of one route often serve others too.
    names: Names,
    written: usize,
    is_ended: bool,
}

impl Portions {
    /// Returns the JSON text of the next few routes.
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
