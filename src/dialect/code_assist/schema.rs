//! Converts JSON Schema to Google's `Schema`, the part of OpenAPI 3.0 that the Gemini API reference describes. Google
//! refuses every name that is not in it, and an `enum` of anything but strings.
//!
//! | JSON Schema | becomes |
//! |---|---|
//! | `$ref` within the schema | the schema that it refers to; an object where references form a circle |
//! | `type: [T, "null"]` | `type: T` and `nullable` |
//! | `anyOf`, `oneOf` | the branch that says the most; `nullable` where another branch is null |
//! | `allOf` | all its branches together |
//! | `const` | an `enum` of one value |
//! | bounds, formats, any other name | nothing: whoever runs the call checks them |

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::ptr;

use crate::dialect::json::Scan;
use crate::dialect::literal::Json;
use crate::dialect::tree::Node;
use crate::dialect::writer::Writer;

/// The part of an [`Allowance`] that every request has, in bytes.
const FREE: usize = 64 * 1024;
/// The number of times that the text of a request's tools may be repeated.
const MOST_TIMES: usize = 8;
/// About what a schema takes in Google's form beside its own text, in bytes.
const FORM: usize = 32;
/// The greatest depth of schemas within and behind each other.
const MAX_DEPTH: usize = 128;

/// The bytes of schemas that one request may still repeat, because schemas may refer to others many times over. A schema
/// beyond is written as an object without members.
pub(super) struct Allowance(usize);

impl Allowance {
    /// Returns the allowance of a request whose tools take this many bytes.
    pub(super) fn of(tools: usize) -> Self {
        Self(FREE.saturating_add(tools.saturating_mul(MOST_TIMES)))
    }

    /// Takes what a schema costs; false if it is more than is left.
    fn take(&mut self, schema: &Node<'_>) -> bool {
        let left = self.0.checked_sub(schema.raw().len().saturating_add(FORM));
        self.0 = left.unwrap_or(self.0);
        left.is_some()
    }
}

/// Writes a schema in Google's form.
pub(super) fn put_plain(json: &mut Writer, schema: &Node<'_>, allowance: &mut Allowance) {
    let open = Open { order: vec![schema], all: HashSet::from([ptr::from_ref(schema)]) };
    Plain { root: schema, open, members: HashMap::new(), depth: 0, allowance }.put(json, schema);
}

struct Plain<'n, 'a, 'b> {
    root: &'n Node<'a>,
    /// The schemas referred to around the place that is being written; they are not entered again.
    open: Open<'n, 'a>,
    /// The members of the objects in which references were looked up, by their names.
    members: HashMap<*const Node<'a>, HashMap<&'n str, &'n Node<'a>>>,
    depth: usize,
    allowance: &'b mut Allowance,
}

struct Open<'n, 'a> {
    order: Vec<&'n Node<'a>>,
    all: HashSet<*const Node<'a>>,
}

/// The schemas that apply together in one place.
#[derive(Default)]
struct Place<'n, 'a> {
    parts: Vec<&'n Node<'a>>,
    nullable: bool,
}

// === impl Plain ===

