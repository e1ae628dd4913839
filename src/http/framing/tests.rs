use proptest::prelude::*;

use super::*;

const CHUNKED: &str = "POST /a HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n";
const BOTH: &str = "POST /b HTTP/1.1\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n";
const PLAIN: &str = "GET /c HTTP/1.1\r\nHost: x\r\n\r\n";

/// The expected result: the number of heads, the first fault, and whether more of a request is to come.
type Seen = (u64, Option<(u64, HeadFault)>, bool);

fn seen<'b>(pieces: impl IntoIterator<Item = &'b [u8]>) -> Seen {
    let mut framing = Framing::default();
    for piece in pieces {
        framing.feed(piece);
        assert!(framing.head.line.len() <= MAX_LINE + 1, "little is kept of a line");
    }
    (framing.heads(), framing.faulty().map(|head| (head.number, head.fault)), framing.is_in_request())
}

fn cases() -> Vec<(String, Seen)> {
    use HeadFault::{TargetTooLong, TooLong, TwoLengths, Unfollowed};
    let sized = |body: &str| format!("POST / HTTP/1.1\r\nContent-Length: {}\r\n\r\n{body}", body.len());
    let in_chunk = |text: &str| format!("{CHUNKED}{:x}\r\n{text}\r\n0\r\n\r\n", text.len());
    let long = "a".repeat(MAX_HEAD);
    vec![
        (PLAIN.into(), (1, None, false)),
        (format!("{PLAIN}{PLAIN}"), (2, None, false)),
        (format!("\r\n\n{PLAIN}\r\n"), (1, None, true)),
        ("GET /c HTTP/1.1\nHost: x\n\n".into(), (1, None, false)),
        (PLAIN[..PLAIN.len() - 1].into(), (0, None, true)),
        // The length in either order, in the second of two requests, after a body.
        (BOTH.into(), (1, Some((1, TwoLengths)), true)),
        (
            "POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\ncontent-length: 5\r\n\r\n".into(),
            (1, Some((1, TwoLengths)), true),
        ),
        (format!("{PLAIN}{BOTH}"), (2, Some((2, TwoLengths)), true)),
        (format!("{}{BOTH}", sized("hello")), (2, Some((2, TwoLengths)), true)),
        (format!("{}{BOTH}", in_chunk("hello")), (2, Some((2, TwoLengths)), true)),
        // A body that quotes such a head is still a body.
        (sized(BOTH), (1, None, false)),
        (format!("{}{PLAIN}", in_chunk(BOTH)), (2, None, false)),
        (
            format!(
                "{CHUNKED}1 ;x=\"{}\"\r\na\r\n0\r\nx-trailer: content-length: 3\r\n\r\n{PLAIN}",
                "y".repeat(99)
            ),
            (2, None, false),
        ),
        (CHUNKED.into(), (1, None, true)),
        (format!("{CHUNKED}a\r\n0123456789\r\n0\r\n"), (1, None, true)),
        // Names that only begin or end like these.
        ("POST / HTTP/1.1\r\nContent-Lengths: 5\r\nX-Content-Length: 6\r\n\r\n".into(), (1, None, false)),
        (
            format!("POST / HTTP/1.1\r\nContent-Length:{}\t0 \r\n\r\n{PLAIN}", " ".repeat(99)),
            (2, None, false),
        ),
        ("POST / HTTP/1.1\r\nContent-Length: 3\r\nContent-Length: 3\r\n\r\nabc".into(), (1, None, false)),
        // Bodies that hyper refuses are not followed.
        (format!("{CHUNKED}zz\r\n{PLAIN}"), (1, Some((2, Unfollowed)), true)),
        (format!("{CHUNKED}1\r\nabc{PLAIN}"), (1, Some((2, Unfollowed)), true)),
        (format!("{CHUNKED}fffffffffffffffff\r\n"), (1, Some((2, Unfollowed)), true)),
        ("POST / HTTP/1.1\r\nContent-Length: +x\r\n\r\n".into(), (0, Some((1, Unfollowed)), true)),
        // Heads that are too long.
        (format!("GET /{long} HTTP/1.1\r\n\r\n"), (1, Some((1, TargetTooLong)), false)),
        (format!("GET / HTTP/1.1\r\nx: {long}\r\n\r\n"), (1, Some((1, TooLong)), false)),
        (format!("GET /{long}"), (0, None, true)),
    ]
}

#[test]
fn requests_are_followed_wherever_they_are_cut() {
    for (bytes, expected) in cases() {
        let bytes = bytes.as_bytes();
        let shown = String::from_utf8_lossy(&bytes[..bytes.len().min(200)]).into_owned();
        assert_eq!(seen([bytes]), expected, "{shown}");
        assert_eq!(seen(bytes.chunks(1)), expected, "byte by byte: {shown}");
        for at in (0..bytes.len()).step_by(bytes.len() / 200 + 1) {
            let (first, second) = bytes.split_at(at);
            assert_eq!(seen([first, second]), expected, "cut at {at}: {shown}");
        }
    }
}

#[test]
fn an_endless_head_is_too_long_before_its_end() {
    for (start, fault) in [
        ("GET /", HeadFault::TargetTooLong),
        ("GET / HTTP/1.1\r\nx: ", HeadFault::TooLong),
        ("GET / HTTP/1.1\r\ncontent-length: ", HeadFault::TooLong),
    ] {
        let mut framing = Framing::default();
        framing.feed(start.as_bytes());
        for _ in 0..MAX_HEAD - start.len() {
            framing.feed(b" ");
        }
        assert_eq!((framing.unfinished_head(), framing.overlong_head()), (MAX_HEAD, None));
        framing.feed(b" ");
        assert_eq!(framing.overlong_head(), Some(fault));
    }
}

proptest! {
    #[test]
    fn any_bytes_are_read_alike_wherever_they_are_cut(pieces in prop::collection::vec(prop_oneof![
        Just(CHUNKED.as_bytes().to_vec()), Just(BOTH.as_bytes().to_vec()), Just(PLAIN.as_bytes().to_vec()),
        Just(b"Content-Length: 7\r\n".to_vec()), Just(b"\r\n".to_vec()), Just(b"\r".to_vec()), Just(b"\n".to_vec()),
        Just(b"3\r\nabc\r\n".to_vec()), Just(b"0\r\n\r\n".to_vec()), prop::collection::vec(any::<u8>(), 0..6),
    ], 0..20), cut in 1_usize..40) {
        let bytes = pieces.concat();
        let whole = seen([bytes.as_slice()]);
        prop_assert_eq!(seen(bytes.chunks(1)), whole);
        prop_assert_eq!(seen(bytes.chunks(cut)), whole);
    }
}
