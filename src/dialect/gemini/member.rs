//! Finds members of objects. Google's API accepts every name in camel case and in snake case, and numbers as strings too
//! (<https://protobuf.dev/programming-guides/json/>).

use crate::dialect::literal::Json;
use crate::dialect::tree::Node;

/// Returns the member whose name is given in camel case, in either spelling; `None` when it is null.
pub(in crate::dialect) fn get<'n, 'a>(node: &'n Node<'a>, camel: &str) -> Option<&'n Node<'a>> {
    node.get(camel).or_else(|| {
        let mut members = node.members().iter().rev();
        members
            .find(|(name, _)| is_snake_of(name, camel))
            .map(|(_, node)| node)
            .filter(|node| !node.is_null())
    })
}

/// Returns the spelling that an object has for the member whose name is given in camel case.
pub(in crate::dialect) fn key<'n>(node: &'n Node<'_>, camel: &str) -> Option<&'n str> {
    let is_named = |name: &&str| *name == camel || is_snake_of(name, camel);
    node.members().iter().map(|(name, _)| name.as_ref()).find(is_named)
}

/// Follows a path of names through objects, in either spelling.
pub(in crate::dialect) fn path<'n, 'a>(node: &'n Node<'a>, camels: &[&str]) -> Option<&'n Node<'a>> {
    camels.iter().try_fold(node, |node, camel| get(node, camel))
}

/// Reads a number that is not negative as an integer.
pub(in crate::dialect) fn count(node: &Node<'_>) -> Option<u64> {
    node.u64().or_else(|| node.str()?.trim().parse().ok())
}

/// Reads a number.
pub(in crate::dialect) fn number<'a>(node: &Node<'a>) -> Option<Json<'a>> {
    if node.f64().is_some() {
        return Some(node.json());
    }
    let number: serde_json::Number = node.str()?.trim().parse().ok()?;
    Some(Json::of(&number.into()))
}

/// Returns the elements of the list with that name.
pub(in crate::dialect) fn items<'n, 'a>(node: &'n Node<'a>, camel: &str) -> &'n [Node<'a>] {
    get(node, camel).map_or(&[], Node::items)
}

/// Returns whether a name is the snake case form of `camel`.
fn is_snake_of(name: &str, camel: &str) -> bool {
    let mut rest = name.bytes();
    let mut follows = |byte: u8| rest.next() == Some(byte);
    let is_so = |byte: u8| {
        let is_capital = byte.is_ascii_uppercase();
        (!is_capital || follows(b'_')) && follows(byte.to_ascii_lowercase())
    };
    camel.bytes().all(is_so) && rest.next().is_none()
}
