//! Pictures in answers of the model, for dialects whose answers hold only text.
//!
//! There a picture becomes Markdown with a data URL: `![image](data:image/png;base64,…)`. Chat clients show it, and hubs that
//! offer these models write the same. In the client's next turn it becomes a picture again.

use memchr::memmem;

use crate::dialect::canonical::{Image, Part, Reply, Source};
use crate::dialect::literal::Text;
use crate::dialect::writer::Writer;

const BEGIN: &str = "![image](data:image/";
const BASE64: &str = ";base64,";

/// Returns the text that stands for a picture; `None` for a picture that cannot be written as text.
pub fn image_as_text(image: &Image<'_>) -> Option<Text<'static>> {
    let (mime, data) = match &image.source {
        Source::Inline { mime, data } => (mime, data),
        Source::Url(url) => {
            let url = url.decode();
            let is_plain = url.starts_with("http") && !url.contains([' ', '(', ')']);
            return is_plain.then(|| Text::of(&format!("![image]({url})")));
        }
        Source::Id(_) | Source::Plain(_) => return None,
    };
    let mime = mime.decode();
    let kind = mime.strip_prefix("image/").filter(|kind| !kind.contains([';', ')'])).unwrap_or("png");
    let mut text = Text::of(&format!("{BEGIN}{kind}{BASE64}"));
    text.push(data);
    text.push(&Text::plain(")"));
    Some(text)
}

/// Replaces the pictures of an answer by texts.
pub fn images_to_text(reply: &mut Reply<'_>) {
    for part in reply.candidates.iter_mut().flat_map(|candidate| &mut candidate.parts) {
        if let Part::Image(image) = part
            && let Some(text) = image_as_text(image)
        {
            *part = Part::Text(text);
        }
    }
}

/// Writes the members of a part of an answer: a picture, if the text stands for one.
pub(super) fn put_text_or_image(o: &mut Writer, text: &Text<'_>) {
    let inner = text.literal().strip_prefix(BEGIN).and_then(|rest| rest.strip_suffix(')'));
    let picture = inner.and_then(|inner| inner.split_once(BASE64));
    match picture.filter(|(kind, data)| !kind.contains('\\') && !data.contains([')', '!'])) {
        Some((kind, data)) => put_image(o, kind, data),
        None => o.field("text", text),
    }
}

fn put_image(o: &mut Writer, kind: &str, data: &str) {
    o.object_at("inlineData", |o| {
        o.joined("mimeType", &["image/", kind]);
        o.field("data", Text::inside(data));
    });
}

/// Writes a text of the model, with the pictures in it as parts of their own.
pub(super) fn write_text_and_images(list: &mut Writer, text: &Text<'_>) {
    let mut rest = text.literal();
    let put_text = |list: &mut Writer, text: &str| {
        if !text.is_empty() {
            list.object(|o| o.field("text", Text::inside(text)));
        }
    };
    let mut from = 0;
    while let Some(begin) = memmem::find(&rest.as_bytes()[from..], BEGIN.as_bytes()).map(|at| from + at) {
        let inner = &rest[begin + BEGIN.len()..];
        // No picture extends beyond the beginning of the next one, so each byte is looked at once.
        let end = memchr::memchr2(b')', b'!', inner.as_bytes());
        let picture = end.filter(|end| inner.as_bytes()[*end] == b')').and_then(|end| {
            let (kind, data) = inner[..end].split_once(BASE64)?;
            Some((kind, data, begin + BEGIN.len() + end + 1))
        });
        let Some((kind, data, end)) = picture.filter(|(kind, ..)| !kind.contains('\\')) else {
            from = begin + BEGIN.len();
            continue;
        };
        put_text(list, &rest[..begin]);
        list.object(|o| put_image(o, kind, data));
        (rest, from) = (&rest[end..], 0);
    }
    put_text(list, rest);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_picture_becomes_text_and_a_picture_again() {
        let source = Source::Inline { mime: Text::plain("image/webp"), data: Text::plain("QUJD") };
        let text = image_as_text(&Image { source, detail: None }).unwrap();
        assert_eq!(text.decode(), "![image](data:image/webp;base64,QUJD)");
        let said = |text: &str| {
            let mut json = Writer::new();
            json.list(|list| write_text_and_images(list, &Text::of(text)));
            json.into_string()
        };
        assert_eq!(
            said("a\n![image](data:image/webp;base64,QUJD)![image](data:image/png;base64,QQ==) b"),
            r#"[{"text":"a\n"},{"inlineData":{"mimeType":"image/webp","data":"QUJD"}},{"inlineData":{"mimeType":"image/png","data":"QQ=="}},{"text":" b"}]"#
        );
        for text in [
            "no picture",
            "![image](data:image/png;base64,QQ",
            "![image](data:image/png,x) ![x](y)",
            "![image](data:image/a;base64,b![image](data:image/c)",
        ] {
            assert_eq!(said(text), serde_json::json!([{ "text": text }]).to_string());
        }
    }
}
