//! Ctrl-C: the terminal signals the whole process group; the server stops first, its etcd last and in silence.
#![cfg(feature = "etcd")]
#![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "test: starts and stops the server")]

use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;

fn etcd_is_there() -> bool {
    let paths = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&paths).any(|directory| directory.join("etcd").is_file());
    if !found {
        assert!(std::env::var_os("STAGES_REQUIRE_REAL").is_none(), "etcd is required but not installed");
        println!("skipped: no etcd");
    }
    found
}

/// The log up to (and with) a line that says something.
fn read_until(log: &mut impl BufRead, said: &str) -> String {
    let mut all = String::new();
    while !all.contains(said) {
        assert_ne!(log.read_line(&mut all).unwrap(), 0, "the server ended: {all}");
    }
    all
}

#[test]
fn etcd_outlives_the_signal_and_then_goes_without_a_word() {
    if !etcd_is_there() {
        return;
    }
    for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGINT] {
        let directory = tempfile::tempdir().unwrap();
        let mut server = Command::new(env!("CARGO_BIN_EXE_kube-apiserver"))
            .args(["--store", "etcd", "--secure-port", "0", "--state-dir"])
            .arg(directory.path())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .process_group(0)
            .spawn()
            .unwrap();
        let mut log = BufReader::new(server.stderr.take().unwrap());
        let start = read_until(&mut log, "The API server is ready");
        let etcd = start.split("started as process ").nth(1).unwrap();
        let etcd: String = etcd.chars().take_while(char::is_ascii_digit).collect();
        assert!(Path::new("/proc").join(&etcd).exists());
        killpg(Pid::from_raw(i32::try_from(server.id()).unwrap()), signal).unwrap();
        let mut rest = String::new();
        log.read_to_string(&mut rest).unwrap();
        assert!(server.wait().unwrap().success(), "{rest}");
        assert!(!rest.contains("WARN") && !rest.contains("ERROR"), "{rest}");
        assert!(!Path::new("/proc").join(&etcd).exists(), "etcd is gone");
    }
}
