//! Bad pages, one per kind of defect.

use super::*;

fn messages(page: &str) -> Vec<String> {
    let source = "// ANCHOR: open\nfn x() {}\n// ANCHOR: good\nfn y() {}\n// ANCHOR_END: good\n// ANCHOR: none\n\n// ANCHOR_END: none\n\
                  // ANCHOR: twice\nfn a() {}\n// ANCHOR_END: twice\n// ANCHOR: twice\nfn b() {}\n// ANCHOR_END: twice\nmod part;\n";
    let item = "// ANCHOR: item\nfn z() {}\n// ANCHOR_END: item\n";
    let tree = Tree::from([
        (PathBuf::from("a/lib.rs"), source.to_owned()),
        (PathBuf::from("a/part.rs"), item.to_owned()),
        (PathBuf::from("a/orphan.rs"), item.to_owned()),
        (PathBuf::from("book/src/other.md"), "# Other\n\n## A Part, of it\n".to_owned()),
    ]);
    check_page(Path::new("book/src/page.md"), page, &tree).into_iter().map(|f| f.message).collect()
}

#[test]
fn a_good_page_has_no_findings() {
    let page = "# Top\n```rust,ignore\n{{#include ../../a/lib.rs:good}}\n```\n```rust,ignore\n{{#include ../../a/part.rs:item}}\n```\n[there](other.md#a-part-of-it) [up](#top)\n\
                [web](https://example.org) `a/lib.rs::y`\n<!-- not run: no cluster -->\n```console,norun\n$ ls\n```\n";
    assert!(messages(page).is_empty(), "{:?}", messages(page));
}

#[test]
fn each_kind_of_defect_is_found() {
    let cases = [
        ("{{#include ../../a/lib.rs:nope}}", "a/lib.rs has no anchor nope"),
        ("{{#include ../../a/lib.rs:open}}", "anchor open in a/lib.rs is never closed"),
        ("{{#include ../../a/lib.rs:none}}", "anchor none in a/lib.rs encloses nothing"),
        ("{{#include ../../a/lib.rs:twice}}", "anchor twice stands more than once in a/lib.rs"),
        ("{{#include ../../a/orphan.rs:item}}", "a/orphan.rs belongs to no module: it is never compiled"),
        ("{{#include ../../a/gone.rs}}", "include of ../../a/gone.rs: there is no a/gone.rs"),
        ("```rust\nfn main() {}\n```", "Rust block is not an include of compiled source"),
        ("```rs\nfn main() {}\n```", "Rust block is not an include of compiled source"),
        ("~~~rust", "fence of tildes: use backticks"),
        ("```console\n\n```", "code block is empty"),
        ("```console\nnothing\n```", "console block has no command"),
        ("```console\n$ ls", "code block is never closed"),
        ("- so:\n  ```console\n$ ls\n  ```", "console block is indented: no test would type it"),
        ("```console\n$ ls\n  $ ls\n```", "a command doesn't begin its line: no test would type it"),
        ("```console\n$ ls \\\n-l\n```", "a command goes on in the next line: write it in one"),
        ("```sh\n$ ls\n```", "commands stand in a block that isn't console: no test would type them"),
        (
            "<!-- not run: no cluster -->\n```console,norun\n$ ls\nfile\n```",
            "a block that is not run shows output",
        ),
        ("```console,norun\n$ ls\n```", "no `<!-- not run: …` above says why this block is not run"),
        ("see [this](gone.md)", "link to gone.md: there is no book/src/gone.md"),
        ("see [this](other.md#gone)", "link to other.md#gone: no heading has the id gone"),
        ("see [this]\n\n[this]: gone.md", "link to gone.md: there is no book/src/gone.md"),
        ("<a href=\"gone.md\">x</a>", "link to gone.md: there is no book/src/gone.md"),
        ("<img src=\"gone.png\">", "link to gone.png: there is no book/src/gone.png"),
        ("see [this](#gone)", "link to #gone: no heading has the id gone"),
        ("guarded by `a/lib.rs::z`", "a/lib.rs has no test z"),
        ("guarded by `b/lib.rs::z`", "there is no b/lib.rs"),
    ];
    for (page, expected) in cases {
        assert_eq!(messages(page), [expected], "page {page:?}");
    }
}

#[test]
fn an_include_is_put_in_without_its_markers_and_a_bad_one_stays_visible() {
    let read = |path: &Path| {
        let file =
            "// ANCHOR: all\nfn a() {}\n// ANCHOR: b\nfn b() {}\n// ANCHOR_END: b\n// ANCHOR_END: all\n";
        (path == Path::new("a/lib.rs")).then(|| file.to_owned())
    };
    let page = Path::new("book/src/page.md");
    let put = |argument: &str| expand(page, &format!("{{{{#include {argument}}}}}"), &read);
    assert_eq!(put("../../a/lib.rs:b"), "fn b() {}\n");
    assert_eq!(put("../../a/lib.rs:all"), "fn a() {}\nfn b() {}\n");
    assert_eq!(put("../../a/lib.rs"), "fn a() {}\nfn b() {}\n");
    assert_eq!(put("../../a/lib.rs:2:2"), "fn a() {}\n");
    for bad in ["../../a/lib.rs:none", "../../a/gone.rs"] {
        assert_eq!(put(bad), format!("{{{{#include {bad}}}}}\n"));
    }
}
