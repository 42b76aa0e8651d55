//! As a learner uses the page: with a keyboard, in a real browser, on a narrow screen too.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::json;

use crate::browser::Browser;
use crate::serving::Page;

const POD: &str = "Pod default/web-5d4-x";
const FOCUSED: &str = "document.activeElement?.innerText ?? ''";

/// A pod that a ReplicaSet has asked for.
fn asked_for(page: &Page) {
    page.append(1, "Deployment default/web", "POST", "apply: the server has no such object yet");
    page.append(2, "Deployment default/web", "committed at revision 1", "the object passed all three gates");
    let set = "ReplicaSet default/web-5d4";
    page.append(
        3,
        set,
        &format!("{set} created"),
        "Deployment web has no ReplicaSet for its template yet: revision 1",
    );
    page.append(2, POD, "committed at revision 3", "the object passed all three gates");
    page.append(3, POD, &format!("{POD} created"), "ReplicaSet web-5d4 has 0 of 1 pods");
}

fn lane(stage: u8, state: &str) -> String {
    format!("document.querySelector('.lane[data-stage=\"{stage}\"]')?.classList.contains('{state}') === true")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_learner_watches_a_pod_and_sees_which_hop_is_missing_and_who_decided() {
    let Some(mut browser) = Browser::start().await else { return };
    let page = Page::serve().await;
    browser.size(1280, 900).await;
    browser.open(&page.address).await;
    assert!(
        !browser.value("location.href").await.as_str().unwrap().contains("token"),
        "the token left the address"
    );
    assert_eq!(browser.text("h1").await, "Six Stages");
    browser.wait_for("document.getElementById('source').innerText.startsWith('No step')").await;

    asked_for(&page);
    browser.wait_for(&lane(4, "missing")).await;
    assert_eq!(browser.text("#next").await, "Next: nobody has bound this pod yet: stage ④");
    assert_eq!(browser.text(".lane[data-stage=\"5\"] .says").await, "its turn has not come");
    page.append(4, POD, "bound to node-1", "the best of 3 nodes that can take it");
    browser.wait_for(&lane(4, "done")).await;
    browser.wait_for(&lane(5, "missing")).await;

    // From the first lane down to the scheduler's step, by keyboard alone.
    browser.focus("#lanes button").await;
    for _ in 0..3 {
        browser.press("ArrowDown").await;
    }
    let focused = browser.value(FOCUSED).await;
    assert!(focused.as_str().unwrap().contains("bound to node-1"), "{focused}");
    browser.press("Enter").await;
    browser.wait_for("document.querySelectorAll('#detail .line').length === 17").await;
    let detail = browser.text("#detail").await;
    assert!(detail.contains("the best of 3 nodes that can take it"), "{detail}");
    assert!(detail.contains("stage4-scheduler/src/binding_cycle.rs:84"), "{detail}");
    let chapter = browser.value("document.querySelector('#detail a').pathname").await;
    assert!(chapter.as_str().unwrap().starts_with("/book/"), "{chapter}");

    // A step that comes meanwhile takes nothing away from the reader.
    page.append(5, POD, "admitted", "the node has room for it");
    browser.wait_for(&lane(5, "working")).await;
    assert_eq!(browser.value("document.getElementById('detail').hidden").await, json!(false));
    browser.press("Escape").await;
    browser.wait_for("document.getElementById('detail').hidden").await;
    let focused = browser.value(FOCUSED).await;
    assert!(focused.as_str().unwrap().contains("bound to node-1"), "the focus is back: {focused}");

    // To the ReplicaSet and on to the Deployment.
    browser.wait_for("[...document.querySelectorAll('#relatives button')].some(one => one.innerText === 'Deployment default/web')").await;
    browser.value("[...document.querySelectorAll('#relatives button')].find(one => one.innerText === 'Deployment default/web').click()").await;
    browser.wait_for(&lane(5, "elsewhere")).await;
    browser.assert_content();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_learner_replays_a_recording_by_keyboard_without_a_cluster() {
    let Some(mut browser) = Browser::start().await else { return };
    let page = Page::serve().await;
    browser.size(1280, 900).await;
    browser.open(&page.address).await;
    browser.wait_for("document.getElementById('source').innerText.startsWith('No step')").await;
    browser.focus("#replay-start").await;
    browser.press("Enter").await;
    browser.wait_for("document.querySelectorAll('#lanes button').length > 0").await;
    browser.wait_for("document.getElementById('replay-play').innerText === 'Pause'").await;
    browser.press("p").await;
    browser.wait_for("document.getElementById('replay-play').innerText === 'Play'").await;
    let shown = "Number(document.getElementById('replay-progress').value)";
    let before = browser.value(shown).await.as_f64().unwrap();
    browser.press("n").await;
    browser.wait_for(&format!("{shown} === {}", before + 1.0)).await;
    // Steps are taken until the recording is over.
    browser.value("(async () => { const step = document.getElementById('replay-step'); while (!step.disabled) { step.click(); await new Promise((go) => setTimeout(go, 10)); } })()").await;
    browser.wait_for("document.querySelectorAll('.lane.done').length === 6").await;
    assert_eq!(browser.text("#next").await, "Every stage has done its part.");
    browser.size(1180, 1330).await;
    browser.picture("journey.png").await;
    browser.focus("#replay-end").await;
    browser.press("Enter").await;
    browser.wait_for("document.getElementById('source').innerText.startsWith('No step')").await;
    browser.assert_content();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_fits_a_phone_and_every_control_has_a_name() {
    let Some(mut browser) = Browser::start().await else { return };
    let page = Page::serve().await;
    asked_for(&page);
    browser.size(380, 800).await;
    for path in ["introduction", "stage4"] {
        browser.open(&page.address).await;
        browser.open(&format!("http://127.0.0.1:{}/book/{path}.html", page.port)).await;
        browser.wait_for("document.querySelectorAll('.lane').length === 6").await;
        let wide = browser.value("document.documentElement.scrollWidth").await;
        assert!(wide.as_u64().unwrap() <= 380, "{path} is {wide} px wide");
    }
    let nameless = "[...document.querySelectorAll('button, select, input, a, progress')].filter(one => !(one.innerText || one.getAttribute('aria-label') || one.labels?.length)).map(one => one.outerHTML)";
    assert_eq!(browser.value(nameless).await, json!([]));
    browser.press("Tab").await;
    assert_eq!(browser.value(FOCUSED).await, json!("To the text"), "the first stop is the skip link");
    browser.press("Enter").await;
    browser.wait_for("location.hash === '#text'").await;
    // One stop for the tabs, arrows between them.
    browser.focus("#tab-journey").await;
    browser.press("ArrowRight").await;
    browser
        .wait_for(
            "!document.getElementById('labs').hidden && document.querySelectorAll('.labs li').length > 8",
        )
        .await;
    assert!(browser.text("#labs").await.contains("labs cluster --state-dir"));
    assert_eq!(
        browser.value("[...document.querySelectorAll('.labs button')].every(one => one.disabled)").await,
        json!(true)
    );
    browser.assert_content();
}

/// `labs cluster` or `labs book`, as a learner starts it. Dropping it stops it.
struct Labs {
    child: Child,
    first_line: String,
}

impl Labs {
    fn start(command: &str, dir: &Path) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_labs"))
            .args([command, "--state-dir"])
            .arg(dir)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(std::fs::File::create(dir.join(format!("{command}.log"))).unwrap())
            .spawn()
            .unwrap();
        let mut first_line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut first_line).unwrap();
        let log = std::fs::read_to_string(dir.join(format!("{command}.log"))).unwrap_or_default();
        assert!(!first_line.is_empty(), "labs {command}: {log}");
        Self { child, first_line }
    }
}

impl Drop for Labs {
    fn drop(&mut self) {
        let _ = kill(Pid::from_raw(self.child.id() as i32), Signal::SIGINT);
        let _ = self.child.wait();
    }
}

/// Says why the lab cluster can't run here.
fn no_cluster() -> bool {
    let beside = |name: &str| Path::new(env!("CARGO_BIN_EXE_labs")).with_file_name(name);
    let missing: Vec<&str> =
        ["kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet", "kube-proxy", "kubectl"]
            .into_iter()
            .filter(|name| !beside(name).exists())
            .collect();
    let why = match (
        nix::unistd::geteuid().is_root(),
        missing.is_empty(),
        Path::new("/usr/bin/containerd").exists(),
    ) {
        (false, ..) => "not root".to_owned(),
        (_, false, _) => format!("no {}", missing.join(", ")),
        (.., false) => "no containerd".to_owned(),
        _ => return false,
    };
    assert!(std::env::var_os("STAGES_REQUIRE_REAL").is_none(), "real parts are required: {why}");
    println!("skipped: {why}");
    true
}

#[tokio::test(flavor = "multi_thread")]
async fn a_learner_starts_a_lab_takes_a_hint_hands_in_a_diagnosis_and_resets() {
    if no_cluster() {
        return;
    }
    let Some(mut browser) = Browser::start().await else { return };
    let dir = tempfile::Builder::new().prefix("six").tempdir().unwrap();
    let cluster = Labs::start("cluster", dir.path());
    let book = Labs::start("book", dir.path());
    let address = book.first_line.split_once("http").map(|(_, rest)| format!("http{}", rest.trim()));
    browser.size(1280, 900).await;
    browser.open(&address.expect("labs book prints an address")).await;
    // Its scripts have begun: a key before that would be lost.
    browser.wait_for("document.getElementById('source').innerText !== ''").await;
    browser.focus("#tab-journey").await;
    browser.press("ArrowRight").await;
    browser.wait_for("document.querySelectorAll('.labs button:enabled').length > 8").await;
    browser.focus("[aria-label=\"Start image\"]").await;
    browser.press("Enter").await;
    browser.wait_for("document.querySelector('#lab-brief')?.innerText.length > 20").await;
    browser.focus("#lab-hint").await;
    browser.press("Enter").await;
    browser.wait_for("document.querySelectorAll('#lab-hints li').length === 1").await;
    browser.size(1280, 1240).await;
    browser.value("document.getElementById('panel').scrollTop = 0").await;
    browser.picture("lab.png").await;
    browser.value("document.getElementById('lab-stage').value = '2'").await;
    browser.value("document.getElementById('lab-mechanism').value = 'component-not-running'").await;
    browser.focus("#lab-object").await;
    browser.type_text("Component/kube-apiserver").await;
    browser.focus("#lab-answer").await;
    browser.press("Enter").await;
    browser
        .wait_for("document.getElementById('lab-verdict')?.innerText.startsWith('Wrong stage') === true")
        .await;
    browser.focus("#lab-verify").await;
    browser.press("Enter").await;
    browser
        .wait_for("document.getElementById('lab-verdict')?.innerText.startsWith('Still broken') === true")
        .await;
    browser.focus("#lab-reset").await;
    browser.press("Enter").await;
    browser.wait_for("document.querySelectorAll('.labs button:enabled').length > 8").await;
    browser.assert_content();
    drop((book, cluster));
}
