//! The files of the console, by name.

use std::io::Write;
use std::sync::OnceLock;

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use ring::digest::{Context, SHA256};

use crate::hex;

/// A file as it was written, and as it is sent.
pub(super) struct Asset {
    pub(super) name: &'static str,
    source: &'static str,
    compressed: OnceLock<Bytes>,
}

/// The page. It names the digest of the files below, which stands in it as `{digest}`.
pub(super) static INDEX: Asset = Asset::new("index.html", include_str!("index.html"));

/// Embeds files by their names.
macro_rules! files {
    ($($name:literal,)*) => {
        /// What the page is made of.
        pub(super) static FILES: [Asset; [$($name,)*].len()] = [$(Asset::new($name, include_str!($name)),)*];
    };
}

files! {
    "style.css",
    "icon.svg",
    "main.js",
    "api.js",
    "data.js",
    "address.js",
    "words.js",
    "chinese.js",
    "format.js",
    "parts.js",
    "list.js",
    "chart.js",
    "clients.js",
    "pages/signin.js",
    "pages/overview.js",
    "pages/sites.js",
    "pages/sites/add.js",
    "pages/sites/health.js",
    "pages/routes.js",
    "pages/routes/pattern.js",
    "pages/log.js",
    "pages/keys.js",
    "pages/keys/form.js",
    "pages/playground.js",
    "pages/settings.js",
    "pages/settings/table.js",
    "pages/settings/upkeep.js",
    "vendor/htm-preact.js",
}

/// Names all files as they are: twelve bytes of a SHA-256, in hexadecimal.
pub(super) fn digest() -> &'static str {
    static DIGEST: OnceLock<String> = OnceLock::new();
    DIGEST.get_or_init(|| {
        let mut context = Context::new(&SHA256);
        for file in FILES.iter().chain([&INDEX]) {
            for text in [file.name, file.source] {
                context.update(&(text.len() as u64).to_be_bytes());
                context.update(text.as_bytes());
            }
        }
        hex::encode(&context.finish().as_ref()[..12])
    })
}

// === impl Asset ===

impl Asset {
    const fn new(name: &'static str, source: &'static str) -> Self {
        Self { name, source, compressed: OnceLock::new() }
    }

    /// As it is sent to those who do not decompress.
    pub(super) fn text(&self) -> Bytes {
        if self.name == INDEX.name {
            return Bytes::from(self.source.replace("{digest}", digest()));
        }
        Bytes::from_static(self.source.as_bytes())
    }

    /// By gzip; made once.
    pub(super) fn compressed(&self) -> Bytes {
        let compress = || {
            let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
            let written = encoder.write_all(&self.text()).and_then(|()| encoder.finish());
            Bytes::from(written.expect("a Vec takes everything"))
        };
        self.compressed.get_or_init(compress).clone()
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
