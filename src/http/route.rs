//! An entry of a route table: a method and a path, the authentication, and the handler.
//!
//! Each interface states its table as values, and is itself the `S` that its handlers get. A description of the interface
//! needs no handlers: it uses the [`Endpoint`]s.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use hyper::Method;

use super::router::Router;
use super::{Request, Response};
use crate::metrics::Surface;

/// The authentication that a route asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    Public,
    /// The admin token, after the address allow-list.
    Admin,
    /// A downstream key; checked by the route itself, which knows the format of its errors.
    Proxy,
}

/// The future of a handler's answer.
pub type Answer = Pin<Box<dyn Future<Output = Response> + Send>>;
type Handler<S> = Box<dyn Fn(Arc<S>, Request) -> Answer + Send + Sync>;

/// A method and path, with their authentication and surface.
#[derive(Clone, Debug)]
pub struct Endpoint {
    pub method: Method,
    /// Segments in `{}` are parameters, see [`Router`].
    pub path: &'static str,
    pub access: Access,
    pub surface: Surface,
    /// Whether it is completed even if its client hangs up: a committed change must take effect.
    pub is_change: bool,
}

/// An endpoint and its handler.
pub struct Route<S> {
    endpoint: Endpoint,
    handler: Handler<S>,
}

impl<S> Route<S> {
    pub fn new<H, F>(method: Method, path: &'static str, access: Access, surface: Surface, handler: H) -> Self
    where
        H: Fn(Arc<S>, Request) -> F + Send + Sync + 'static,
        F: Future<Output = Response> + Send + 'static,
    {
        let handler: Handler<S> = Box::new(move |state, request| Box::pin(handler(state, request)));
        let is_change = access == Access::Admin && method != Method::GET;
        Self { endpoint: Endpoint { method, path, access, surface, is_change }, handler }
    }

    /// Makes it a route that changes nothing, whatever its method: it ends when its client hangs up.
    pub fn only_asks(mut self) -> Self {
        self.endpoint.is_change = false;
        self
    }

    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// Passes a request to the handler, without the steps that the service does before.
    pub fn answer(&self, state: Arc<S>, request: Request) -> Answer {
        (self.handler)(state, request)
    }
}

impl<S> Router<Route<S>> {
    /// Builds a router of these routes.
    pub fn of(routes: Vec<Route<S>>) -> Self {
        let mut router = Self::default();
        for route in routes {
            router.add(route.endpoint.method.clone(), route.endpoint.path, route);
        }
        router
    }

    /// Returns the endpoints of all routes.
    pub fn endpoints(&self) -> impl Iterator<Item = &Endpoint> {
        self.values().map(Route::endpoint)
    }
}
