//! The boundary of stage 1: what kubectl prints and sends, case by case, against the recordings of a stock kubectl.
//!
//! Each case is a command with its input files, and what a stock kubectl wrote to stdout and stderr, its exit code and the
//! requests that it made. The cases and their runner live beside the workspace (`STAGES_CASES_DIR`); without them the test
//! says so and passes. The floor only rises: a case that passed must not fail again.
#![expect(clippy::disallowed_methods, reason = "a test that starts kubectl")]

use std::path::PathBuf;
use std::process::Command;

/// At least so many cases pass.
const FLOOR: usize = 313;

fn cases() -> Option<PathBuf> {
    let beside = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../shared/cases");
    let dir = std::env::var_os("STAGES_CASES_DIR").map_or(beside, PathBuf::from);
    dir.join("runner/oracle.py").exists().then_some(dir)
}

/// A port that was free a moment ago.
fn free_port() -> u16 {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("loopback has free ports");
    listener.local_addr().expect("a bound socket has an address").port()
}

#[test]
fn kubectl_does_what_a_stock_kubectl_does() {
    let Some(dir) = cases() else {
        println!("skipped: no cases");
        return;
    };
    let output = Command::new("python3")
        .arg(dir.join("runner/oracle.py"))
        .arg(env!("CARGO_BIN_EXE_kubectl"))
        .args(["--port", &free_port().to_string()])
        .output();
    let Ok(output) = output else {
        println!("skipped: no python3");
        return;
    };
    let text = String::from_utf8_lossy(&output.stdout);
    println!("{text}");
    let last = text.lines().last().unwrap_or_default();
    let passed: usize = last.split(' ').next().and_then(|n| n.parse().ok()).unwrap_or(0);
    assert!(
        passed >= FLOOR,
        "{passed} cases pass, the floor is {FLOOR}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
}
