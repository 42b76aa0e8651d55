//! The frame: what stands around a page of the book, and every text of it.
//!
//! The frame is one HTML file with places to fill: `{{t:key}}` for a text, `{{name}}` for what varies. All texts stand in `static/en.json`;
//! a translation is another such file, and nothing else changes. Scripts get the same file.
//!
//! # Invariants
//! 1. Every key that a file of the page names is in the texts, and every text is named somewhere.
//! 2. A value that is filled in is escaped, unless it is HTML that we made.
//!
//! # In Kubernetes
//! Nothing of this is in Kubernetes; kubectl keeps its texts apart in the same way (`k8s.io/kubectl/pkg/util/i18n`).

use std::collections::BTreeMap;

use super::markdown::{Entry, escape, neighbours};
use crate::texts::Texts;

/// The files that the browser gets: name, type, text.
pub const STATIC: [(&str, &str, &str); 8] = [
    ("page.css", "text/css; charset=utf-8", include_str!("static/page.css")),
    ("page.js", "text/javascript; charset=utf-8", include_str!("static/page.js")),
    ("wire.js", "text/javascript; charset=utf-8", include_str!("static/wire.js")),
    ("panel.js", "text/javascript; charset=utf-8", include_str!("static/panel.js")),
    ("lanes.js", "text/javascript; charset=utf-8", include_str!("static/lanes.js")),
    ("replay.js", "text/javascript; charset=utf-8", include_str!("static/replay.js")),
    ("labs.js", "text/javascript; charset=utf-8", include_str!("static/labs.js")),
    ("en.json", "application/json", include_str!("static/en.json")),
];
const FRAME: &str = include_str!("static/page.html");

/// The page's texts in English.
#[must_use]
pub fn english() -> Texts {
    Texts::of_file(include_str!("static/en.json"))
}

/// Fills a template's places in one pass, so that what is filled in is never taken for a place.
#[must_use]
pub fn fill(template: &str, texts: &Texts, values: &BTreeMap<&str, String>) -> String {
    let mut out = String::with_capacity(template.len() * 2);
    let mut rest = template;
    while let Some((before, after)) = rest.split_once("{{")
        && let Some((name, behind)) = after.split_once("}}")
    {
        out.push_str(before);
        match name.strip_prefix("t:") {
            Some(key) => out.push_str(&escape(texts.of(key))),
            None => out.push_str(values.get(name).map_or("", String::as_str)),
        }
        rest = behind;
    }
    out + rest
}

fn contents(entries: &[Entry], page: &str) -> String {
    let mut out = String::from("<ol>");
    for entry in entries {
        let title = escape(&entry.title);
        let deep = entry.depth.min(3);
        out.push_str(&match &entry.page {
            Some(target) if target == page => {
                format!("<li class=\"deep-{deep}\"><a href=\"/book/{target}.html\" aria-current=\"page\">{title}</a></li>")
            }
            Some(target) => format!("<li class=\"deep-{deep}\"><a href=\"/book/{target}.html\">{title}</a></li>"),
            None => format!("<li class=\"part\">{title}</li>"),
        });
    }
    out + "</ol>"
}

/// A whole page around its contents.
#[must_use]
pub fn page(texts: &Texts, entries: &[Entry], page: &str, title: &str, html: &str) -> String {
    let (before, behind) = neighbours(entries, page);
    let turn = |entry: Option<&Entry>, rel: &str, key: &str| {
        let entry = entry.and_then(|entry| Some((entry.page.as_ref()?, &entry.title)));
        entry.map_or(String::new(), |(target, title)| {
            let words = escape(texts.of(key));
            format!(
                "<a rel=\"{rel}\" href=\"/book/{target}.html\"><small>{words}</small> {}</a>",
                escape(title)
            )
        })
    };
    let turns = turn(before, "prev", "book.previous") + &turn(behind, "next", "book.next");
    let values = BTreeMap::from([
        ("title", escape(title)),
        ("contents", contents(entries, page)),
        ("page", html.to_owned()),
        ("turns", turns),
    ]);
    fill(FRAME, texts, &values)
}

/// A page that says why there is no other.
#[must_use]
pub fn refusal(texts: &Texts, key: &str) -> String {
    let (title, words) = (escape(texts.of("book.title")), escape(texts.of(key)));
    let language = escape(texts.of("language"));
    format!(
        "<!doctype html>\n<html lang=\"{language}\"><meta charset=\"utf-8\"><title>{title}</title><h1>{title}</h1><p>{words}</p></html>\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_text_is_named_and_every_named_text_is_there() {
        let texts = english();
        let scripts = || STATIC.iter().filter(|(name, ..)| name.ends_with(".js")).map(|(.., text)| *text);
        let asked = regex::Regex::new(r#"\bt\(\s*"([a-z.-]+)""#).unwrap();
        let in_frame = regex::Regex::new(r"\{\{t:([a-z.-]+)\}\}").unwrap();
        let wanted: Vec<String> = scripts()
            .flat_map(|text| asked.captures_iter(text))
            .chain(in_frame.captures_iter(FRAME))
            .map(|found| found[1].to_owned())
            .collect();
        assert!(wanted.len() > 50, "{wanted:?}");
        let missing: Vec<&String> = wanted.iter().filter(|key| texts.get(key).is_none()).collect();
        assert!(missing.is_empty(), "named, but not in en.json: {missing:?}");
        let rust = [include_str!("answers.rs"), include_str!("frame.rs"), include_str!("server.rs")];
        let quoted = |key: &str| {
            let key = format!("\"{key}\"");
            scripts().chain(rust).any(|text| text.contains(&key))
        };
        // These are put together: "stage." and a number, "says." and what a lane says, "state." and a state, "verdict." and a word.
        let built = ["stage.", "says.", "state.", "verdict."];
        let is_built = |key: &str| built.iter().any(|start| key.starts_with(start));
        let idle: Vec<&str> = texts
            .keys()
            .filter(|key| !(wanted.iter().any(|one| one == key) || quoted(key) || is_built(key)))
            .collect();
        assert!(idle.is_empty(), "in en.json, but named nowhere: {idle:?}");
    }

    #[test]
    fn what_is_filled_in_is_never_a_place_itself() {
        let texts = Texts::of_file(r#"{"a.b": "<x>"}"#);
        let values = BTreeMap::from([("page", "{{t:a.b}}".to_owned())]);
        assert_eq!(
            fill("1 {{t:a.b}} {{page}} {{none}} 2 {{", &texts, &values),
            "1 &lt;x&gt; {{t:a.b}}  2 {{"
        );
    }

    #[test]
    fn a_page_names_itself_and_its_neighbours() {
        let entries = super::super::markdown::contents("[A](a.md)\n- [B & C](b.md)\n- [D](d.md)\n");
        let html = page(&english(), &entries, "b", "B & C", "<p>text</p>");
        assert!(html.contains("<a href=\"/book/b.html\" aria-current=\"page\">B &amp; C</a>"), "{html}");
        assert!(
            html.contains("rel=\"prev\" href=\"/book/a.html\"")
                && html.contains("rel=\"next\" href=\"/book/d.html\"")
        );
        assert!(html.contains("<p>text</p>") && !html.contains("{{"), "{html}");
        assert!(
            !html.contains("<script>") && !html.contains("style=\""),
            "the policy allows no inline script or style"
        );
    }
}
