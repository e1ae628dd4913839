//! The headers of an answer, as they came. A few are looked up, fewer are handed on, and most are ignored: so they are
//! kept as text with the position of each, and no name is interned or hashed.

use std::fmt;
use std::ops::Range;

use hyper::http::header::{HeaderMap, HeaderName, HeaderValue};

use crate::subslice::place_in;

/// The headers of an answer. Names are looked up without regard to case, and returned as they came.
#[derive(Clone, Default)]
pub struct AnswerHeaders {
    /// The bytes from the first name to the last value.
    text: Box<[u8]>,
    places: Vec<HeaderPlace>,
}

/// The position of a header in the text.
#[derive(Clone, Debug)]
struct HeaderPlace {
    name: Range<u32>,
    value: Range<u32>,
}

impl AnswerHeaders {
    /// Builds the headers of a head that was parsed out of `input`. Copies their text: the next read may overwrite
    /// `input`.
    pub(super) fn new(input: &[u8], parsed: &[httparse::Header<'_>]) -> Self {
        // The value of a header without one may be an empty slice outside of the input.
        let place = |part: &[u8]| place_in(part, input).unwrap_or_default();
        let (Some(first), Some(last)) = (parsed.first(), parsed.last()) else { return Self::default() };
        let begin = place(first.name.as_bytes()).start;
        let end = place(last.name.as_bytes()).end.max(place(last.value).end);
        let within = |part: &[u8]| {
            let Range { start, end } = place(part);
            // A head is too short to need more than 32 bits.
            start.saturating_sub(begin) as u32..end.saturating_sub(begin) as u32
        };
        let places = parsed
            .iter()
            .map(|header| HeaderPlace { name: within(header.name.as_bytes()), value: within(header.value) })
            .collect();
        Self { text: input[begin..end].into(), places }
    }

    /// Returns every header, in the order in which they came.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.places.iter().map(|place| (self.part(&place.name), self.part(&place.value)))
    }

    /// Returns the value of the first header of this name.
    pub fn get(&self, name: &HeaderName) -> Option<&[u8]> {
        self.get_all(name).next()
    }

    /// Returns the values of all headers of this name.
    pub fn get_all(&self, name: &HeaderName) -> impl Iterator<Item = &[u8]> {
        let wanted = name.as_str().as_bytes();
        // Most names differ in length, which is cheap to compare.
        let is_wanted = move |place: &&HeaderPlace| {
            place.name.len() == wanted.len() && self.part(&place.name).eq_ignore_ascii_case(wanted)
        };
        self.places.iter().filter(is_wanted).map(|place| self.part(&place.value))
    }

    /// Returns the first value of this name in a form that can be handed on.
    pub fn value(&self, name: &HeaderName) -> Option<HeaderValue> {
        HeaderValue::from_bytes(self.get(name)?).ok()
    }

    pub fn contains(&self, name: &HeaderName) -> bool {
        self.get(name).is_some()
    }

    /// Removes every header of this name.
    pub fn remove(&mut self, name: &HeaderName) {
        let (text, wanted) = (&self.text, name.as_str().as_bytes());
        self.places.retain(|place| !part(text, &place.name).eq_ignore_ascii_case(wanted));
    }

    /// Converts to a `HeaderMap`; skips names and values that are not valid there.
    pub fn to_map(&self) -> HeaderMap {
        let both =
            |(name, value)| Some((HeaderName::from_bytes(name).ok()?, HeaderValue::from_bytes(value).ok()?));
        let mut map = HeaderMap::with_capacity(self.places.len());
        for (name, value) in self.iter().filter_map(both) {
            map.append(name, value);
        }
        map
    }

    fn part(&self, place: &Range<u32>) -> &[u8] {
        part(&self.text, place)
    }
}

/// Shows no values: a credential may be among them.
impl fmt::Debug for AnswerHeaders {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter().map(|(name, _)| String::from_utf8_lossy(name))).finish()
    }
}

fn part<'a>(text: &'a [u8], place: &Range<u32>) -> &'a [u8] {
    text.get(place.start as usize..place.end as usize).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use hyper::http::header::{CONTENT_TYPE, DATE, HeaderValue, SET_COOKIE};

    use super::super::parse_answer;

    #[test]
    fn a_name_is_found_in_any_case_and_values_stay_as_they_came() {
        let text = "HTTP/1.1 200 OK\r\nSet-Cookie: a\r\nCONTENT-TYPE: Text/Plain\r\nset-cookie: b\r\nX-None:\r\n\r\n";
        let (head, _) = parse_answer(text.as_bytes()).expect("a head").expect("a whole head");
        let mut headers = head.headers;
        assert_eq!(headers.get(&CONTENT_TYPE), Some(b"Text/Plain".as_slice()));
        assert_eq!(headers.value(&CONTENT_TYPE), Some(HeaderValue::from_static("Text/Plain")));
        assert_eq!(headers.get_all(&SET_COOKIE).collect::<Vec<_>>(), [b"a", b"b"]);
        assert!(!headers.contains(&DATE));
        let map = headers.to_map();
        assert_eq!((map.len(), map.get_all(SET_COOKIE).iter().count()), (4, 2));
        assert_eq!(map["x-none"], "");
        headers.remove(&SET_COOKIE);
        assert!(!headers.contains(&SET_COOKIE));
        assert_eq!(headers.iter().count(), 2);
    }

    #[test]
    fn a_head_may_have_no_headers() {
        let (head, _) = parse_answer(b"HTTP/1.1 200 OK\r\n\r\n").expect("a head").expect("a whole head");
        assert_eq!(head.headers.iter().count(), 0);
        assert!(head.headers.to_map().is_empty());
    }
}
