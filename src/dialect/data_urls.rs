//! Data URLs (RFC 2397): reads them, and turns files that stand in a body as bare base64 into those that chat and responses
//! want.
//!
//! A conversion reads both. A body that is passed through keeps every other byte.

use std::borrow::Cow;

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use percent_encoding::percent_decode_str;

use super::canonical::Source;
use super::literal::Text;
use super::media_types;
use super::tree::Node;

/// Returns the source that a URL names, by the literal of its string: inline data, or an address.
pub(super) fn source_of(literal: &str) -> Source<'_> {
    let text = |part| match part {
        Cow::Borrowed(part) => Text::inside(part),
        Cow::Owned(part) => Text::of(&part),
    };
    if !literal.contains('\\') {
        let parts = split(literal).map(|(mime, data)| Source::inline(text(mime), text(data)));
        return parts.unwrap_or_else(|| Source::Url(Text::inside(literal)));
    }
    // Some encoders escape every slash.
    match split(&Text::inside(literal).decode()) {
        Some((mime, data)) => Source::inline(Text::of(&mime), Text::of(&data)),
        None => Source::Url(Text::inside(literal)),
    }
}

/// Splits a data URL into its media type, in lower case, and its data in base64.
pub fn split(url: &str) -> Option<(Cow<'_, str>, Cow<'_, str>)> {
    const SCHEME: &str = "data:";
    url.get(..SCHEME.len()).filter(|scheme| scheme.eq_ignore_ascii_case(SCHEME))?;
    let (head, data) = url[SCHEME.len()..].split_once(',')?;
    let mime = match head.split(';').next().unwrap_or_default().trim() {
        "" => Cow::Borrowed("text/plain"),
        mime if mime.bytes().any(|byte| byte.is_ascii_uppercase()) => Cow::Owned(mime.to_ascii_lowercase()),
        mime => Cow::Borrowed(mime),
    };
    let encoding = head.rsplit_once(';').map_or("", |(_, encoding)| encoding.trim());
    if encoding.eq_ignore_ascii_case("base64") {
        return Some((mime, Cow::Borrowed(data)));
    }
    let plain: Cow<'_, [u8]> = percent_decode_str(data).into();
    Some((mime, Cow::Owned(BASE64.encode(plain))))
}

/// The beginnings of `file_data` that an upstream takes: a data URL, or an address.
const WHOLE: [&str; 2] = ["data:", "http"];

/// Returns the body with data URLs; `None` when there is no bare base64 in it.
pub fn with_data_urls(body: &Node<'_>) -> Option<String> {
    let mut bare = Vec::new();
    for said in ["messages", "input"].iter().filter_map(|key| body.get(key)) {
        collect(said, &mut bare);
    }
    let mut out = String::with_capacity(body.raw().len() + 32 * bare.len());
    let mut copied = 0;
    for (data, mime) in &bare {
        // The place behind the opening quote.
        let at = data.place_in(body.raw())?.start + 1;
        out.push_str(body.raw().get(copied..at)?);
        out.push_str(&format!("data:{mime};base64,"));
        copied = at;
    }
    out.push_str(body.raw().get(copied..)?);
    (!bare.is_empty()).then_some(out)
}

/// Collects the bare base64, in the order in which it stands, with its media types.
fn collect<'n, 'a>(node: &'n Node<'a>, bare: &mut Vec<(&'n Node<'a>, &'static str)>) {
    for item in node.items() {
        collect(item, bare);
    }
    // The media type is determined once, and only where there is data, however often that is given.
    let mut mime = None;
    for (key, value) in node.members() {
        let is_bare = |data: &str| {
            let begins = |word: &str| data.get(..word.len()).is_some_and(|it| it.eq_ignore_ascii_case(word));
            !data.is_empty() && !WHOLE.into_iter().any(begins)
        };
        match key.as_ref() {
            "file_data" if value.text().is_some_and(|data| is_bare(data.literal())) => {
                let name = || node.get("filename").and_then(Node::str).unwrap_or_default();
                bare.push((
                    value,
                    *mime.get_or_insert_with(|| media_types::of_name(&name()).unwrap_or(media_types::PDF)),
                ));
            }
            _ => collect(value, bare),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_data_url_is_read_in_every_spelling() {
        let inline = |mime: &str, data: &str| Source::Inline { mime: Text::of(mime), data: Text::of(data) };
        for (url, source) in [
            ("data:image/png;base64,iVBO", inline("image/png", "iVBO")),
            ("DATA:IMAGE/PNG;Base64,iVBO", inline("image/png", "iVBO")),
            ("data:image/png;name=a.png;base64,iVBO", inline("image/png", "iVBO")),
            (r"data:image\/png;base64,iV\/O", inline("image/png", "iV/O")),
            ("data:text/plain;charset=utf-8,a%20b", inline("text/plain", "YSBi")),
            (r#"data:image/svg+xml;utf8,<svg a=\"1\"/>"#, inline("image/svg+xml", "PHN2ZyBhPSIxIi8+")),
            ("data:,a", inline("text/plain", "YQ==")),
            ("data:image/jpg;base64,/9j/", inline("image/jpeg", "/9j/")),
            ("data:image/png", Source::Url(Text::inside("data:image/png"))),
            (r"https:\/\/a/b,c", Source::Url(Text::inside(r"https:\/\/a/b,c"))),
            ("", Source::Url(Text::inside(""))),
        ] {
            assert_eq!(source_of(url), source, "{url}");
        }
    }

    #[test]
    fn bare_base64_becomes_a_data_url_and_all_else_stays() {
        for (body, wanted) in [
            (
                r#"{"messages":[ {"content":[{"type":"file","file":{"file_data":"JVBE", "filename":"a.pdf"}},{"file":{"filename":"b.TXT","file_data":"QQ=="}}]}],"n":1.0}"#,
                Some(
                    r#"{"messages":[ {"content":[{"type":"file","file":{"file_data":"data:application/pdf;base64,JVBE", "filename":"a.pdf"}},{"file":{"filename":"b.TXT","file_data":"data:text/plain;base64,QQ=="}}]}],"n":1.0}"#,
                ),
            ),
            (
                r#"{"input":[{"type":"input_file","file_data":"JVBE"}]}"#,
                Some(r#"{"input":[{"type":"input_file","file_data":"data:application/pdf;base64,JVBE"}]}"#),
            ),
            (
                r#"{"input":[{"file_data":"data:application/pdf;base64,JVBE"},{"file_data":""},{"file_data":5}]}"#,
                None,
            ),
            (r#"{"input":"file_data","tools":[{"file_data":"x"}]}"#, None),
        ] {
            assert_eq!(with_data_urls(&Node::parse(body).unwrap()).as_deref(), wanted, "{body}");
        }
    }
}
