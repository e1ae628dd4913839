use std::io::Write;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use flate2::Compression;
use flate2::write::{DeflateEncoder, GzEncoder, ZlibEncoder};
use ruzstd::encoding::{CompressionLevel, compress_to_vec};

use super::{CodingError, Decoder, PIECE, Pulled, Side, TURN};

/// [`plain`] in brotli, made with node's zlib: there is no brotli encoder among the dependencies.
const BROTLI: &str = "G9kMoBwFbvuwpCFfF5E6Rqh0HRvG6i7Qg6ngtpciIDpo4bkHi/iMwwOlVeXTgsWn5Py95fcBACEYQTFY3ETVgqIkK6pGiys+\
QZRkRdVocaUniJKsqBotrvwEUZIVVaPFVZ4gSrKiarS46hNESVZUjRZX8wRRkhVVo8XVPkGUZEXVaHF1TxAlWVE12vee55MgKZphOVxd4hEkRTMsh6tL\
PoKkaIblcHWpR5AUzbAcri79CJKiGZbD1WUeQVI0w3K4uuwjSIpmWA5Xl/MIkqIZlsPV5T6CpGiG5XB1eY8gKZphOdyLAg==";

fn plain() -> String {
    (0..200).map(|n| format!("data: {{\"n\":{n}}}\n\n")).collect()
}

fn gzip(data: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(data).expect("memory");
    encoder.finish().expect("memory")
}

fn zlib(data: &[u8]) -> Vec<u8> {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(data).expect("memory");
    encoder.finish().expect("memory")
}

fn deflate(data: &[u8]) -> Vec<u8> {
    let mut encoder = DeflateEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(data).expect("memory");
    encoder.finish().expect("memory")
}

fn zstd(data: &[u8]) -> Vec<u8> {
    compress_to_vec(data, CompressionLevel::Fastest)
}

fn brotli() -> Vec<u8> {
    BASE64_STANDARD.decode(BROTLI).expect("base64")
}

fn decoder(encoding: &str) -> Option<Decoder> {
    Decoder::new(Side::Upstream, [encoding.as_bytes()]).expect("known codings")
}

/// Pulls all that can be had without more input; returns it, and the number of turns.
fn pulled(decoder: &mut Decoder) -> Result<(Vec<u8>, usize), CodingError> {
    let (mut whole, mut turns) = (Vec::new(), 1);
    loop {
        match decoder.pull()? {
            Pulled::Data(piece) => {
                assert!(!piece.is_empty() && piece.len() <= 2 * PIECE);
                whole.extend_from_slice(&piece);
            }
            Pulled::Later => turns += 1,
            Pulled::Empty => return Ok((whole, turns)),
        }
    }
}

/// Decodes `data`, given in pieces of `size`; no single pull may give much.
fn decoded(encoding: &str, data: &[u8], size: usize) -> Result<Vec<u8>, CodingError> {
    decoded_by(decoder(encoding).expect("a coding"), data, size)
}

fn decoded_by(mut decoder: Decoder, data: &[u8], size: usize) -> Result<Vec<u8>, CodingError> {
    let mut whole = Vec::new();
    for piece in data.chunks(size) {
        decoder.push(piece);
        whole.extend(pulled(&mut decoder)?.0);
    }
    decoder.push_end();
    whole.extend(pulled(&mut decoder)?.0);
    assert!(decoder.is_finished());
    Ok(whole)
}

#[test]
fn every_coding_is_read_however_it_is_cut() {
    let plain = plain().into_bytes();
    let twice_gzip = [gzip(&plain[..100]), gzip(&plain[100..])].concat();
    let skippable = [&[0x51, 0x2a, 0x4d, 0x18, 3, 0, 0, 0, 1, 2, 3], zstd(&plain).as_slice()].concat();
    for (encoding, data) in [
        ("gzip", gzip(&plain)),
        ("X-GZIP", gzip(&plain)),
        ("gzip", twice_gzip),
        ("deflate", zlib(&plain)),
        ("deflate", deflate(&plain)),
        ("br", brotli()),
        ("zstd", zstd(&plain)),
        ("zstd", [zstd(&plain[..1000]), zstd(&plain[1000..])].concat()),
        ("zstd", skippable),
        ("gzip, zstd", zstd(&gzip(&plain))),
        ("br, identity , deflate,gzip", gzip(&zlib(&brotli()))),
        ("zstd", plain.clone()),
        ("gzip", plain.clone()),
    ] {
        for size in [1, 7, 1000, usize::MAX] {
            let decoded = decoded(encoding, &data, size).expect(encoding);
            assert!(decoded == plain, "{encoding} in pieces of {size}");
        }
    }
}

