//! The processes of this machine, read from `/proc`. Without `/proc` no process is found.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use rustix::process::Pid;

/// One process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub pid: i32,
    pub parent: i32,
    pub group: i32,
}

/// All processes.
pub(crate) fn read() -> Vec<Entry> {
    let stat = |pid: i32| entry(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?);
    numbers().filter_map(stat).collect()
}

fn numbers() -> impl Iterator<Item = i32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// Parses `/proc/<pid>/stat`. The program name is in parentheses and may itself contain parentheses and blanks.
fn entry(stat: &str) -> Option<Entry> {
    let (pid, _) = stat.split_once(' ')?;
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_ascii_whitespace().skip(1);
    let mut next = || fields.next()?.parse().ok();
    Some(Entry { pid: pid.parse().ok()?, parent: next()?, group: next()? })
}

/// The processes of a group and all their descendants, including those that have left the group.
pub(crate) fn members(table: &[Entry], leader: i32) -> BTreeSet<i32> {
    let mut children: BTreeMap<i32, Vec<i32>> = BTreeMap::new();
    for entry in table {
        children.entry(entry.parent).or_default().push(entry.pid);
    }
    let mut found = BTreeSet::new();
    let mut open: Vec<i32> = table.iter().filter(|entry| entry.group == leader).map(|entry| entry.pid).collect();
    while let Some(pid) = open.pop() {
        if found.insert(pid) {
            open.extend(children.get(&pid).into_iter().flatten());
        }
    }
    found
}

/// Processes with an environment variable that starts with `prefix` (`NAME=value`). `/proc` shows the environment at
/// the start of the process.
pub(crate) fn with_variable(prefix: &str) -> Vec<Pid> {
    let has_variable = |pid: &i32| {
        let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(|variable| variable.starts_with(prefix.as_bytes()))
    };
    numbers().filter(has_variable).filter_map(Pid::from_raw).collect()
}

/// Memory of processes in bytes. The resident sizes are added first, which is fast but counts shared pages several
/// times. Only if this sum is above `limit`, shared pages are counted proportionally, which is slow.
pub(crate) fn memory(pids: &BTreeSet<i32>, limit: u64) -> u64 {
    let sum = |file: &str, field: &str| -> u64 {
        let one = |pid: &i32| kilobytes(&fs::read_to_string(format!("/proc/{pid}/{file}")).ok()?, field);
        pids.iter().filter_map(one).sum::<u64>().saturating_mul(1024)
    };
    let resident = sum("status", "VmRSS:");
    if resident <= limit {
        return resident;
    }
    match sum("smaps_rollup", "Pss:") {
        // The system does not have this file.
        0 => resident,
        proportional => proportional,
    }
}

fn kilobytes(text: &str, field: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(field))?;
    line.trim().strip_suffix("kB")?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_name_may_contain_parentheses() {
        let expected = Some(Entry { pid: 12, parent: 3, group: 7 });
        assert_eq!(entry("12 (sh) S 3 7 7 0 -1"), expected);
        assert_eq!(entry("12 (a) b (c) S 3 7 7 0"), expected);
        assert_eq!(entry("nonsense"), None);
    }

    #[test]
    fn a_process_that_left_the_group_is_still_a_member() {
        let entry = |pid, parent, group| Entry { pid, parent, group };
        let table = [entry(10, 1, 10), entry(11, 10, 10), entry(12, 11, 12), entry(13, 12, 12), entry(20, 1, 20)];
        assert_eq!(members(&table, 10), BTreeSet::from([10, 11, 12, 13]));
    }

    #[test]
    fn kilobytes_are_read_by_the_name_of_the_field() {
        assert_eq!(kilobytes("Name:\tx\nVmRSS:\t    2048 kB\n", "VmRSS:"), Some(2048));
        assert_eq!(kilobytes("Pss_Dirty: 9 kB\nPss:   7 kB", "Pss:"), Some(7));
        assert_eq!(kilobytes("", "Pss:"), None);
    }
}
