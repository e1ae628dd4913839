//! The console: one page for operators, served from the binary. It calls `/api/*` with the token that the operator
//! types in; the files served here are the same for everybody and hold no secret.
//!
//! ```text
//! GET /, /sites, /log, …            index.html, revalidated each time (ETag); so is every path that nothing else
//!                                   answers, except for clients that ask for JSON
//! GET /console/<digest>/<file>      the files of the page, kept by the browser for ever
//! ```
//!
//! The digest covers all files together: a module finds its neighbours by relative names, and a new build has new
//! names. Files are as written: HTML, CSS and ES modules. The build only compresses them, with Brotli; other forms are
//! made from that when they are first requested, so a server whose console nobody opens stores nothing for it.
//!
//! | file | |
//! |---|---|
//! | `assets` | the files, by name |
//! | `index.html`, `style.css` | the page; how everything looks |
//! | `main.js` | begins: sign-in, frame, the page that the address names |
//! | `api.js`, `data.js` | requests and their errors; the data that a page reads, with their age |
//! | `address.js`, `words.js`, `chinese.js`, `format.js` | page addresses; languages; shared Chinese; numbers and times |
//! | `parts.js`, `list.js`, `chart.js` | the building blocks of pages; long lists; curves and bars |
//! | `pages/` | a module per page |
//! | `clients.js` | the lines that connect a client |
//! | `vendor/` | third-party code, with its release and licence |

mod assets;

use std::sync::OnceLock;

use bytes::Bytes;
use hyper::header::{self, HeaderName, HeaderValue};
use hyper::{HeaderMap, Method, StatusCode};

use crate::http::{Response, ResponseBody};
use assets::{Asset, DIGEST, FILES, PAGE};

/// The paths of the console's pages. All are `index.html`, which reads the address itself.
const PAGES: [&str; 8] =
    ["/", "/index.html", "/sites", "/routes", "/log", "/keys", "/playground", "/settings"];

/// Allows only our own files and our own API, and no framing of the page. The page has no inline script or style.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// Returns the page or file at this path; `None` if there is neither.
pub fn answer(method: &Method, path: &str, headers: &HeaderMap) -> Option<Response> {
    let (asset, may_be_kept) = match path.strip_prefix("/console/").and_then(|rest| rest.split_once('/')) {
        // A page of another build gets the current files, which are not to be cached.
        Some((digest, name)) => (FILES.iter().find(|file| file.name == name)?, digest == DIGEST),
        None => (PAGES.contains(&path).then_some(&PAGE)?, false),
    };
    if !matches!(*method, Method::GET | Method::HEAD) {
        let mut response = Response::new(ResponseBody::empty());
        *response.status_mut() = StatusCode::METHOD_NOT_ALLOWED;
        response.headers_mut().insert(header::ALLOW, HeaderValue::from_static("GET, HEAD, OPTIONS"));
        return Some(response);
    }
    Some(send(asset, headers, may_be_kept))
}

/// Returns the page in place of an unknown path: an old bookmark, or a mistyped address. `None` if a file was meant,
/// and for clients that ask for JSON.
pub fn page_for_unknown_path(method: &Method, path: &str, headers: &HeaderMap) -> Option<Response> {
    let is_file = path.contains("/.") || path.rsplit('/').next().is_some_and(|name| name.contains('.'));
    let takes_page = |accept: &HeaderValue| {
        let accepts = |kind: &str| accept.to_str().is_ok_and(|kinds| kinds.contains(kind));
        accepts("text/html") || (accepts("*/*") && !accepts("json"))
    };
    let takes_pages = headers.get(header::ACCEPT).is_none_or(takes_page);
    let is_asked = matches!(*method, Method::GET | Method::HEAD) && !path.starts_with("/console/");
    (is_asked && !is_file && takes_pages).then(|| send(&PAGE, headers, false))
}

fn send(asset: &'static Asset, headers: &HeaderMap, may_be_kept: bool) -> Response {
    let tag = entity_tag();
    let is_known = headers.get(header::IF_NONE_MATCH).is_some_and(|known| known == tag);
    let takes =
        |coding| headers.get(header::ACCEPT_ENCODING).is_some_and(|accepted| is_accepted(accepted, coding));
    let (body, coding) = if is_known {
        (Bytes::new(), None)
    } else if takes("br") {
        (asset.brotli(), Some("br"))
    } else if takes("gzip") {
        (asset.gzip(), Some("gzip"))
    } else {
        (asset.text(), None)
    };
    let mut response = Response::new(ResponseBody::full(body));
    if is_known {
        *response.status_mut() = StatusCode::NOT_MODIFIED;
    }
    let fields = response.headers_mut();
    let mut set =
        |name: HeaderName, value: &'static str| fields.insert(name, HeaderValue::from_static(value));
    set(header::CONTENT_TYPE, asset.kind());
    set(header::CONTENT_SECURITY_POLICY, POLICY);
    set(header::X_FRAME_OPTIONS, "DENY");
    set(header::X_CONTENT_TYPE_OPTIONS, "nosniff");
    set(header::REFERRER_POLICY, "no-referrer");
    set(header::VARY, "Accept-Encoding");
    set(header::CACHE_CONTROL, if may_be_kept { "public, max-age=31536000, immutable" } else { "no-cache" });
    if let Some(coding) = coding {
        set(header::CONTENT_ENCODING, coding);
    }
    fields.insert(header::ETAG, tag.clone());
    response
}

fn entity_tag() -> &'static HeaderValue {
    static TAG: OnceLock<HeaderValue> = OnceLock::new();
    TAG.get_or_init(|| HeaderValue::from_str(&format!("\"{DIGEST}\"")).expect("hex digits in quotes"))
}

fn is_accepted(accepted: &HeaderValue, coding: &str) -> bool {
    let accepted = accepted.to_str().unwrap_or_default();
    accepted.split(',').any(|one| {
        let mut parts = one.split(';').map(str::trim);
        let is_named = parts.next().is_some_and(|name| name.eq_ignore_ascii_case(coding));
        is_named && !parts.any(|part| matches!(part, "q=0" | "q=0.0" | "q=0.00" | "q=0.000"))
    })
}
