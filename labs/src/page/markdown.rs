//! Markdown: the book's pages as HTML, rendered when they are asked for.
//!
//! The same pages that mdbook builds, without a build: includes are put in by [`crate::book::expand`], links to `.md` become links to
//! `.html`, headings get ids so that a link can name them, and blocks of code can be reached and scrolled with the keyboard.
//!
//! # Invariants
//! 1. What stands in code is shown as text, never taken for markup.
//!
//! # In Kubernetes
//! Nothing of this is in Kubernetes.

use std::path::Path;

use pulldown_cmark::{CodeBlockKind, CowStr, Event, Options, Parser, Tag, TagEnd, html};

/// A line of the table of contents.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// What it says.
    pub title: String,
    /// The page, without its ending; none for the name of a part.
    pub page: Option<String>,
    /// How deep it stands.
    pub depth: usize,
}

/// Reads the book's table of contents.
#[must_use]
pub fn contents(summary: &str) -> Vec<Entry> {
    let entry = |line: &str| {
        let depth = (line.len() - line.trim_start().len()) / 2;
        let text = line.trim_start();
        if let Some(part) = text.strip_prefix("# ").filter(|part| *part != "Summary") {
            return Some(Entry { title: part.trim().to_owned(), page: None, depth: 0 });
        }
        let text = text.trim_start_matches(['-', '*', ' ']);
        let (title, rest) = text.strip_prefix('[')?.split_once("](")?;
        let page = rest.split_once(')')?.0.strip_suffix(".md").map(str::to_owned);
        Some(Entry { title: title.to_owned(), page, depth })
    };
    summary.lines().filter_map(entry).collect()
}

/// The page before and the page behind.
#[must_use]
pub fn neighbours<'a>(entries: &'a [Entry], page: &str) -> (Option<&'a Entry>, Option<&'a Entry>) {
    let pages: Vec<&Entry> = entries.iter().filter(|entry| entry.page.is_some()).collect();
    match pages.iter().position(|entry| entry.page.as_deref() == Some(page)) {
        Some(at) => (at.checked_sub(1).map(|at| pages[at]), pages.get(at + 1).copied()),
        None => (None, None),
    }
}

/// The chapter that tells of a source file: one that shows it, else its stage's first.
#[must_use]
pub fn chapter<'a>(pages: &'a [(String, String)], source: &Path) -> Option<&'a str> {
    let name = format!("/{}", source.display());
    let shows = pages.iter().find(|(_, text)| {
        text.lines().any(|line| line.contains("{{#include") && line.contains(&format!("{name}:")))
    });
    let stage = source.components().next()?.as_os_str().to_str()?.split('-').next()?;
    let of_stage =
        || pages.iter().find(|(page, _)| page.rsplit('/').next().is_some_and(|p| p.starts_with(stage)));
    shows.or_else(of_stage).map(|(page, _)| page.as_str())
}

/// Text for HTML.
#[must_use]
pub fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            other => out.push(other),
        }
    }
    out
}

/// A heading's id, as mdbook makes it.
fn slug(heading: &str) -> String {
    let words = heading.chars().filter_map(|c| match c {
        c if c.is_alphanumeric() || c == '_' || c == '-' => c.to_lowercase().next(),
        c if c.is_whitespace() => Some('-'),
        _ => None,
    });
    words.collect()
}