impl<'n, 'a> Plain<'n, 'a, '_> {
    fn put(&mut self, json: &mut Writer, schema: &'n Node<'a>) {
        let around = self.open.order.len();
        self.depth += 1;
        let mut place = Place::default();
        self.gather(schema, &mut place);
        let kind = place.kind();
        json.object(|o| {
            o.field("type", kind.as_ref());
            o.field_if("description", place.parts.iter().find_map(|&part| part.text_at("description")));
            o.field_if("nullable", place.nullable.then_some(true));
            match kind.as_ref() {
                "object" => self.put_properties(o, &place),
                "array" => self.put_items(o, &place),
                "string" => put_enum(o, &place),
                _ => {}
            }
        });
        self.depth -= 1;
        self.open.close(around);
    }

    fn put_properties(&mut self, o: &mut Writer, place: &Place<'n, 'a>) {
        let properties = place.parts.iter().filter_map(|&part| part.get("properties"));
        let mut names: HashSet<&'n str> = HashSet::new();
        let named: Vec<&'n (Cow<'a, str>, Node<'a>)> =
            properties.flat_map(Node::members).filter(|(name, _)| names.insert(name)).collect();
        if named.is_empty() {
            return;
        }
        let required = place.parts.iter().flat_map(|&part| part.items_at("required"));
        let required: Vec<Json<'a>> = required
            .filter(|item| item.str().is_some_and(|item| names.contains(item.as_ref())))
            .map(Node::json)
            .collect();
        o.object_at("properties", |o| {
            for (name, schema) in named {
                o.value_at(name, |json| self.put(json, schema));
            }
        });
        if !required.is_empty() {
            o.array("required", |a| required.into_iter().for_each(|name| a.item(name)));
        }
    }

    fn put_items(&mut self, o: &mut Writer, place: &Place<'n, 'a>) {
        // The first item of a tuple stands for all its items.
        let of = |part: &'n Node<'a>, key: &str| {
            let items = part.get(key)?;
            if items.is_array() { items.items().first() } else { Some(items) }
        };
        let items =
            place.parts.iter().find_map(|&part| of(part, "items").or_else(|| of(part, "prefixItems")));
        match items {
            Some(schema) => o.value_at("items", |json| self.put(json, schema)),
            None => o.object_at("items", |o| o.field("type", "string")),
        }
    }

    /// Collects the schemas that apply where this schema stands.
    fn gather(&mut self, schema: &'n Node<'a>, place: &mut Place<'n, 'a>) {
        if !schema.is_object() || self.depth > MAX_DEPTH {
            return;
        }
        self.depth += 1;
        place.parts.push(schema);
        place.nullable |= schema.bool_at("nullable") == Some(true);
        place.nullable |= schema.items_at("type").iter().any(|kind| kind.str().as_deref() == Some("null"));
        let referred = schema.text_at("$ref").and_then(|reference| self.find(&reference.decode()));
        if let Some(target) = referred.filter(|target| !self.open.has(target))
            && self.allowance.take(target)
        {
            self.open.enter(target);
            self.gather(target, place);
        }
        for branch in schema.items_at("allOf") {
            self.gather(branch, place);
        }
        for branches in ["anyOf", "oneOf"].map(|key| schema.items_at(key)) {
            place.nullable |= branches.iter().any(is_null);
            // Takes the first of several branches with the same weight.
            let best =
                branches.iter().rev().filter(|branch| !is_null(branch)).max_by_key(|branch| weight(branch));
            if let Some(branch) = best {
                self.gather(branch, place);
            }
        }
        self.depth -= 1;
    }

    /// Finds the schema that a reference such as `#/$defs/name` names.
    fn find(&mut self, reference: &str) -> Option<&'n Node<'a>> {
        let path = reference.strip_prefix('#')?;
        let mut names = path.split('/').skip(1).map(|name| name.replace("~1", "/").replace("~0", "~"));
        names.try_fold(self.root, |node, name| {
            let by_name = || node.members().iter().map(|(name, member)| (name.as_ref(), member)).collect();
            let members = self.members.entry(ptr::from_ref(node)).or_insert_with(by_name);
            members.get(name.as_str()).copied()
        })
    }
}

// === impl Open ===

impl<'n, 'a> Open<'n, 'a> {
    fn has(&self, schema: &Node<'a>) -> bool {
        self.all.contains(&ptr::from_ref(schema))
    }

    fn enter(&mut self, schema: &'n Node<'a>) {
        self.order.push(schema);
        self.all.insert(ptr::from_ref(schema));
    }

    /// Leaves all but the first `count` that were entered.
    fn close(&mut self, count: usize) {
        for schema in self.order.drain(count..) {
            self.all.remove(&ptr::from_ref(schema));
        }
    }
}

// === impl Place ===

