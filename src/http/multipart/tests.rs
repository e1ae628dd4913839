use proptest::prelude::*;

use super::*;

const TYPE: &str = "multipart/form-data; boundary=XbX";

/// A parsed part: its field, file name, type and content.
type Part = (String, Option<String>, Option<String>, Vec<u8>);

/// Feeds the pieces and collects the parts.
fn read<'p>(
    content_type: &str,
    pieces: impl IntoIterator<Item = &'p [u8]>,
) -> Result<(Vec<Part>, bool), Malformed> {
    let mut reader = Reader::new(content_type)?;
    let mut parts: Vec<Part> = Vec::new();
    let mut open = false;
    for piece in pieces {
        reader.feed(piece);
        while let Some(event) = reader.event()? {
            match event {
                Event::Part(head) => {
                    assert!(!open, "a part begins in a part");
                    open = true;
                    parts.push((head.name, head.filename, head.content_type, Vec::new()));
                }
                Event::Data(data) => {
                    assert!(open && !data.is_empty());
                    parts.last_mut().unwrap().3.extend_from_slice(&data);
                }
                Event::PartEnd => {
                    assert!(open);
                    open = false;
                }
                Event::End => assert!(!open),
            }
        }
    }
    Ok((parts, reader.is_ended()))
}

fn part(name: &str, filename: Option<&str>, content_type: Option<&str>, content: &[u8]) -> Part {
    (name.to_owned(), filename.map(str::to_owned), content_type.map(str::to_owned), content.to_vec())
}

/// Builds a form whose content looks like its delimiter wherever it can.
fn tricky() -> (Vec<u8>, Vec<Part>) {
    let content = b"\r\n--Xb\r\n--XbY\r\r\n-\r\n--X\r\n";
    let mut body =
        b"preamble\r\n--XbX\r\nContent-Disposition: form-data; name=\"purpose\"\r\n\r\nuser_data".to_vec();
    body.extend(b"\r\n--XbX\r\ncontent-disposition: form-data; name=file; filename=\"a.pdf\"\r\nContent-Type: application/pdf\r\n\r\n");
    body.extend(content);
    body.extend(b"\r\n--XbX\r\n\r\n");
    body.extend(b"\r\n--XbX--\r\nepilogue --XbX");
    let parts = vec![
        part("purpose", None, None, b"user_data"),
        part("file", Some("a.pdf"), Some("application/pdf"), content),
        part("", None, None, b""),
    ];
    (body, parts)
}

#[test]
fn a_form_reads_the_same_wherever_it_is_split() {
    let (body, parts) = tricky();
    assert_eq!(read(TYPE, [body.as_slice()]), Ok((parts.clone(), true)));
    for at in 0..=body.len() {
        assert_eq!(read(TYPE, [&body[..at], &body[at..]]), Ok((parts.clone(), true)), "split at {at}");
    }
    assert_eq!(read(TYPE, body.chunks(1)), Ok((parts, true)), "byte by byte");
}

#[test]
fn odd_boundaries_work() {
    for boundary in ["-", "----WebKitFormBoundaryx1", "a'()+_,-./:=?b", "x".repeat(70).as_str()] {
        let body =
            format!("--{boundary}\r\nContent-Disposition: form-data; name=\"f\"\r\n\r\n1\r\n--{boundary}--");
        for content_type in [
            format!("multipart/form-data; boundary=\"{boundary}\""),
            format!("Multipart/Form-Data;charset=utf-8; BOUNDARY={boundary}"),
        ] {
            let found = read(&content_type, body.as_bytes().chunks(3));
            assert_eq!(found, Ok((vec![part("f", None, None, b"1")], true)), "{content_type}");
        }
    }
}

#[test]
fn names_of_files_are_read_as_clients_write_them() {
    for (written, expected) in [
        ("filename=\"a b.pdf\"", Some("a b.pdf")),
        ("filename=plain.pdf", Some("plain.pdf")),
        ("filename=\"C:\\dir\\x.pdf\"", Some("C:\\dir\\x.pdf")),
        ("filename=\"semi;colon=.pdf\"", Some("semi;colon=.pdf")),
        ("filename=\"caf\u{e9}.pdf\"", Some("caf\u{e9}.pdf")),
        ("filename=\"x\"; filename*=UTF-8''caf%C3%A9.pdf", Some("caf\u{e9}.pdf")),
        ("filename*=latin1''caf%E9; filename=\"y\"", Some("y")),
        ("filename=\"\"", Some("")),
        ("other=1", None),
        ("", None),
    ] {
        let head = format!("\r\nContent-Disposition: form-data; name=\"file\"; {written}");
        let head = PartHead::parse(head.as_bytes()).unwrap();
        assert_eq!((head.name.as_str(), head.filename.as_deref()), ("file", expected), "{written}");
    }
}

