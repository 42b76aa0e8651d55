//! Routes: what an address asks for.
//!
//! # Invariants
//! 1. A path with a step upwards, an empty part or a hidden name is no route at all.
//! 2. What changes something is a POST; nothing else is.
//!
//! # In Kubernetes
//! Nothing of this is in Kubernetes; `apiserver/pkg/endpoints/request/requestinfo.go` turns paths into values in the same spirit.

use http::Method;

use super::guard::parameter;

/// What is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Route {
    /// The first page.
    Home,
    /// A page of the book: its path without an ending.
    Page(String),
    /// A picture of the book.
    Picture(String),
    /// A part of the binary.
    Static(String),
    /// The objects that have steps.
    Objects {
        /// The version of the list that the page has.
        since: Option<u64>,
    },
    /// One object's lanes.
    Journey {
        /// The object.
        object: String,
        /// Replay: only so many steps have happened.
        until: Option<usize>,
    },
    /// When the steps of the recording happened.
    Recording,
    /// Steps as they happen.
    Events,
    /// A line of the sources and those around it.
    Source(String),
    /// The labs and how far the learner is.
    Labs,
    /// Something to do with a lab.
    Do(String),
    /// The address exists, the method doesn't.
    WrongMethod,
    /// There is nothing.
    Nothing,
}

/// Reads a request's address.
#[must_use]
pub fn route(method: &Method, path: &str, query: &str) -> Route {
    let decoded = |text: &str| percent_encoding::percent_decode_str(text).decode_utf8_lossy().into_owned();
    let asked = |name: &str| parameter(query, name).map(|text| decoded(&text.replace('+', " ")));
    let path = decoded(path);
    let inside = |rest: &str| {
        rest.split('/').all(|part| !part.is_empty() && !part.starts_with('.')) && !rest.contains(['\\', '\0'])
    };
    let is_post = *method == Method::POST;
    let found = match path.split_at(path.rfind('/').map_or(0, |at| at + 1)) {
        ("/", "") => Route::Home,
        ("/api/", "objects") => Route::Objects { since: asked("since").and_then(|since| since.parse().ok()) },
        ("/api/", "recording") => Route::Recording,
        ("/api/", "events") => Route::Events,
        ("/api/", "labs") => Route::Labs,
        ("/api/", "journey") => Route::Journey {
            object: asked("object").unwrap_or_default(),
            until: asked("until").and_then(|until| until.parse().ok()),
        },
        ("/api/", "source") => Route::Source(asked("at").unwrap_or_default()),
        ("/api/labs/", what) if !what.is_empty() => {
            return if is_post { Route::Do(what.to_owned()) } else { Route::WrongMethod };
        }
        ("/static/", name) if inside(name) => Route::Static(name.to_owned()),
        _ => match path.strip_prefix("/book/").filter(|rest| inside(rest)) {
            Some(rest) => match rest.rsplit_once('.') {
                Some((page, "html")) => Route::Page(page.to_owned()),
                Some((_, "png" | "svg" | "jpg")) => Route::Picture(rest.to_owned()),
                _ => Route::Nothing,
            },
            None => Route::Nothing,
        },
    };
    let reads = matches!(*method, Method::GET | Method::HEAD);
    if reads || found == Route::Nothing { found } else { Route::WrongMethod }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn get(path: &str) -> Route {
        let (path, query) = path.split_once('?').unwrap_or((path, ""));
        route(&Method::GET, path, query)
    }

    #[test]
    fn addresses_become_values() {
        assert_eq!(get("/"), Route::Home);
        assert_eq!(get("/book/part/page.html"), Route::Page("part/page".into()));
        assert_eq!(get("/book/images/lanes.png"), Route::Picture("images/lanes.png".into()));
        let object = "Pod default/web".to_owned();
        assert_eq!(
            get("/api/journey?object=Pod%20default%2Fweb&until=3"),
            Route::Journey { object: object.clone(), until: Some(3) }
        );
        assert_eq!(get("/api/journey?object=Pod%20default/web"), Route::Journey { object, until: None });
        assert_eq!(route(&Method::POST, "/api/labs/start", ""), Route::Do("start".into()));
        assert_eq!(get("/api/objects?since=7"), Route::Objects { since: Some(7) });
        assert_eq!(get("/api/objects?since=x"), Route::Objects { since: None });
    }

    #[test]
    fn a_path_that_leaves_its_place_leads_nowhere() {
        for path in [
            "/book/../Cargo.html",
            "/book/%2e%2e/%2e%2e/etc/passwd.html",
            "/book/..%2f..%2fsecret.png",
            "/book//etc/x.html",
            "/book/.git/x.html",
            "/book/stage1.md",
            "/static/../en.json",
            "/static/.hidden",
            "/etc/passwd",
            "/book/a\\..\\b.html",
        ] {
            assert_eq!(get(path), Route::Nothing, "{path}");
        }
    }

    #[test]
    fn what_changes_something_is_a_post_and_nothing_else_is() {
        assert_eq!(get("/api/labs/reset"), Route::WrongMethod);
        assert_eq!(route(&Method::POST, "/api/labs", ""), Route::WrongMethod);
        assert_eq!(route(&Method::DELETE, "/api/labs/start", ""), Route::WrongMethod);
        assert_eq!(route(&Method::HEAD, "/", ""), Route::Home);
    }
}
