//! The book's console blocks, typed in the order of the book at one cluster in a fresh state directory.
//!
//! What differs from run to run is masked on both sides: times, ages, random names, addresses, identifiers. With `STAGES_BLESS=1` the
//! outputs in the pages are replaced by those of this run where they differ. Commands that only read are repeated for a while, because
//! a reader, too, looks again.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use labs::book::console::{Step, reading_order, rewrite, steps};
use regex::Regex;

use crate::cluster::{Pipeline, binary, skip, text};

/// What differs from run to run, most special first.
const MASKS: [(&str, &str); 19] = [
    (r"worker process \d+", "worker process N"),
    // Where a journey's step was decided; told once for steps of one place in a row.
    (r" *\[\S+\.rs:\d+\]", ""),
    (r"revision \d+", "revision N"),
    (r" ×\d+, last [+][\d.]+ m?s", ""),
    (r"\d{4}-\d\d-\d\dT[\d:.]+Z", "TIME"),
    (r"[A-Z][a-z]{2}, \d\d [A-Z][a-z]{2} \d{4} \d\d:\d\d:\d\d [+-]\d{4}", "TIME"),
    (r"\d{4}/\d\d/\d\d \d\d:\d\d:\d\d", "TIME"),
    (r"\d\d/[A-Z][a-z]{2}/\d{4}:\d\d:\d\d:\d\d [+-]\d{4}", "TIME"),
    (r"\d\d:\d\d:\d\d(\.\d+)?", "TIME"),
    (r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", "UID"),
    (r"[0-9a-f]{64}", "DIGEST"),
    (r"\b\d{1,3}(\.\d{1,3}){3}\b", "IP"),
    (r"-[bcdfghjklmnpqrstvwxz2456789]{5,10}\b", "-RAND"),
    (r"\(x\d+ over [^)]*\)", "(AGAIN)"),
    (r"[+]?\b\d+(\.\d+)? ?(µs|ms|s|m|h|d)(\d+(s|m|h))?\b", "AGE"),
    (r#"resourceVersion"?[:=] ?"?\d+"#, "resourceVersion: N"),
    (r"\b\d+#\d+:", "PID:"),
    (r":\d{4,5}\b", ":PORT"),
    (r"[ \t]+", " "),
];

struct Mask(Vec<(Regex, &'static str)>);

impl Mask {
    fn new() -> Self {
        Self(MASKS.iter().map(|(pattern, word)| (Regex::new(pattern).unwrap(), *word)).collect())
    }

    fn apply(&self, text: &str) -> String {
        let masked = self
            .0
            .iter()
            .fold(text.to_owned(), |text, (pattern, word)| pattern.replace_all(&text, *word).into_owned());
        masked.lines().map(str::trim_end).collect::<Vec<_>>().join("\n").trim_end().to_owned()
    }
}

fn source() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().join("book/src")
}

/// What must be equal. The steps of a journey and the events of a
/// second come from several programs: their order differs from run to run, and so does how often one is told.
fn comparable(mask: &Mask, command: &str, output: &str) -> String {
    let masked = mask.apply(output);
    if !command.starts_with("kubectl journey") && !command.starts_with("kubectl events") {
        return masked;
    }
    let mut lines: Vec<&str> = masked.lines().collect();
    lines.sort_unstable();
    lines.dedup();
    lines.join("\n")
}

/// Commands that change nothing may be typed again.
fn only_reads(command: &str) -> bool {
    let words: Vec<&str> = command.split_whitespace().collect();
    let verb = words.get(1).copied().unwrap_or_default();
    words.first() == Some(&"kubectl")
        && matches!(
            verb,
            "get" | "describe" | "logs" | "events" | "journey" | "auth" | "explain" | "exec" | "why"
        )
}

fn run(pipeline: &Pipeline, place: &Path, command: &str) -> String {
    let bin = binary("kubectl");
    let path = format!("{}:{}", bin.parent().unwrap().display(), std::env::var("PATH").unwrap());
    let output = Command::new("timeout")
        .args(["60", "bash", "-c"])
        .arg(format!("exec 2>&1; {command}"))
        .current_dir(place)
        .env("PATH", path)
        .env("KUBECONFIG", pipeline.dir().join("admin.kubeconfig"))
        .env("STAGES_STATE_DIR", pipeline.dir())
        .env("HOME", pipeline.dir())
        .stdin(Stdio::null())
        .output()
        .unwrap();
    text(&output.stdout)
}

/// What a command prints: at once, or, if it only reads and isn't what is expected, when that doesn't change any more.
fn observe(pipeline: &Pipeline, place: &Path, step: &Step, mask: &Mask, bless: bool) -> String {
    let expected = comparable(mask, &step.command, &step.output);
    let deadline = Instant::now() + Duration::from_secs(if bless { 4 } else { 30 });
    loop {
        let output = run(pipeline, place, &step.command);
        if comparable(mask, &step.command, &output) == expected
            || !only_reads(&step.command)
            || Instant::now() >= deadline
        {
            return output;
        }
        std::thread::sleep(Duration::from_millis(500));
    }
}

/// What was typed so far.
#[derive(Default)]
struct Walk {
    typed: usize,
    stale: Vec<String>,
}

impl Walk {
    /// Types the blocks of the book that are for this cluster, page by page; with `STAGES_BLESS` corrects the pages.
    fn type_all(&mut self, pipeline: &Pipeline, three_nodes: bool) {
        let bless = std::env::var_os("STAGES_BLESS").is_some();
        let mask = Mask::new();
        let place = pipeline.dir().join("reader");
        std::fs::create_dir(&place).unwrap();
        for file in std::fs::read_dir(source().join("manifests")).unwrap().flatten() {
            std::fs::copy(file.path(), place.join(file.file_name())).unwrap();
        }
        for name in reading_order(&std::fs::read_to_string(source().join("SUMMARY.md")).unwrap()) {
            let file = source().join(&name);
            let page = std::fs::read_to_string(&file).unwrap();
            let begun = Instant::now();
            let before = self.typed;
            let outputs: Vec<String> = steps(&page)
                .iter()
                .map(|step| match step.three_nodes == three_nodes {
                    true => self.type_one(pipeline, &place, &name, step, &mask, bless),
                    false => step.output.clone(),
                })
                .collect();
            if self.typed > before {
                println!("{name}: {} commands, {:.1} s", self.typed - before, begun.elapsed().as_secs_f64());
            }
            if bless && rewrite(&page, &outputs) != page {
                std::fs::write(&file, rewrite(&page, &outputs)).unwrap();
            }
        }
    }

    /// Types a command; what the page should show.
    fn type_one(
        &mut self,
        pipeline: &Pipeline,
        place: &Path,
        name: &str,
        step: &Step,
        mask: &Mask,
        bless: bool,
    ) -> String {
        self.typed += 1;
        let output = observe(pipeline, place, step, mask, bless);
        if comparable(mask, &step.command, &output) == comparable(mask, &step.command, &step.output) {
            return step.output.clone();
        }
        self.stale.push(format!(
            "{name}:{}: $ {}\n--- shown\n{}--- printed\n{output}",
            step.line, step.command, step.output
        ));
        output
    }
}

#[test]
fn the_book_prints_what_its_commands_print() {
    if skip() {
        return;
    }
    let (start, mut walk) = (Instant::now(), Walk::default());
    let mut pipeline = Pipeline::start(&[]);
    walk.type_all(&pipeline, false);
    assert!(walk.typed >= 50, "only {} commands found", walk.typed);
    pipeline.stop();
    drop(pipeline);
    // As the page says: a lost node is noticed sooner than after the default 40 seconds.
    let mut pipeline = Pipeline::start(&["--nodes", "3", "--node-monitor-grace-period", "8s"]);
    pipeline.wait("three nodes are Ready", || {
        pipeline.get("nodes", r#"{.items[*].status.conditions[?(@.type=="Ready")].status}"#)
            == "True True True"
    });
    walk.type_all(&pipeline, true);
    pipeline.stop();
    println!("{} commands of the book in {:.1} s", walk.typed, start.elapsed().as_secs_f64());
    if std::env::var_os("STAGES_BLESS").is_some() {
        println!("{} outputs replaced:\n{}", walk.stale.len(), walk.stale.join("\n"));
    } else {
        assert!(walk.stale.is_empty(), "outputs that the book shows otherwise:\n{}", walk.stale.join("\n"));
    }
}

#[test]
fn masks_hide_what_changes_and_nothing_else() {
    let mask = Mask::new();
    let one = "pod/web-7c9d8b6f54-x2k4w   1/1   Running   0   5s   10.244.0.7   uid 0b5ad1c4-9d4e-4b1c-8d6e-0123456789ab";
    let two = "pod/web-5d4f8c7b69-zq9wb   1/1   Running   0   1m12s 10.244.0.19 uid 7b5ad1c4-9d4e-4b1c-8d6e-0123456789ac";
    assert_eq!(mask.apply(one), mask.apply(two));
    for other in [one.replace("Running", "Pending"), one.replace("1/1", "0/1"), one.replace("web", "site")] {
        assert_ne!(mask.apply(one), mask.apply(&other));
    }
}
