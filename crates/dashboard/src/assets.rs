//! The files of the page, embedded in the binary.

use axum::extract::OriginalUri;
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY as CSP, CONTENT_TYPE, ETAG, HeaderName, IF_NONE_MATCH,
    REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::{IntoResponse, Redirect, Response};
use sha2::{Digest, Sha256};
use std::fmt::Write;
use std::sync::LazyLock;

/// What the page may load: files from its own origin, nothing inline, nothing framed.
pub const CONTENT_SECURITY_POLICY: &str = "default-src 'self'; base-uri 'none'; \
     form-action 'none'; frame-ancestors 'none'; object-src 'none'";

/// One embedded file.
#[derive(Clone, Copy, Debug)]
pub struct Asset {
    /// Its path below the page.
    pub path: &'static str,
    /// Its media type.
    pub content_type: &'static str,
    /// Its text.
    pub text: &'static str,
}

const HTML: &str = "text/html; charset=utf-8";
const CSS: &str = "text/css; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const SVG: &str = "image/svg+xml";

macro_rules! assets {
    ($($path:literal: $content_type:expr),+ $(,)?) => {
        /// All files of the page.
        pub const ASSETS: &[Asset] = &[$(Asset {
            path: $path,
            content_type: $content_type,
            text: include_str!(concat!("../web/", $path)),
        }),+];
    };
}

assets! {
    "index.html": HTML,
    "style.css": CSS,
    "icon.svg": SVG,
    "main.js": SCRIPT,
    "log.js": SCRIPT,
    "trace.js": SCRIPT,
    "reducer.js": SCRIPT,
    "summary.js": SCRIPT,
    "player.js": SCRIPT,
    "stream.js": SCRIPT,
    "dom.js": SCRIPT,
    "format.js": SCRIPT,
    "heatmap.js": SCRIPT,
    "timeline.js": SCRIPT,
    "curves.js": SCRIPT,
    "finality.js": SCRIPT,
    "traffic.js": SCRIPT,
    "lists.js": SCRIPT,
}

/// Entity tags in the order of [`ASSETS`]: the first 16 bytes of SHA-256.
static TAGS: LazyLock<Vec<String>> = LazyLock::new(|| ASSETS.iter().map(entity_tag).collect());

fn entity_tag(asset: &Asset) -> String {
    let digest = Sha256::digest(asset.text.as_bytes());
    let mut tag = String::from("\"");
    for byte in &digest[..16] {
        // Writing to a string cannot fail.
        let _ = write!(tag, "{byte:02x}");
    }
    tag.push('"');
    tag
}

/// Serves a file by its path. The page itself needs a trailing slash in its path, so that its links are
/// relative to it; without one, the browser is redirected.
pub(crate) async fn serve(
    OriginalUri(original): OriginalUri,
    uri: Uri,
    headers: HeaderMap,
) -> Response {
    let path = uri.path().trim_start_matches('/');
    if path.is_empty() && !original.path().ends_with('/') {
        let query = original
            .query()
            .map_or_else(String::new, |query| format!("?{query}"));
        return Redirect::permanent(&format!("{}/{query}", original.path())).into_response();
    }
    let path = if path.is_empty() { "index.html" } else { path };
    let Some(index) = ASSETS.iter().position(|asset| asset.path == path) else {
        return (StatusCode::NOT_FOUND, guards(), "no such file\n").into_response();
    };
    let (asset, tag) = (ASSETS[index], TAGS[index].as_str());
    // Revalidated on every request, sent only if changed, so a new binary shows its new page at once.
    let caching = [(ETAG, tag), (CACHE_CONTROL, "no-cache")];
    if is_known(&headers, tag) {
        return (StatusCode::NOT_MODIFIED, guards(), caching).into_response();
    }
    let content_type = [(CONTENT_TYPE, asset.content_type)];
    (guards(), caching, content_type, asset.text).into_response()
}

/// Returns whether the client already has the file with this tag (RFC 9110, section 13.1.2).
fn is_known(headers: &HeaderMap, tag: &str) -> bool {
    let lists = headers.get_all(IF_NONE_MATCH).iter();
    lists.filter_map(|list| list.to_str().ok()).any(|list| {
        list.split(',')
            .map(|one| one.trim().trim_start_matches("W/"))
            .any(|one| one == tag || one == "*")
    })
}

/// Headers of every response.
pub(crate) fn guards() -> [(HeaderName, &'static str); 3] {
    [
        (CSP, CONTENT_SECURITY_POLICY),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (REFERRER_POLICY, "no-referrer"),
    ]
}