impl Place<'_, '_> {
    fn kind(&self) -> Cow<'static, str> {
        let has = |key: &str| self.parts.iter().any(|part| part.get(key).is_some());
        let stated = self.parts.iter().find_map(|&part| {
            let kinds = part.get("type")?;
            let all = if kinds.is_array() { kinds.items() } else { std::slice::from_ref(kinds) };
            all.iter().filter_map(Node::str).find(|kind| kind != "null").map(|kind| kind.into_owned())
        });
        match stated {
            Some(kind) => Cow::Owned(kind),
            None if self.parts.is_empty() || has("properties") || has("$ref") => Cow::Borrowed("object"),
            None if has("items") || has("prefixItems") => Cow::Borrowed("array"),
            None => Cow::Borrowed("string"),
        }
    }
}

fn put_enum<'n, 'a>(o: &mut Writer, place: &Place<'n, 'a>) {
    let member = |part: &'n Node<'a>| ["enum", "const"].iter().find_map(|key| Some((*key, part.get(key)?)));
    match place.parts.iter().find_map(|&part| member(part)) {
        Some(("enum", values)) if lists_strings(values.raw()) => o.field("enum", values.json()),
        Some(("const", value)) if value.is_string() => o.array("enum", |a| a.item(value.json())),
        _ => {}
    }
}

/// Whether a value is a list of strings, at least one. The list may be long, so that it is not taken apart.
fn lists_strings(value: &str) -> bool {
    let (mut scan, mut found, mut others) = (Scan::new(value), false, false);
    let walked = scan.peek() == Some(b'[')
        && scan
            .array(1, |scan, depth| {
                let is_string = scan.peek() == Some(b'"');
                found |= is_string;
                others |= !is_string;
                scan.value(depth)
            })
            .is_ok();
    walked && found && !others
}

fn is_null(schema: &Node<'_>) -> bool {
    schema.str_at("type") == "null"
}

