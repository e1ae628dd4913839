//! Finds the handler for a path.
//!
//! A route is a method and a path of segments: literal text, `{name}` for one segment, or `{*name}` for the rest. A
//! request's path is first split at its slashes and then each segment is decoded, so an encoded slash stays inside its
//! segment and `/%61pi/sites` is `/api/sites` here as everywhere. Nothing else is normalised: a dot segment or a doubled
//! slash matches no literal.
//!
//! Paths without a percent sign that match a literal route take one hash look-up. The others are compared one by one: there
//! are about a hundred, most of which differ in their first segments. Of the model calls only Gemini's are among them.
//! Literal routes win over parameters; among parameters, the route added first wins.

use std::borrow::Cow;

use hyper::Method;
use percent_encoding::percent_decode_str;

use super::request::Params;
use crate::fast_map::FastMap;

/// Maps routes to values of `T`.
pub struct Router<T> {
    literal: FastMap<&'static str, usize>,
    paths: Vec<Path<T>>,
}

struct Path<T> {
    segments: Vec<Segment>,
    methods: Vec<(Method, T)>,
}

enum Segment {
    Literal(&'static str),
    One(&'static str),
    Rest(&'static str),
}

/// The result of looking up a path and a method.
pub enum RouteMatch<T> {
    Route(T, Params),
    /// The path exists, but not with this method; holds the value of `Allow`.
    OtherMethods(String),
    Nothing,
}

impl<T> RouteMatch<T> {
    pub fn map<U>(self, change: impl FnOnce(T) -> U) -> RouteMatch<U> {
        match self {
            Self::Route(route, params) => RouteMatch::Route(change(route), params),
            Self::OtherMethods(allow) => RouteMatch::OtherMethods(allow),
            Self::Nothing => RouteMatch::Nothing,
        }
    }
}

impl<T> Default for Router<T> {
    fn default() -> Self {
        Self { literal: FastMap::default(), paths: Vec::new() }
    }
}

impl<T> Router<T> {
    pub fn add(&mut self, method: Method, pattern: &'static str, value: T) {
        let index = match self.literal.get(pattern) {
            Some(index) => *index,
            None => {
                let segments = pattern.split('/').skip(1).map(segment).collect();
                self.paths.push(Path { segments, methods: Vec::new() });
                self.literal.insert(pattern, self.paths.len() - 1);
                self.paths.len() - 1
            }
        };
        self.paths[index].methods.push((method, value));
    }

    /// Finds the route of a raw request path. HEAD is answered by GET.
    pub fn find(&self, method: &Method, raw_path: &str) -> RouteMatch<&T> {
        if let Some(index) = self.literal.get(raw_path).filter(|_| !raw_path.contains(['{', '%'])) {
            return self.paths[*index].pick(method, Params::default());
        }
        let Some(segments) = decode_segments(raw_path) else { return RouteMatch::Nothing };
        let mut captured = None;
        for path in &self.paths {
            if let Some(params) = path.capture(&segments) {
                let literal = params.is_empty();
                if literal || captured.is_none() {
                    captured = Some((path, params));
                }
                if literal {
                    break;
                }
            }
        }
        match captured {
            Some((path, params)) => path.pick(method, Params(params)),
            None => RouteMatch::Nothing,
        }
    }

    /// Returns every value, in the order of the paths.
    pub fn values(&self) -> impl Iterator<Item = &T> {
        self.paths.iter().flat_map(|path| path.methods.iter().map(|(_, value)| value))
    }
}

impl<T> Path<T> {
    fn pick(&self, method: &Method, params: Params) -> RouteMatch<&T> {
        let wanted = if method == Method::HEAD { &Method::GET } else { method };
        if let Some((_, value)) = self.methods.iter().find(|(known, _)| known == wanted) {
            return RouteMatch::Route(value, params);
        }
        let mut allow: Vec<&str> = self.methods.iter().map(|(method, _)| method.as_str()).collect();
        if allow.contains(&"GET") {
            allow.push("HEAD");
        }
        allow.push("OPTIONS");
        RouteMatch::OtherMethods(allow.join(", "))
    }

    fn capture(&self, segments: &[Cow<'_, str>]) -> Option<Vec<(&'static str, String)>> {
        let mut params = Vec::new();
        let mut given = segments.iter();
        for segment in &self.segments {
            match segment {
                Segment::Rest(name) => {
                    let rest: Vec<&str> = given.by_ref().map(AsRef::as_ref).collect();
                    if rest.is_empty() || rest[0].is_empty() {
                        return None;
                    }
                    params.push((*name, rest.join("/")));
                }
                Segment::Literal(text) => {
                    if given.next()? != text {
                        return None;
                    }
                }
                Segment::One(name) => {
                    let value = given.next().filter(|value| !value.is_empty())?;
                    params.push((*name, value.clone().into_owned()));
                }
            }
        }
        given.next().is_none().then_some(params)
    }
}

fn segment(text: &'static str) -> Segment {
    match text.strip_prefix('{').and_then(|inner| inner.strip_suffix('}')) {
        Some(name) => match name.strip_prefix('*') {
            Some(name) => Segment::Rest(name),
            None => Segment::One(name),
        },
        None => Segment::Literal(text),
    }
}

/// Splits a path into decoded segments; `None` when a segment is not UTF-8 after decoding.
fn decode_segments(raw_path: &str) -> Option<Vec<Cow<'_, str>>> {
    raw_path
        .strip_prefix('/')?
        .split('/')
        .map(|segment| percent_decode_str(segment).decode_utf8().ok())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn router() -> Router<&'static str> {
        let mut router = Router::default();
        router.add(Method::GET, "/api/sites", "list");
        router.add(Method::POST, "/api/sites", "create");
        router.add(Method::PUT, "/api/sites/{id}", "update");
        router.add(Method::POST, "/api/sites/batch", "batch");
        router.add(Method::GET, "/v1/models/{*model}", "model");
        router
    }

    fn find(method: Method, path: &str) -> String {
        match router().find(&method, path) {
            RouteMatch::Route(value, params) => {
                format!("{value} {}{}", params.get("id"), params.get("model"))
            }
            RouteMatch::OtherMethods(allow) => format!("allow {allow}"),
            RouteMatch::Nothing => "nothing".to_owned(),
        }
    }

    #[test]
    fn paths_lead_to_routes() {
        for (method, path, expected) in [
            (Method::GET, "/api/sites", "list "),
            (Method::HEAD, "/api/sites", "list "),
            (Method::GET, "/%61pi/sites", "list "),
            (Method::PUT, "/api/sites/7", "update 7"),
            (Method::PUT, "/api/sites/a%2Fb", "update a/b"),
            (Method::POST, "/api/sites/batch", "batch "),
            (Method::PUT, "/api/sites/batch", "allow POST, OPTIONS"),
            (Method::DELETE, "/api/sites", "allow GET, POST, HEAD, OPTIONS"),
            (Method::GET, "/v1/models/openai/gpt-4o", "model openai/gpt-4o"),
            (Method::GET, "/v1/models/openai%2Fgpt-4o", "model openai/gpt-4o"),
            (Method::GET, "/api/sites/", "nothing"),
            (Method::GET, "/api//sites", "nothing"),
            (Method::GET, "/api/x/../sites", "nothing"),
            (Method::GET, "/api/%2e%2e/api/sites", "nothing"),
            (Method::GET, "/api%2Fsites", "nothing"),
            (Method::GET, "/api/sites/{id}", "allow PUT, OPTIONS"),
            (Method::GET, "/%ff", "nothing"),
            (Method::GET, "*", "nothing"),
        ] {
            assert_eq!(find(method.clone(), path), expected, "{method} {path}");
        }
    }
}
