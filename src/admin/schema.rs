//! Descriptions of the API as plain data: the purpose, request and response of each route.
//!
//! A resource describes its routes beside their handlers (`OPERATIONS` in its `schema.rs`, or at the end of its only
//! file); [`super::openapi`] makes one document of them. The descriptions also serve to read requests:
//! [`super::input::Fields`] takes the members of a body from them. The tests in `tests/` check every response against
//! the document.

use std::collections::HashSet;

/// The type of a JSON value.
#[derive(Clone, Copy, Debug)]
pub enum Shape {
    Any,
    Text,
    /// ISO 8601 in UTC with milliseconds.
    Time,
    /// A positive integer.
    Id,
    Integer,
    /// A non-negative integer.
    Count,
    Number,
    Boolean,
    /// Only this one of the two booleans.
    Is(bool),
    /// One of these texts.
    OneOf(&'static [&'static str]),
    OrNull(&'static Shape),
    List(&'static Shape),
    /// An object whose member names are data.
    Map(&'static Shape),
    /// An object that has a description.
    Of(&'static Object),
    Either(&'static [Shape]),
}

/// A JSON object with known members.
#[derive(Debug)]
pub struct Object {
    /// The name in the document; unique.
    pub name: &'static str,
    /// Objects whose members belong to this one too.
    pub includes: &'static [&'static Object],
    pub members: &'static [Member],
    /// Members derived from another table.
    listed: Option<Listed>,
    /// Whether it may have members that are not described.
    pub is_open: bool,
}

/// Members with their names.
pub type Members = Vec<(String, Member)>;
type Listed = fn() -> Members;

/// A member of an object, or a query parameter.
#[derive(Clone, Copy, Debug)]
pub struct Member {
    pub name: &'static str,
    pub shape: Shape,
    pub is_required: bool,
    /// An explanation, where the name is not enough.
    pub about: &'static str,
}

/// The description of one route.
#[derive(Debug)]
pub struct Operation {
    /// The method, a blank, and the path as OpenAPI writes it.
    pub route: &'static str,
    pub summary: &'static str,
    pub query: &'static [Member],
    pub headers: &'static [Member],
    pub body: Option<&'static Object>,
    /// The media types that the body may have; its members are the same in each.
    pub media: &'static [&'static str],
    /// Whether the body may also be a binary file.
    pub takes_file: bool,
    /// The response of status 200.
    pub gives: Option<Answer>,
    /// Responses of other statuses, or of a class of them (`4XX`), that do not have the usual form of a refusal.
    pub also: &'static [(&'static str, Answer)],
    /// Statuses of refusals that this route has beyond those that all routes of its kind have.
    pub refusals: &'static [u16],
}

/// The body of a response.
#[derive(Clone, Copy, Debug)]
pub enum Answer {
    Json(Shape),
    /// JSON, or one of these media types if the request asks for that.
    JsonOr(Shape, &'static [&'static str]),
    /// Server-sent events.
    Events,
    /// Any other media type.
    Text(&'static str),
}

pub const JSON: &str = "application/json";
pub const FORM: &str = "multipart/form-data";
pub const FILE: &str = "application/octet-stream";

/// The body of a success that has nothing else to report.
pub static DONE: Object = Object::new("Done", &[has("success", Shape::Is(true))]);

// === impl Shape ===

impl Shape {
    /// Describes the expected value in the words of a refusal.
    pub fn in_words(self) -> String {
        match self {
            Self::Text => "string".to_owned(),
            Self::Id => "positive integer".to_owned(),
            Self::Count => "non-negative integer".to_owned(),
            Self::Integer => "integer".to_owned(),
            Self::Number => "number".to_owned(),
            Self::Boolean => "boolean".to_owned(),
            Self::OneOf([others @ .., last]) if !others.is_empty() => {
                format!("{} or {last}", others.join(", "))
            }
            Self::OneOf(texts) => texts.join(""),
            Self::OrNull(shape) => format!("{} or null", shape.in_words()),
            Self::Of(_) | Self::Map(_) => "object".to_owned(),
            Self::List(_) => "array".to_owned(),
            Self::Any | Self::Time | Self::Is(_) | Self::Either(_) => "another value".to_owned(),
        }
    }
}

// === impl Object ===

impl Object {
    pub const fn new(name: &'static str, members: &'static [Member]) -> Self {
        Self { name, includes: &[], members, listed: None, is_open: false }
    }

