//! Members that are collected from the events of a stream, for the object they belong to in the end.

use super::literal::Json;
use super::tree::Node;
use super::writer::Writer;

/// The most members that are kept: no object of a dialect has as many, and those that an upstream invents beyond are
/// left out, since every name is searched for among those before it.
pub(super) const MAX_MEMBERS: usize = 256;

/// Names and JSON values, in the order in which they came; each name once.
#[derive(Debug, Default)]
pub(super) struct Members(Vec<(String, String)>);

impl Members {
    /// Returns the value of this name.
    pub(super) fn get(&self, key: &str) -> Option<&str> {
        self.iter().find(|(known, _)| *known == key).map(|(_, value)| value)
    }

    /// Sets the value of a name; it replaces an earlier one.
    pub(super) fn set(&mut self, key: &str, value: &str) {
        if let Some(known) = self.entry(key) {
            value.clone_into(known);
        }
    }

    /// Adds the elements of a list to those that have come under this name.
    pub(super) fn lengthen(&mut self, key: &str, list: &Node<'_>) {
        if let Some(known) = self.entry(key) {
            lengthen(known, list);
        }
    }

    /// Adds the members of an object to those that have come; for the names in `in_pieces`, text is appended to the
    /// earlier text.
    pub(super) fn merge(&mut self, object: &Node<'_>, in_pieces: &[&str]) {
        for (key, value) in object.members() {
            let Some(known) = self.entry(key) else { return };
            match value.text() {
                Some(more) if known.starts_with('"') && in_pieces.contains(&key.as_ref()) => {
                    known.pop();
                    known.extend([more.literal(), "\""]);
                }
                _ => value.raw().clone_into(known),
            }
        }
    }

    /// Returns the value of this name, or room for one; `None` when there is no more room.
    fn entry(&mut self, key: &str) -> Option<&mut String> {
        let known = self.0.iter().position(|(known, _)| known == key);
        let at = known.unwrap_or(self.0.len());
        if at == self.0.len() && at < MAX_MEMBERS {
            self.0.push((key.to_owned(), String::new()));
        }
        self.0.get_mut(at).map(|(_, value)| value)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(key, value)| (key.as_str(), value.as_str()))
    }

    /// Writes the members into an object.
    pub(super) fn put(&self, o: &mut Writer) {
        self.iter().for_each(|(key, value)| o.field(key, Json::checked(value)));
    }

    /// Returns an object of only these members.
    pub(super) fn object(&self) -> String {
        let mut json = Writer::new();
        json.object(|o| self.put(o));
        json.into_string()
    }
}

/// Appends the elements of a list to one that was built this way; any other value is replaced. The elements before are
/// not read again: a list may come in a hundred thousand pieces.
pub(super) fn lengthen(known: &mut String, list: &Node<'_>) {
    if !known.starts_with('[') {
        "[]".clone_into(known);
    }
    known.pop();
    for item in list.items() {
        let comma = if known.len() > 1 { "," } else { "" };
        known.extend([comma, item.raw()]);
    }
    known.push(']');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_without_end_are_left_out() {
        let mut members = Members::default();
        for number in 0..2 * MAX_MEMBERS {
            members.set(&number.to_string(), "1");
        }
        members.set("0", "2");
        assert_eq!(members.iter().count(), MAX_MEMBERS);
        assert_eq!((members.get("0"), members.get(&MAX_MEMBERS.to_string())), (Some("2"), None));
    }
}