#[test]
fn a_malformed_form_is_refused() {
    for (content_type, body, text) in [
        ("application/json", "", "send multipart/form-data"),
        ("multipart/mixed; boundary=XbX", "", "send multipart/form-data"),
        ("multipart/form-data", "", "needs a boundary"),
        ("multipart/form-data; boundary=", "", "needs a boundary"),
        ("multipart/form-data; boundary=\"\"", "", "needs a boundary"),
        (TYPE, "--XbXy\r\n", "followed by other text"),
        (TYPE, "--XbX-\r\n", "followed by other text"),
        (TYPE, "--XbX\nA: b\n\n", "followed by other text"),
        (TYPE, "--XbX \r\nA: b\r\n\r\n", "followed by other text"),
        (TYPE, "--XbX\r\nno colon\r\n\r\n", "no colon"),
        ("multipart/form-data; boundary=XbX; boundary=b", "", "given twice"),
        ("multipart/form-data; boundary=XbX; boundary*=b", "", "only filename* may"),
        ("multipart/form-data; x=\"boundary=C;\"; boundary=XbX", "", "given twice"),
        ("multipart/form-data; boundary=\"X\\bX\"", "", "not allowed in one"),
        ("multipart/form-data; boundary=\"XbX \"", "", "not allowed in one"),
    ] {
        let error = read(content_type, [body.as_bytes()]).unwrap_err();
        assert!(error.0.contains(text), "{content_type} {body:?}: {error:?}");
    }
    let long = format!("multipart/form-data; boundary={}", "x".repeat(71));
    assert!(Reader::new(&long).is_err());
    assert!(read(TYPE, [b"--XbX\r\nA: \xff\r\n\r\n".as_slice()]).is_err());
}

#[test]
fn what_two_parsers_could_read_in_two_ways_is_refused() {
    let disposition = "Content-Disposition: form-data; ";
    for head in [
        // Names that some parsers join, decode or unescape.
        "name=a; name=model",
        "name=a; NAME=model",
        "name=a; name*=UTF-8''model",
        "name*=UTF-8''model",
        "name*0=mo; name*1=del",
        "name=\"mo\\del\"",
        "name='model'",
        "name=\"=?utf-8?Q?model?=\"",
        "name=\"mod%65l\"",
        "name=\"a\\\"; x=\"",
        "name=\" model\"",
        "name =model",
        "name= model",
        "name=\"a",
        "name=\"a\"b",
        "name=a b",
        "name",
        "filename=x",
        "",
        // File names that end where an escaped quote does not.
        "name=a; filename=\"x\\\"; name=model; y=\"",
        "name=a; filename=x; filename=y",
        "name=a; filename*0=x",
        // Headers given twice, folded, with other line ends, or that encode the content.
        "name=a\r\nContent-Disposition: form-data; name=model",
        "name=a;\r\n name=model",
        "name=a\nContent-Disposition: form-data; name=model",
        "name=a\rContent-Disposition: form-data; name=model",
        "name=a\r\nContent-Type: text/plain\r\ncontent-type: text/html",
        "name=a\r\nContent-Type : text/plain",
        "name=a\r\nContent-Transfer-Encoding: base64",
        "name=a\0",
    ] {
        let head = format!("\r\n{disposition}{head}");
        assert!(PartHead::parse(head.as_bytes()).is_err(), "{head:?}");
    }
    for head in ["\r\nContent-Disposition: attachment; name=a", "\r\nContent-Disposition: name=a"] {
        assert!(PartHead::parse(head.as_bytes()).is_err(), "{head:?}");
    }
    for head in [
        "name=a",
        "name=\"a\";",
        "name=\"a;b\" ; x=1",
        "name=\"a\"\r\nContent-Transfer-Encoding: 8bit",
        "name=a; filename=x; filename*=UTF-8''x",
    ] {
        let head = format!("\r\n{disposition}{head}");
        assert!(PartHead::parse(head.as_bytes()).is_ok(), "{head:?}");
    }
}

#[test]
fn heads_have_a_bound() {
    let endless = format!("--XbX\r\nA: {}", "a".repeat(MAX_HEAD));
    assert_eq!(read(TYPE, [endless.as_bytes()]), Err(HEAD_TOO_LONG));
    assert_eq!(read(TYPE, endless.as_bytes().chunks(7)), Err(HEAD_TOO_LONG));
}

#[test]
fn a_header_has_no_more_parameters_than_can_be_told_apart_quickly() {
    let parameters = |count: usize| (0..count).map(|at| format!("; p{at}=1")).collect::<String>();
    let body = |count: usize| {
        format!("--XbX\r\nContent-Disposition: form-data; name=\"a\"{}\r\n\r\n\r\n--XbX--", parameters(count))
    };
    assert!(read(TYPE, [body(MAX_PARAMETERS - 1).as_bytes()]).is_ok());
    let refused = Err(Malformed("a header has too many parameters"));
    assert_eq!(read(TYPE, [body(MAX_PARAMETERS).as_bytes()]), refused);
}

#[test]
fn memory_stays_small_however_long_the_preamble_or_a_part_is() {
    let mut reader = Reader::new(TYPE).unwrap();
    let piece = vec![b'-'; 64 * 1024];
    for _ in 0..100 {
        reader.feed(&piece);
        assert_eq!(reader.event(), Ok(None));
        assert!(reader.buffer.len() < 16);
    }
    reader.feed(b"\r\n--XbX\r\n\r\n");
    assert!(matches!(reader.event(), Ok(Some(Event::Part(_)))));
    for _ in 0..100 {
        reader.feed(&piece);
        while let Some(event) = reader.event().unwrap() {
            assert!(matches!(event, Event::Data(_)));
        }
        assert!(reader.buffer.len() < 16);
    }
    assert!(!reader.is_ended());
}

proptest! {
    #[test]
    fn no_bytes_make_it_panic(body in prop::collection::vec(prop_oneof![
        Just(b"\r\n--XbX".to_vec()), Just(b"\r\n".to_vec()), Just(b"--".to_vec()), prop::collection::vec(any::<u8>(), 0..6),
    ], 0..40)) {
        let body = body.concat();
        let whole = read(TYPE, [body.as_slice()]);
        prop_assert_eq!(whole, read(TYPE, body.chunks(1)));
    }
}
