//! The files of the console, by name. The build has compressed them by Brotli (`build.rs`).

use std::io::Write;
use std::sync::OnceLock;

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;

include!(concat!(env!("OUT_DIR"), "/console.rs"));

/// A file as the binary holds it, and as it is sent to browsers that do not know Brotli or would not have it without TLS.
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

    /// By Brotli.
    pub(super) fn brotli(&self) -> Bytes {
        Bytes::from_static(self.brotli)
    }

    /// By gzip; made once.
    pub(super) fn gzip(&self) -> Bytes {
        let compress = || {
            let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
            let written = encoder.write_all(&self.text()).and_then(|()| encoder.finish());
            Bytes::from(written.expect("a Vec takes everything"))
        };
        self.gzip.get_or_init(compress).clone()
    }

    /// As it is sent to those who do not decompress.
    pub(super) fn text(&self) -> Bytes {
        let mut text = Vec::new();
        let read = brotli_decompressor::BrotliDecompress(&mut &*self.brotli, &mut text);
        read.expect("the build has compressed it whole");
        Bytes::from(text)
    }

    /// Its media type.
    pub(super) fn kind(&self) -> &'static str {
        match self.name.rsplit('.').next() {
            Some("html") => "text/html; charset=utf-8",
            Some("css") => "text/css; charset=utf-8",
            Some("svg") => "image/svg+xml",
            _ => "text/javascript; charset=utf-8",
        }
    }
}
