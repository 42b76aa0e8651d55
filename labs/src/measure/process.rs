//! What a process costs: CPU time and memory, from `/proc`.
//!
//! Memory is what the kernel calls resident, split in what only this process has (heap, stacks: *anonymous*) and what is
//! mapped from the program file, which two processes of one program share.
//!
//! # In Kubernetes
//! cAdvisor reads the same from cgroups. Left out: children, which are listed one by one.
#![expect(clippy::disallowed_methods, reason = "shell: reads /proc")]

use std::path::PathBuf;
use std::time::Duration;

/// Clock ticks in a second: what user space sees on every Linux.
const TICKS_PER_SECOND: f64 = 100.0;

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
    parse_cpu_time(&proc_file(pid, "stat")?)
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

/// utime and stime, fields 14 and 15; the name in field 2 may hold spaces and parentheses.
fn parse_cpu_time(stat: &str) -> Option<Duration> {
    let (_, after_name) = stat.rsplit_once(')')?;
    let mut fields = after_name.split_whitespace().skip(11);
    let ticks: f64 = fields.next()?.parse::<f64>().ok()? + fields.next()?.parse::<f64>().ok()?;
    Some(Duration::from_secs_f64(ticks / TICKS_PER_SECOND))
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
    fn cpu_time_is_user_and_system_time_whatever_the_program_is_called() {
        let stat = "7 (a) b (c) S 1 7 7 0 -1 4194560 900 0 3 0 150 50 0 0 20 0 9 0 100 1000 200";
        assert_eq!(parse_cpu_time(stat), Some(Duration::from_secs(2)));
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
