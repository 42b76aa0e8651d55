//! Files of `kubectl proxy --www`: served from below one folder, and from nowhere else.
//!
//! # Invariants
//! 1. What a path leads to, links included, must lie below the folder.
//!
//! # In Kubernetes
//! `newFileHandler` in `kubectl/pkg/proxy/proxy_server.go`, Go's `http.FileServer`. Left out: ranges, times of change.
#![expect(clippy::disallowed_methods, reason = "shell: reads the files that are served")]

use std::path::{Path, PathBuf};

use bytes::Bytes;
use http::{Response, StatusCode, header};
use percent_encoding::percent_decode_str;

/// What a path below the prefix answers.
pub(super) fn answer(root: &Path, path: &str) -> Response<Bytes> {
    let plain = |code: StatusCode, text: &str| {
        let mut response = Response::new(Bytes::from(text.to_string()));
        *response.status_mut() = code;
        let kind = http::HeaderValue::from_static("text/plain; charset=utf-8");
        response.headers_mut().insert(header::CONTENT_TYPE, kind);
        response
    };
    let Some(found) = locate(root, path) else {
        return plain(StatusCode::NOT_FOUND, "404 page not found\n");
    };
    let index = found.join("index.html");
    let (body, name) = match (found.is_dir(), index.is_file()) {
        (true, false) => (listing(&found), "index.html".to_string()),
        (is_folder, _) => {
            let file = if is_folder { index } else { found };
            match std::fs::read(&file) {
                Ok(bytes) => (bytes, file.display().to_string()),
                Err(_) => return plain(StatusCode::FORBIDDEN, "403 Forbidden\n"),
            }
        }
    };
    let mut response = Response::new(Bytes::from(body));
    let kind = http::HeaderValue::from_static(content_type(&name));
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}

/// The file or folder that a path names, if it lies below the root.
fn locate(root: &Path, path: &str) -> Option<PathBuf> {
    let path = percent_decode_str(path).decode_utf8().ok()?;
    let root = root.canonicalize().ok()?;
    let found = root.join(path.trim_start_matches('/')).canonicalize().ok()?;
    found.starts_with(&root).then_some(found)
}

fn listing(folder: &Path) -> Vec<u8> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries
        .map(|entry| {
            let slash = if entry.path().is_dir() { "/" } else { "" };
            format!("{}{slash}", entry.file_name().to_string_lossy())
        })
        .collect();
    names.sort();
    let escape = |text: &str| text.replace('&', "&amp;").replace('<', "&lt;").replace('"', "&#34;");
    let lines: String = names.iter().map(|n| format!("<a href=\"{0}\">{0}</a>\n", escape(n))).collect();
    format!(
        "<!doctype html>\n<meta name=\"viewport\" content=\"width=device-width\">\n<pre>\n{lines}</pre>\n"
    )
    .into_bytes()
}

fn content_type(name: &str) -> &'static str {
    match name.rsplit('.').next().unwrap_or_default() {
        "html" | "htm" => "text/html; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        "js" | "mjs" => "text/javascript; charset=utf-8",
        "json" => "application/json",
        "svg" => "image/svg+xml",
        "png" => "image/png",
        "jpg" | "jpeg" => "image/jpeg",
        "txt" | "md" | "yaml" => "text/plain; charset=utf-8",
        _ => "application/octet-stream",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invariant_1_no_path_and_no_link_leads_out_of_the_folder() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("www");
        std::fs::create_dir(&root).unwrap();
        std::fs::write(root.join("a.txt"), "inside").unwrap();
        std::fs::write(dir.path().join("secret"), "outside").unwrap();
        std::os::unix::fs::symlink(dir.path().join("secret"), root.join("link")).unwrap();
        assert_eq!(answer(&root, "/a.txt").body(), "inside");
        for path in ["/../secret", "/%2e%2e/secret", "/link", "/none"] {
            assert_eq!(answer(&root, path).status(), StatusCode::NOT_FOUND, "{path}");
        }
        assert!(String::from_utf8_lossy(answer(&root, "/").body()).contains("<a href=\"a.txt\">"));
    }
}
