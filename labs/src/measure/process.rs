//! What a process costs: CPU time from its own clock, memory from `/proc`.
//!
//! CPU time isn't taken from `/proc/PID/stat`: that counts the timer ticks that found the process running, and who is woken by
//! timers is found by each of them. A pipeline at rest looked ten times as busy as it is.
//!
//! Memory is what the kernel calls resident, split in what only this process has (heap, stacks: *anonymous*) and what is
//! mapped from the program file, which two processes of one program share.
//!
//! # In Kubernetes
//! cAdvisor reads the same from cgroups. Left out: children, which are listed one by one.
#![expect(clippy::disallowed_methods, reason = "shell: reads /proc")]

use std::path::PathBuf;
use std::time::Duration;

use nix::time::ClockId;
use nix::unistd::Pid;

/// Resident memory, in MiB.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Memory {
    /// All of it.
    pub resident: f64,
    /// Heap and stacks.
    pub anonymous: f64,
}

fn proc_file(pid: u32, name: &str) -> Option<String> {
    std::fs::read_to_string(PathBuf::from(format!("/proc/{pid}/{name}"))).ok()
}

/// CPU time that a process has used so far.
pub fn cpu_time(pid: u32) -> Option<Duration> {
    let clock = ClockId::pid_cpu_clock_id(Pid::from_raw(i32::try_from(pid).ok()?)).ok()?;
    Some(Duration::from(clock.now().ok()?))
}

/// What a process has in memory now.
pub fn memory(pid: u32) -> Option<Memory> {
    parse_memory(&proc_file(pid, "status")?)
}

/// Its direct children: pid and program name.
pub fn children(pid: u32) -> Vec<(u32, String)> {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let lists = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("children")).ok());
    let pids: Vec<u32> = lists
        .flat_map(|list| list.split_whitespace().filter_map(|pid| pid.parse().ok()).collect::<Vec<_>>())
        .collect();
    pids.into_iter().filter_map(|child| Some((child, proc_file(child, "comm")?.trim().to_owned()))).collect()
}

fn parse_memory(status: &str) -> Option<Memory> {
    let of = |key: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'))?;
        let kibibytes: f64 = line.split_whitespace().next()?.parse().ok()?;
        Some(kibibytes / 1024.0)
    };
    Some(Memory { resident: of("VmRSS")?, anonymous: of("RssAnon")? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_time_is_what_this_process_worked_and_not_how_often_it_was_seen_working() {
        let pid = std::process::id();
        let before = cpu_time(pid).unwrap();
        let clock = ClockId::CLOCK_THREAD_CPUTIME_ID;
        let (began, spell) = (Duration::from(clock.now().unwrap()), Duration::from_millis(3));
        while Duration::from(clock.now().unwrap()) - began < spell {}
        assert!(cpu_time(pid).unwrap() - before >= spell);
        assert_eq!(cpu_time(u32::MAX), None);
    }

    #[test]
    fn memory_is_given_in_mebibytes() {
        let status = "Name:\tx\nVmRSS:\t   2048 kB\nRssAnon:\t    1024 kB\nRssFile:\t 1024 kB\n";
        assert_eq!(parse_memory(status), Some(Memory { resident: 2.0, anonymous: 1.0 }));
        assert_eq!(parse_memory("Name:\tkthreadd\n"), None);
    }

    #[test]
    fn this_very_process_has_cpu_time_memory_and_a_child() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let is_child =
            |found: &[(u32, String)]| found.iter().any(|(pid, name)| *pid == child.id() && name == "sleep");
        // The name is that of the parent until the program has replaced it.
        let mut looks = std::iter::repeat_with(|| children(std::process::id())).take(10_000);
        let seen = looks.any(|found| is_child(&found));
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(seen, "no child named sleep: {:?}", children(std::process::id()));
        assert!(memory(std::process::id()).unwrap().resident > 0.5);
        assert!(cpu_time(std::process::id()).is_some());
    }
}
