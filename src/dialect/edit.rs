//! Changes to the outermost members of a JSON object; every other byte stays as it was written.

use std::borrow::Cow;

use super::json;

/// Returns `body` with members set to JSON values and others removed. A member that is set keeps its place, or comes
/// last when it is new. A body that is not a JSON object stays as it is.
pub fn edit<'a>(body: &'a str, set: &[(&str, &str)], remove: &[&str]) -> Cow<'a, str> {
    rewritten(body, set, |key| remove.contains(&key))
}

/// Returns `body` with only the known members. A body that is not a JSON object stays as it is.
pub fn only<'a>(body: &'a str, known: &[&str]) -> Cow<'a, str> {
    rewritten(body, &[], |key| !known.contains(&key))
}

fn rewritten<'a>(body: &'a str, set: &[(&str, &str)], is_removed: impl Fn(&str) -> bool) -> Cow<'a, str> {
    let mut members = Vec::new();
    let Ok(json::Object { open, .. }) = json::members(body, |member| members.push(member)) else {
        return Cow::Borrowed(body);
    };
    let replaced = |key: &str| set.iter().find(|(name, _)| *name == key).map(|(_, value)| *value);
    let changes = |member: &json::Member<'_>| {
        is_removed(&member.key) || replaced(&member.key).is_some_and(|value| value != member.value)
    };
    let absent = |name: &str| !members.iter().any(|member| member.key == name);
    if !members.iter().any(changes) && !set.iter().any(|(name, _)| absent(name)) {
        return Cow::Borrowed(body);
    }
    let mut out = String::with_capacity(body.len() + 64);
    out.push_str(&body[..=open]);
    let mut first = true;
    let mut put = |key: &str, value: &str| {
        if !std::mem::take(&mut first) {
            out.push(',');
        }
        out.push_str(&serde_json::Value::from(key).to_string());
        out.push(':');
        out.push_str(value);
    };
    let mut done: Vec<&str> = Vec::new();
    for member in &members {
        let key = member.key.as_ref();
        if is_removed(key) {
            continue;
        }
        match set.iter().find(|(name, _)| *name == key) {
            Some((name, value)) if !done.contains(name) => {
                put(key, value);
                done.push(name);
            }
            Some(_) => {}
            None => put(key, member.value),
        }
    }
    for (name, value) in set.iter().filter(|(name, _)| absent(name)) {
        put(name, value);
    }
    out.push('}');
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use super::{edit, only};

    #[test]
    fn members_are_set_and_removed() {
        let body = r#" {"a" : [1, 2],"b":"x\/","a2":1.50,"b":2}"#;
        for (set, remove, wanted) in [
            (&[][..], &[][..], body),
            (&[], &["none"], body),
            (&[("a2", "1.50")], &[], body),
            (&[("a2", "2")], &["a"], r#" {"b":"x\/","a2":2,"b":2}"#),
            (&[("b", "true")], &["a", "a2"], r#" {"b":true}"#),
            (&[("new", "{}")], &["a", "b"], r#" {"a2":1.50,"new":{}}"#),
        ] {
            assert_eq!(edit(body, set, remove), wanted);
        }
        assert_eq!(only(body, &["a", "none"]), r#" {"a":[1, 2]}"#);
        assert_eq!(only(body, &["a", "a2", "b"]), body);
        assert_eq!(edit("{}", &[("a", "1")], &[]), r#"{"a":1}"#);
        assert_eq!(edit("[1]", &[("a", "1")], &[]), "[1]");
    }
}