    /// Describes an object that also has the members of other objects.
    pub const fn with(
        name: &'static str,
        includes: &'static [&'static Self],
        members: &'static [Member],
    ) -> Self {
        Self { name, includes, members, listed: None, is_open: false }
    }

    /// Describes an object that may have more members than these.
    pub const fn open(name: &'static str, members: &'static [Member]) -> Self {
        Self { name, includes: &[], members, listed: None, is_open: true }
    }

    /// Describes an object whose members are derived from another table.
    pub const fn listed(name: &'static str, listed: Listed) -> Self {
        Self { name, includes: &[], members: &[], listed: Some(listed), is_open: false }
    }

    /// Returns a member's type; `None` if the member is not described.
    pub fn shape(&self, name: &str) -> Option<Shape> {
        let own = self.members.iter().find(|member| member.name == name).map(|member| member.shape);
        let included = || self.includes.iter().find_map(|object| object.shape(name));
        let listed = || self.listed?().into_iter().find(|(known, _)| known == name).map(|(_, m)| m.shape);
        own.or_else(included).or_else(listed)
    }

    /// Returns all members by name, those of included objects first.
    pub fn all_members(&self) -> Members {
        let included = self.includes.iter().flat_map(|object| object.all_members());
        included.chain(self.own_members()).collect()
    }

    /// Returns the included objects of which no member is described again, and all other members by name.
    pub fn parts(&self) -> (Vec<&'static Self>, Members) {
        let (mut whole, mut members) = (Vec::new(), self.own_members());
        let mut known: HashSet<String> = members.iter().map(|(name, _)| name.clone()).collect();
        for object in self.includes {
            let included = object.all_members();
            if included.iter().any(|(name, _)| known.contains(name)) {
                let is_new = |(name, _): &(String, Member)| !known.contains(name);
                members.extend(included.into_iter().filter(is_new));
            } else {
                known.extend(included.into_iter().map(|(name, _)| name));
                whole.push(*object);
            }
        }
        (whole, members)
    }

    fn own_members(&self) -> Members {
        let own = self.members.iter().map(|member| (member.name.to_owned(), *member));
        own.chain(self.listed.map(|listed| listed()).unwrap_or_default()).collect()
    }
}

// === impl Member ===

/// Describes a member that is always present.
pub const fn has(name: &'static str, shape: Shape) -> Member {
    Member { name, shape, is_required: true, about: "" }
}

/// Describes a member that may be absent.
pub const fn may(name: &'static str, shape: Shape) -> Member {
    Member { name, shape, is_required: false, about: "" }
}

impl Member {
    pub const fn about(self, about: &'static str) -> Self {
        Self { about, ..self }
    }
}

// === impl Operation ===

pub const fn op(route: &'static str, summary: &'static str) -> Operation {
    Operation {
        route,
        summary,
        query: &[],
        headers: &[],
        body: None,
        media: &[JSON],
        takes_file: false,
        gives: None,
        also: &[],
        refusals: &[],
    }
}

impl Operation {
    pub const fn asks(self, query: &'static [Member]) -> Self {
        Self { query, ..self }
    }

    pub const fn reads(self, headers: &'static [Member]) -> Self {
        Self { headers, ..self }
    }

    pub const fn or_file(self) -> Self {
        Self { takes_file: true, ..self }
    }

    pub const fn takes(self, body: &'static Object) -> Self {
        Self { body: Some(body), ..self }
    }

    pub const fn gives(self, shape: Shape) -> Self {
        Self { gives: Some(Answer::Json(shape)), ..self }
    }

    pub const fn in_media(self, media: &'static [&'static str]) -> Self {
        Self { media, ..self }
    }

    pub const fn gives_or(self, shape: Shape, media: &'static [&'static str]) -> Self {
        Self { gives: Some(Answer::JsonOr(shape, media)), ..self }
    }

    pub const fn streams(self) -> Self {
        Self { gives: Some(Answer::Events), ..self }
    }

    pub const fn writes(self, media_type: &'static str) -> Self {
        Self { gives: Some(Answer::Text(media_type)), ..self }
    }

    pub const fn also(self, also: &'static [(&'static str, Answer)]) -> Self {
        Self { also, ..self }
    }

    pub const fn refuses(self, refusals: &'static [u16]) -> Self {
        Self { refusals, ..self }
    }
}