/// Ranks a branch by how much it says.
fn weight(schema: &Node<'_>) -> u8 {
    let kind = schema.str_at("type");
    match kind.as_ref() {
        "object" => 3,
        _ if schema.get("properties").is_some() || schema.get("$ref").is_some() => 3,
        "array" => 2,
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(schema: &str) -> String {
        let mut json = Writer::new();
        put_plain(&mut json, &Node::parse(schema).unwrap(), &mut Allowance::of(schema.len()));
        json.into_string()
    }

    #[test]
    fn a_schema_keeps_what_google_has_a_name_for() {
        for (schema, wanted) in [
            (
                r#"{"$schema":"x","type":"object","properties":{"b":{"type":"integer","minimum":0,"description":"d"},"a":{"type":"string","format":"uri"}},"required":["a","gone"],"additionalProperties":false}"#,
                r#"{"type":"object","properties":{"b":{"type":"integer","description":"d"},"a":{"type":"string"}},"required":["a"]}"#,
            ),
            (r#"{"type":["integer","null"],"default":5}"#, r#"{"type":"integer","nullable":true}"#),
            (
                r#"{"anyOf":[{"type":"null"},{"type":"string"},{"type":"array"}]}"#,
                r#"{"type":"array","nullable":true,"items":{"type":"string"}}"#,
            ),
            (
                r#"{"oneOf":[{"type":"string","description":"first"},{"type":"string"}]}"#,
                r#"{"type":"string","description":"first"}"#,
            ),
            (
                r#"{"allOf":[{"properties":{"a":{"const":"x"}}},{"properties":{"b":{"enum":[1,2]}},"required":["b"]}]}"#,
                r#"{"type":"object","properties":{"a":{"type":"string","enum":["x"]},"b":{"type":"string"}},"required":["b"]}"#,
            ),
            (
                r#"{"items":[{"type":"number"},{"type":"string"}]}"#,
                r#"{"type":"array","items":{"type":"number"}}"#,
            ),
            (r#"{"type":"object"}"#, r#"{"type":"object"}"#),
            (r#"{"enum":["a","b"]}"#, r#"{"type":"string","enum":["a","b"]}"#),
            ("true", r#"{"type":"object"}"#),
            ("{}", r#"{"type":"string"}"#),
        ] {
            assert_eq!(plain(schema), wanted, "{schema}");
        }
    }

    #[test]
    fn what_is_referred_to_stands_in_its_place_and_no_circle_is_gone_round() {
        for (schema, wanted) in [
            (
                r##"{"properties":{"a":{"$ref":"#/$defs/x~1y","description":"own"}},"$defs":{"x/y":{"type":"integer","description":"theirs"}}}"##,
                r#"{"type":"object","properties":{"a":{"type":"integer","description":"own"}}}"#,
            ),
            (
                r##"{"properties":{"child":{"$ref":"#"},"x":{"type":"string"}}}"##,
                r#"{"type":"object","properties":{"child":{"type":"object"},"x":{"type":"string"}}}"#,
            ),
            (
                r##"{"$ref":"#/$defs/n","$defs":{"n":{"type":"object","properties":{"next":{"$ref":"#/$defs/n"}}}}}"##,
                r#"{"type":"object","properties":{"next":{"type":"object"}}}"#,
            ),
            (r##"{"$ref":"#/$defs/gone"}"##, r#"{"type":"object"}"#),
            (r#"{"$ref":"https://example.com/schema"}"#, r#"{"type":"object"}"#),
        ] {
            assert_eq!(plain(schema), wanted, "{schema}");
        }
        // Each name refers to the next one twice.
        let names: Vec<String> = (0..40)
            .map(|n| format!(r##""n{n}":{{"properties":{{"a":{{"$ref":"#/$defs/n{0}"}},"b":{{"$ref":"#/$defs/n{0}"}}}}}}"##, n + 1))
            .collect();
        let schema = format!(r##"{{"$ref":"#/$defs/n0","$defs":{{{}}}}}"##, names.join(","));
        assert!(plain(&schema).len() < 2 * (FREE + (MOST_TIMES + 1) * schema.len()));
    }

    #[test]
    fn a_schema_that_many_refer_to_is_repeated_within_bounds() {
        let properties = |reference: &str| {
            let all: Vec<_> =
                (0..2_000).map(|n| format!(r##""p{n}":{{"$ref":"#/$defs/{reference}"}}"##)).collect();
            all.join(",")
        };
        let text = "x".repeat(100_000);
        let long = format!(
            r#"{{"$defs":{{"b":{{"type":"string","description":"{text}"}}}},"properties":{{{}}}}}"#,
            properties("b")
        );
        let plain_long = plain(&long);
        assert!((MOST_TIMES..2 * MOST_TIMES).contains(&plain_long.matches(&text).count()));
        assert!(
            plain_long.contains(r#""p1999":{"type":"object"}"#),
            "the last one has what is known without it"
        );

        let parts: Vec<_> = (0..2_000).map(|n| format!(r##"{{"$ref":"#/$defs/s{n}"}}"##)).collect();
        let small: Vec<_> = (0..2_000).map(|n| format!(r#""s{n}":{{"type":"object"}}"#)).collect();
        let (parts, small) = (parts.join(","), small.join(","));
        let many = format!(
            r#"{{"$defs":{{"all":{{"allOf":[{parts}]}},{small}}},"properties":{{{}}}}}"#,
            properties("all")
        );
        assert!(plain(&many).len() < 2 * many.len(), "2,000 times 2,000 parts are not looked at");
    }

    #[test]
    fn a_long_chain_of_references_ends() {
        let chain: Vec<_> = (0..50_000)
            .map(|n| format!(r##""n{n}":{{"properties":{{"a":{{"$ref":"#/$defs/n{}"}}}}}}"##, n + 1))
            .collect();
        let schema = format!(r##"{{"$ref":"#/$defs/n0","$defs":{{{}}}}}"##, chain.join(","));
        let depth = plain(&schema).matches("properties").count();
        assert!((20..=MAX_DEPTH).contains(&depth), "{depth}");
    }
}
