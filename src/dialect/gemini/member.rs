//! Members of objects. Google's API takes every name in camel case and in snake case.

use crate::dialect::tree::Node;

/// The member of that name, given in camel case, in either spelling; null is none.
pub(in crate::dialect) fn get<'n, 'a>(node: &'n Node<'a>, camel: &str) -> Option<&'n Node<'a>> {
    node.get(camel).or_else(|| node.get(&snake(camel)))
}

/// How the member of that name, given in camel case, is spelled in an object that has it.
pub(in crate::dialect) fn key<'n>(node: &'n Node<'_>, camel: &str) -> Option<&'n str> {
    let names = [camel, &snake(camel)];
    node.members().iter().map(|(name, _)| name.as_ref()).find(|name| names.contains(name))
}

/// Down through objects, in either spelling.
pub(in crate::dialect) fn path<'n, 'a>(node: &'n Node<'a>, camels: &[&str]) -> Option<&'n Node<'a>> {
    camels.iter().try_fold(node, |node, camel| get(node, camel))
}

/// The elements of the list of that name.
pub(in crate::dialect) fn items<'n, 'a>(node: &'n Node<'a>, camel: &str) -> &'n [Node<'a>] {
    get(node, camel).map_or(&[], Node::items)
}

fn snake(camel: &str) -> String {
    let mut snake = String::with_capacity(camel.len() + 2);
    for letter in camel.chars() {
        if letter.is_ascii_uppercase() {
            snake.push('_');
        }
        snake.push(letter.to_ascii_lowercase());
    }
    snake
}
