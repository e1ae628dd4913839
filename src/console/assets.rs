//! The files of the console, by name. The build has compressed them with Brotli (`build.rs`).

use std::io::Write;
use std::sync::OnceLock;

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;

include!(concat!(env!("OUT_DIR"), "/console.rs"));

/// A file as the binary stores it, and as it is sent to browsers that do not know Brotli or do not accept it without
/// TLS.
pub(super) struct Asset {
    pub(super) name: &'static str,
    brotli: &'static [u8],
    gzip: OnceLock<Bytes>,
}

// === impl Asset ===

impl Asset {
    const fn new(name: &'static str, brotli: &'static [u8]) -> Self {
        Self { name, brotli, gzip: OnceLock::new() }
    }

    /// Returns the file compressed with Brotli.
    pub(super) fn brotli(&self) -> Bytes {
        Bytes::from_static(self.brotli)
    }

    /// Returns the file compressed with gzip, which is done once.
    pub(super) fn gzip(&self) -> Bytes {
        let compress = || {
            let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
            let written = encoder.write_all(&self.text()).and_then(|()| encoder.finish());
            Bytes::from(written.expect("a Vec takes everything"))
        };
        self.gzip.get_or_init(compress).clone()
    }

    /// Returns the file uncompressed, for clients that do not decompress.
    pub(super) fn text(&self) -> Bytes {
        let mut text = Vec::new();
        let read = brotli_decompressor::BrotliDecompress(&mut &*self.brotli, &mut text);
        read.expect("the build has compressed it whole");
        Bytes::from(text)
    }

    /// Returns the file's media type.
    pub(super) fn kind(&self) -> &'static str {
        match self.name.rsplit('.').next() {
            Some("html") => "text/html; charset=utf-8",
            Some("css") => "text/css; charset=utf-8",
            Some("svg") => "image/svg+xml",
            _ => "text/javascript; charset=utf-8",
        }
    }
}