#[test]
fn an_empty_body_is_empty_in_any_coding() {
    for encoding in ["gzip", "deflate", "br", "zstd", "gzip, br"] {
        assert_eq!(decoded(encoding, b"", 1).expect(encoding), b"");
    }
    assert_eq!(decoded("zstd", &zstd(b""), 1).expect("zstd"), b"");
    assert_eq!(decoded("gzip", &gzip(b""), 1).expect("gzip"), b"");
}

#[test]
fn a_coding_that_changes_nothing_needs_no_decoder() {
    assert!(decoder("identity").is_none());
    assert!(decoder("").is_none());
    let mad = b"gzip, gzip, gzip, gzip, gzip";
    assert!(Decoder::new(Side::Upstream, [mad.as_slice()]).is_err());
    assert!(Decoder::new(Side::Client, [b"gzip, br".as_slice()]).is_ok());
    assert!(Decoder::new(Side::Client, [b"gzip".as_slice(), b"gzip, gzip"]).is_err());
}

#[test]
fn cut_and_broken_data_are_told_apart() {
    let plain = plain().into_bytes();
    for (encoding, data) in
        [("gzip", gzip(&plain)), ("deflate", zlib(&plain)), ("br", brotli()), ("zstd", zstd(&plain))]
    {
        let cut = decoded(encoding, &data[..data.len() / 2], 50).expect_err(encoding);
        assert!(matches!(cut, CodingError::CutShort(_)), "{encoding}");
        let mut broken = data.clone();
        let middle = broken.len() / 2;
        broken[middle - 8..middle + 8].fill(0xff);
        if let Ok(decoded) = decoded(encoding, &broken, 50) {
            assert!(decoded != plain, "{encoding}");
        }
    }
    let garbage = decoded("deflate", &[0x78, 0x9c, 0xff, 0xff], 50).expect_err("garbage");
    assert_eq!(garbage, CodingError::Malformed("deflate"));
}

#[test]
fn a_small_body_that_unfolds_into_a_large_one_comes_in_pieces() {
    let zeros = vec![0; 8 << 20];
    for (encoding, data) in
        [("gzip", gzip(&zeros)), ("gzip, gzip", gzip(&gzip(&zeros))), ("zstd", zstd(&zeros))]
    {
        assert!(data.len() < 20_000, "{encoding}");
        assert!(decoded(encoding, &data, usize::MAX).expect(encoding) == zeros, "{encoding}");
    }
}

#[test]
fn a_flushed_event_is_given_before_the_body_goes_on() {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    let mut decoder = decoder("gzip").expect("a coding");
    for event in ["data: 1\n\n", "data: 2\n\n"] {
        encoder.write_all(event.as_bytes()).expect("memory");
        encoder.flush().expect("memory");
        decoder.push(&std::mem::take(encoder.get_mut()));
        assert_eq!(decoder.pull().expect("data"), Pulled::Data(event.into()));
        assert_eq!(decoder.pull().expect("nothing"), Pulled::Empty);
    }
}

/// Builds a skippable zstd frame with this many bytes.
fn skipped(bytes: u32) -> Vec<u8> {
    [&[0x50, 0x2a, 0x4d, 0x18][..], &bytes.to_le_bytes(), &vec![0; bytes as usize]].concat()
}

/// Builds a brotli stream of this many blocks that hold only empty metadata (RFC 7932, 9.2).
fn brotli_of_nothing(blocks: usize) -> Vec<u8> {
    [&[0x0c][..], &vec![0x06; blocks], &[0x03]].concat()
}

/// Builds a zstd frame of this many empty blocks (RFC 8878, 3.1.1).
fn zstd_of_nothing(blocks: usize) -> Vec<u8> {
    [&[0x28, 0xb5, 0x2f, 0xfd, 0, 0][..], &[0, 0, 0].repeat(blocks), &[1, 0, 0]].concat()
}

/// Builds inputs that unfold to many times their size between two layers, and hold nothing in the end.
fn hollow() -> Vec<(&'static str, Vec<u8>)> {
    let members = gzip(&gzip(b"").repeat(40_000));
    // The second is a skippable frame, which gzip unfolds.
    vec![("gzip, gzip", members), ("zstd, gzip", gzip(&skipped(8 << 20)))]
}

#[test]
fn what_holds_next_to_nothing_is_not_read_to_its_end() {
    type OfNothing = fn(usize) -> Vec<u8>;
    let cases: [(&str, &str, OfNothing); 5] = [
        ("gzip", "gzip", |bytes| gzip(b"").repeat(bytes / 20)),
        ("br", "br", brotli_of_nothing),
        ("zstd", "zstd", |bytes| zstd_of_nothing(bytes / 3)),
        ("zstd", "zstd", |bytes| skipped(0).repeat(bytes / 8)),
        ("br, gzip", "br", |bytes| gzip(&brotli_of_nothing(bytes))),
    ];
    for (encoding, layer, of_nothing) in cases {
        assert_eq!(decoded(encoding, &of_nothing(1000), usize::MAX), Ok(Vec::new()), "{encoding}");
        let refused = decoded(encoding, &of_nothing(12 << 20), usize::MAX);
        assert_eq!(refused, Err(CodingError::Hollow(layer)), "{encoding}");
    }
}

