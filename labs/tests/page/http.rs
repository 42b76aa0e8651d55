//! Over HTTP: the guard, the book, the journeys, the labs.

use std::path::Path;

use serde_json::Value;
use tokio::io::AsyncReadExt as _;

use crate::serving::{PATIENCE, Page};

#[tokio::test]
async fn nobody_gets_in_without_the_token_or_from_elsewhere() {
    let page = Page::serve().await;
    let (cookie, origin) = (page.cookie(), page.origin());
    for path in ["/", "/book/stage4.html", "/api/objects", "/api/events", "/static/page.js", "/?token=wrong"]
    {
        assert_eq!(page.request(&format!("GET {path}"), &[], "").await.status, 401, "{path}");
    }
    let wrong = format!("{}0", &cookie[..cookie.len() - 1]);
    let other = if wrong == cookie { format!("{}1", &cookie[..cookie.len() - 1]) } else { wrong };
    assert_eq!(page.request("GET /", &[&other], "").await.status, 401);
    for foreign in ["Host: evil.example", "Origin: http://evil.example", "Origin: null"] {
        assert_eq!(page.request("GET /api/objects", &[&cookie, foreign], "").await.status, 403, "{foreign}");
        assert_eq!(
            page.request("POST /api/labs/reset", &[&cookie, foreign], "").await.status,
            403,
            "{foreign}"
        );
    }
    assert_eq!(page.request("POST /api/labs/reset", &[&cookie], "").await.status, 403, "no origin");
    assert_eq!(page.request("POST /api/labs/reset", &[&origin], "").await.status, 401, "no token");
    let cross = "Sec-Fetch-Site: cross-site";
    assert_eq!(page.request("POST /api/labs/reset", &[&cookie, &origin, cross], "").await.status, 403);
}

#[tokio::test]
async fn the_printed_address_hands_out_a_cookie_that_scripts_and_other_sites_cannot_use() {
    let page = Page::serve().await;
    let first = page.request(&format!("GET /?token={}", page.token), &[], "").await;
    assert_eq!(first.status, 303);
    assert!(first.head.contains("httponly") && first.head.contains("samesite=strict"), "{}", first.head);
    assert!(!first.head.contains("location: /?token"), "the token leaves the address: {}", first.head);
    let home = page.get("/").await;
    assert_eq!(home.status, 303);
    assert!(home.head.contains("location: /book/introduction.html"), "{}", home.head);
    let book = page.get("/book/introduction.html").await;
    let policy = book.head.lines().find(|line| line.starts_with("content-security-policy")).unwrap();
    assert!(policy.contains("script-src 'self'") && !policy.contains("unsafe"), "{policy}");
}

#[tokio::test]
async fn a_page_of_the_book_shows_the_source_that_it_includes() {
    let page = Page::serve().await;
    let chapter = page.get("/book/stage4.html").await;
    assert_eq!(chapter.status, 200);
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let source = std::fs::read_to_string(root.join("stage4-scheduler/src/schedule_pod.rs")).unwrap();
    let inside: Vec<&str> = source.split("ANCHOR: schedule-pod\n").nth(1).unwrap().lines().collect();
    let line = inside.iter().find(|line| line.contains("pub fn ")).unwrap();
    let shown = line.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    assert!(chapter.body.contains(&shown), "{shown} is not in {}", chapter.body);
    assert!(!chapter.body.contains("{{#include") && !chapter.body.contains("ANCHOR"), "{}", chapter.body);
    assert!(
        chapter.body.contains("aria-current=\"page\"") && chapter.body.contains("href=\"/book/stage5.html\"")
    );
    let scripts: Vec<&str> =
        chapter.body.split("<script").skip(1).filter_map(|rest| rest.split('>').next()).collect();
    assert_eq!(scripts, [" type=\"module\" src=\"/static/page.js\""], "no inline script");
}

#[tokio::test]
async fn every_page_of_the_contents_is_there() {
    let page = Page::serve().await;
    let first = page.get("/book/introduction.html").await.body;
    let pages: Vec<&str> =
        first.split("href=\"/book/").skip(1).filter_map(|rest| rest.split('"').next()).collect();
    assert!(pages.len() >= 7, "{pages:?}");
    for name in pages {
        let answer = page.get(&format!("/book/{name}")).await;
        assert_eq!(answer.status, 200, "{name}");
        assert!(!answer.body.contains("{{#include"), "{name} has an include that leads nowhere");
    }
}

#[tokio::test]
async fn no_path_leads_out_of_the_book_or_the_sources() {
    let page = Page::serve().await;
    for path in [
        "/book/../Cargo.toml",
        "/book/../../README.html",
        "/book/%2e%2e/%2e%2e/README.html",
        "/book/..%2F..%2FREADME.html",
        "/book//etc/passwd.html",
        "/etc/passwd",
        "/static/%2e%2e/frame.rs",
        "/api/source?at=../../etc/passwd:1",
        "/api/source?at=/etc/passwd:1",
        "/api/source?at=stage1-kubectl/src/../../Cargo.toml:1",
        "/api/source?at=labs/setup.sh:1",
    ] {
        assert_eq!(page.get(path).await.status, 404, "{path}");
    }
    let long = "x".repeat((64 << 10) + 1);
    assert_eq!(page.post("/api/labs/answer", &long).await.status, 413);
    assert_eq!(page.get("/api/labs/reset").await.status, 405);
}

