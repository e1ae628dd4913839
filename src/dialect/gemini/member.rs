//! Members of objects. Google's API takes every name in camel case and in snake case.

use crate::dialect::tree::Node;

/// The member of that name, given in camel case, in either spelling; null is none.
pub(in crate::dialect) fn get<'n, 'a>(node: &'n Node<'a>, camel: &str) -> Option<&'n Node<'a>> {
    node.get(camel).or_else(|| {
        let mut members = node.members().iter().rev();
        members
            .find(|(name, _)| is_snake_of(name, camel))
            .map(|(_, node)| node)
            .filter(|node| !node.is_null())
    })
}

/// How the member of that name, given in camel case, is spelled in an object that has it.
pub(in crate::dialect) fn key<'n>(node: &'n Node<'_>, camel: &str) -> Option<&'n str> {
    let is_named = |name: &&str| *name == camel || is_snake_of(name, camel);
    node.members().iter().map(|(name, _)| name.as_ref()).find(is_named)
}

/// Down through objects, in either spelling.
pub(in crate::dialect) fn path<'n, 'a>(node: &'n Node<'a>, camels: &[&str]) -> Option<&'n Node<'a>> {
    camels.iter().try_fold(node, |node, camel| get(node, camel))
}

/// The elements of the list of that name.
pub(in crate::dialect) fn items<'n, 'a>(node: &'n Node<'a>, camel: &str) -> &'n [Node<'a>] {
    get(node, camel).map_or(&[], Node::items)
}

/// Whether a name is that one in snake case.
fn is_snake_of(name: &str, camel: &str) -> bool {
    let mut rest = name.bytes();
    let mut follows = |byte: u8| rest.next() == Some(byte);
    let is_so = |byte: u8| {
        let is_capital = byte.is_ascii_uppercase();
        (!is_capital || follows(b'_')) && follows(byte.to_ascii_lowercase())
    };
    camel.bytes().all(is_so) && rest.next().is_none()
}