#[test]
fn frames_are_bounded_in_number() {
    let of_one_byte = zstd(b"x");
    assert_eq!(decoded("zstd", &of_one_byte.repeat(10_000), usize::MAX).expect("zstd").len(), 10_000);
    let refused = decoded("zstd", &of_one_byte.repeat(10_001), usize::MAX);
    assert_eq!(refused, Err(CodingError::Malformed("zstd")));
}

#[test]
fn a_turn_ends_though_nothing_comes_of_it() {
    for (encoding, data) in hollow() {
        assert!(data.len() < 64 * 1024, "{encoding}");
        let mut decoder = Decoder::new(Side::Client, [encoding.as_bytes()]).expect(encoding).expect(encoding);
        decoder.push(&data);
        decoder.push_end();
        let (mut turns, mut unfolded) = (0, 0);
        loop {
            let pulled = decoder.pull().expect(encoding);
            let moved = decoder.unfolded() - unfolded;
            assert!(moved <= TURN + 2 * PIECE, "{encoding}: {moved} bytes in one turn");
            unfolded += moved;
            match pulled {
                Pulled::Later => turns += 1,
                Pulled::Empty => break,
                Pulled::Data(data) => panic!("{encoding}: {} bytes", data.len()),
            }
        }
        assert!(
            decoder.is_finished() && unfolded > 512 << 10 && turns >= unfolded / TURN,
            "{encoding}: {turns}"
        );
    }
}

#[test]
fn empty_members_cost_no_engine_and_others_are_bounded_in_number() {
    let plain = plain().into_bytes();
    let among = [gzip(b"").repeat(20_000), gzip(&plain), gzip(b"").repeat(20_000), gzip(&plain)].concat();
    for size in [1, 7, usize::MAX] {
        assert!(decoded("gzip", &among, size).expect("gzip") == plain.repeat(2), "in pieces of {size}");
    }
    let of_one_byte = gzip(b"x");
    assert_eq!(decoded("gzip", &of_one_byte.repeat(10_000), usize::MAX).expect("gzip").len(), 10_000);
    let refused = decoded("gzip", &of_one_byte.repeat(10_001), usize::MAX);
    assert_eq!(refused, Err(CodingError::Malformed("gzip")));
}

#[test]
fn what_stands_behind_the_end_is_refused_of_a_client_and_never_unfolded() {
    let plain = plain().into_bytes();
    let zeros = vec![0; 4 << 20];
    let behind = |first: Vec<u8>| [first, zeros.clone()].concat();
    for (encoding, layer, data) in [
        ("gzip", "gzip", [gzip(&plain), vec![0]].concat()),
        ("gzip", "gzip", [gzip(&plain), vec![0; 512]].concat()),
        ("deflate", "deflate", [zlib(&plain), vec![1]].concat()),
        ("br", "br", [brotli(), vec![1]].concat()),
        ("deflate, deflate", "deflate", zlib(&behind(deflate(&plain)))),
        ("br, gzip", "br", gzip(&behind(brotli()))),
        ("gzip, zstd", "gzip", zstd(&behind(gzip(&plain)))),
    ] {
        for size in [7, usize::MAX] {
            let strict = Decoder::new(Side::Client, [encoding.as_bytes()]).expect(encoding).expect(encoding);
            let refused = decoded_by(strict, &data, size);
            assert_eq!(refused, Err(CodingError::Malformed(layer)), "{encoding} in pieces of {size}");
        }
        let mut lenient = decoder(encoding).expect("a coding");
        lenient.push(&data);
        lenient.push_end();
        let (given, turns) = pulled(&mut lenient).expect(encoding);
        // One block of zstd is two turns long; decoding the data behind the end would take one more turn for each 64
        // KiB.
        assert!(given == plain && turns <= 3, "{encoding}: {turns} turns");
    }
    // The coding around it ends later, and nothing is wrong with it.
    for (encoding, data) in [("gzip, gzip", gzip(&gzip(&plain))), ("br, deflate", zlib(&brotli()))] {
        let strict = Decoder::new(Side::Client, [encoding.as_bytes()]).expect(encoding).expect(encoding);
        assert!(decoded_by(strict, &data, 1) == Ok(plain.clone()), "{encoding}");
    }
}