#[tokio::test]
async fn a_step_arrives_while_it_happens_and_fills_its_lane() {
    let page = Page::serve().await;
    let mut events = page.send("GET /api/events", &[&page.cookie()], "").await;
    let mut seen = String::new();
    let mut chunk = [0; 4096];
    let mut appended = false;
    tokio::time::timeout(PATIENCE, async {
        while !seen.contains("bound to node-7") {
            let count = events.read(&mut chunk).await.unwrap();
            assert!(count > 0, "the stream ended: {seen}");
            seen.push_str(&String::from_utf8_lossy(&chunk[..count]));
            if seen.contains("event: hello") && !appended {
                appended = true;
                page.append(
                    2,
                    "Pod default/web",
                    "committed at revision 7",
                    "the object passed all three gates",
                );
                page.append(4, "Pod default/web", "bound to node-7", "the best of 3 nodes that can take it");
            }
        }
    })
    .await
    .unwrap();
    assert!(seen.to_lowercase().contains("content-type: text/event-stream"), "{seen}");
    assert!(seen.contains("event: step\ndata: {"), "{seen}");
    let objects: Value = serde_json::from_str(&page.get("/api/objects").await.body).unwrap();
    assert_eq!(objects["choice"], "Pod default/web");
    // Whoever has this list is told so and nothing else, until an object comes or goes.
    let since = format!("/api/objects?since={}", objects["version"]);
    let same: Value = serde_json::from_str(&page.get(&since).await.body).unwrap();
    assert_eq!(same, serde_json::json!({"version": objects["version"]}));
    let answer = page.get("/api/journey?object=Pod%20default/web").await;
    let journey: Value = serde_json::from_str(&answer.body).unwrap();
    let states: Vec<&str> =
        journey["lanes"].as_array().unwrap().iter().map(|lane| lane["state"].as_str().unwrap()).collect();
    assert_eq!(states, ["silent", "done", "passed", "done", "missing", "ahead"]);
    assert_eq!(journey["next"], 5);
    let at = journey["lanes"][3]["steps"][0]["source"].as_str().unwrap();
    let source: Value = serde_json::from_str(&page.get(&format!("/api/source?at={at}")).await.body).unwrap();
    assert_eq!(source["excerpt"]["lines"].as_array().unwrap().len(), 17);
    assert!(source["chapter"].as_str().unwrap().starts_with("/book/"), "{source}");
}

#[tokio::test]
async fn labs_without_a_cluster_say_what_to_type() {
    let page = Page::serve().await;
    let labs: Value = serde_json::from_str(&page.get("/api/labs").await.body).unwrap();
    assert_eq!(labs["cluster"], false);
    let symptom = labs["labs"][0]["symptom"].as_str().unwrap();
    let started = page.post("/api/labs/start", &format!("{{\"symptom\":\"{symptom}\"}}")).await;
    assert_eq!(started.status, 422);
    assert!(started.body.contains("labs cluster"), "{}", started.body);
    for (name, body, status) in
        [("hint", "", 422), ("dance", "", 400), ("answer", "{}", 400), ("start", "nonsense", 400)]
    {
        let answer = page.post(&format!("/api/labs/{name}"), body).await;
        assert_eq!(answer.status, status, "{name}: {}", answer.body);
        let error: Value = serde_json::from_str(&answer.body).unwrap();
        assert!(error["error"].as_str().unwrap().len() > 20, "{name}: {error}");
        let verdict = if name == "hint" { Value::from("NOT_BROKEN") } else { Value::Null };
        assert_eq!(error["verdict"], verdict, "{name}: {error}");
    }
}

#[tokio::test]
async fn the_recording_in_the_program_goes_through_all_six_stages() {
    let page = Page::serve().await;
    let recording: Value = serde_json::from_str(&page.get("/api/recording").await.body).unwrap();
    let (pod, count) = (recording["choice"].as_str().unwrap(), recording["steps"].as_array().unwrap().len());
    assert!(pod.starts_with("Pod "), "{pod}");
    let pod = pod.replace(' ', "%20");
    let at = |until: usize| format!("/api/journey?object={pod}&until={until}");
    let whole: Value = serde_json::from_str(&page.get(&at(count)).await.body).unwrap();
    for lane in whole["lanes"].as_array().unwrap() {
        assert_eq!(lane["state"], "done", "{lane}");
        assert!(!lane["steps"].as_array().unwrap().is_empty(), "{lane}");
    }
    assert_eq!(whole["next"], Value::Null);
    let begun: Value = serde_json::from_str(&page.get(&at(0)).await.body).unwrap();
    assert_eq!(begun["next"], 2);
}

#[tokio::test]
async fn a_recording_of_ones_own_is_replayed_and_a_file_without_steps_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("mine.jsonl");
    let step = r#"{"stage":2,"object":"Pod d/mine","decided":"committed at revision 1","why":"","at_micros":5,"source":""}"#;
    std::fs::write(&file, format!("{step}\n")).unwrap();
    let page = Page::replaying(Some(file.clone())).await;
    let objects: Value = serde_json::from_str(&page.get("/api/objects").await.body).unwrap();
    assert_eq!((&objects["replay"], &objects["choice"]), (&Value::Bool(true), &Value::from("Pod d/mine")));
    std::fs::write(&file, "no step\n").unwrap();
    let flags = labs::page::BookFlags { port: 0, replay: Some(file), repository: None };
    let state_dir = stage1_kubectl::state_dir::StateDir::new(Some(dir.path().to_owned())).unwrap();
    let refused = labs::page::server::Server::bind(state_dir, &flags).await.err().unwrap().to_string();
    assert!(refused.ends_with("mine.jsonl: there is no journey step in it"), "{refused}");
}