/// A link to a page of the book leads to where this server shows it.
fn link(target: CowStr<'_>) -> CowStr<'_> {
    if target.contains("://") || target.starts_with('#') {
        return target;
    }
    let (path, part) = target.split_once('#').map_or((&*target, None), |(path, part)| (path, Some(part)));
    match path.strip_suffix(".md") {
        Some(page) => {
            format!("{page}.html{}", part.map(|part| format!("#{part}")).unwrap_or_default()).into()
        }
        None => target,
    }
}

/// A page as HTML, and its title.
#[must_use]
pub fn render(text: &str) -> (String, String) {
    let options = Options::ENABLE_TABLES
        | Options::ENABLE_FOOTNOTES
        | Options::ENABLE_STRIKETHROUGH
        | Options::ENABLE_TASKLISTS;
    let mut events: Vec<Event<'_>> = Parser::new_ext(text, options).collect();
    let mut title = String::new();
    for at in 0..events.len() {
        let heading: String = match &events[at] {
            Event::Start(Tag::Heading { .. }) => {
                let inside =
                    events[at..].iter().take_while(|event| !matches!(event, Event::End(TagEnd::Heading(_))));
                inside
                    .filter_map(
                        |event| if let Event::Text(t) | Event::Code(t) = event { Some(&**t) } else { None },
                    )
                    .collect()
            }
            _ => String::new(),
        };
        match &mut events[at] {
            Event::Start(Tag::Heading { level, id, .. }) => {
                *id = Some(slug(&heading).into());
                if title.is_empty() && *level == pulldown_cmark::HeadingLevel::H1 {
                    title = heading.trim().to_owned();
                }
            }
            Event::Start(Tag::Link { dest_url, .. }) => {
                *dest_url = link(std::mem::replace(dest_url, "".into()))
            }
            event @ Event::Start(Tag::CodeBlock(_)) => {
                let Event::Start(Tag::CodeBlock(kind)) = &event else { continue };
                let language = match kind {
                    CodeBlockKind::Fenced(info) => {
                        info.split([',', ' ']).next().unwrap_or_default().to_owned()
                    }
                    CodeBlockKind::Indented => String::new(),
                };
                *event = Event::Html(
                    format!("<pre tabindex=\"0\"><code class=\"language-{}\">", escape(&language)).into(),
                );
            }
            event @ Event::End(TagEnd::CodeBlock) => *event = Event::Html("</code></pre>\n".into()),
            _ => {}
        }
    }
    let mut out = String::with_capacity(text.len() * 2);
    html::push_html(&mut out, events.into_iter());
    (out, title)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_of_contents_has_parts_depths_and_neighbours() {
        let entries = contents(
            "# Summary\n\n[Start](start.md)\n\n# Part\n\n- [One](a/one.md)\n  - [Two](two.md)\n- [Draft]()\n",
        );
        let told: Vec<(&str, Option<&str>, usize)> =
            entries.iter().map(|entry| (entry.title.as_str(), entry.page.as_deref(), entry.depth)).collect();
        let expected = [
            ("Start", Some("start"), 0),
            ("Part", None, 0),
            ("One", Some("a/one"), 0),
            ("Two", Some("two"), 1),
            ("Draft", None, 0),
        ];
        assert_eq!(told, expected);
        let (before, behind) = neighbours(&entries, "a/one");
        assert_eq!((before.unwrap().title.as_str(), behind.unwrap().title.as_str()), ("Start", "Two"));
        assert_eq!(neighbours(&entries, "gone"), (None, None));
    }

    #[test]
    fn a_page_becomes_html_with_ids_links_and_code_as_text() {
        let (html, title) = render(
            "# Say *no* <now>\n\n[next](stage5.md#run) [web](https://example.org/a.md)\n\n```rust,ignore\nlet a: Vec<u8> = b;\n```\n",
        );
        assert_eq!(title, "Say no");
        assert!(html.contains("<a href=\"stage5.html#run\">next</a>"), "{html}");
        assert!(html.contains("href=\"https://example.org/a.md\""), "{html}");
        let code =
            "<pre tabindex=\"0\"><code class=\"language-rust\">let a: Vec&lt;u8&gt; = b;\n</code></pre>";
        assert!(html.contains(code), "{html}");
        assert!(
            render("## Filter, score\n").0.contains("<h2 id=\"filter-score\">"),
            "{}",
            render("## Filter, score\n").0
        );
    }

    #[test]
    fn a_source_leads_to_the_chapter_that_shows_it_or_to_its_stages_first() {
        let pages = [
            ("stage4".to_owned(), "text".to_owned()),
            ("rules".to_owned(), "{{#include ../../stage4-scheduler/src/plugins.rs:fits}}".to_owned()),
        ];
        assert_eq!(chapter(&pages, Path::new("stage4-scheduler/src/plugins.rs")), Some("rules"));
        assert_eq!(chapter(&pages, Path::new("stage4-scheduler/src/queue.rs")), Some("stage4"));
        assert_eq!(chapter(&pages, Path::new("stage9-none/src/queue.rs")), None);
    }
}
