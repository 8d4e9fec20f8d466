//! The capacity of this machine.

use std::fs;
use std::path::Path;

use aileron_kubekit::quantity::{Format, Quantity};

use crate::node::resources::Amounts;

/// Memory of a machine without `/proc/meminfo`: 8 GiB, enough for small tasks.
const DEFAULT_MEMORY: i64 = 8 << 30;
/// Maximum number of pods, the default of a kubelet.
const MAX_PODS: i64 = 110;

/// Processors, memory, disk space and the maximum number of pods.
pub(crate) fn of_this_machine() -> Amounts {
    let cpus = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let memory =
        fs::read_to_string("/proc/meminfo").ok().and_then(|text| total_memory(&text)).unwrap_or(DEFAULT_MEMORY);
    let decimal = |value| Quantity::new(value, Format::DecimalSi);
    let binary = |value| Quantity::new(value, Format::BinarySi);
    let mut amounts = Amounts::from([
        ("cpu".to_owned(), decimal(i64::try_from(cpus).unwrap_or(1))),
        ("memory".to_owned(), binary(memory)),
        ("pods".to_owned(), decimal(MAX_PODS)),
    ]);
    if let Some(disk) = disk(&std::env::temp_dir()) {
        amounts.insert("ephemeral-storage".to_owned(), binary(disk));
    }
    amounts
}

fn total_memory(meminfo: &str) -> Option<i64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kilobytes: i64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kilobytes.checked_mul(1024)
}

fn disk(path: &Path) -> Option<i64> {
    let disk = rustix::fs::statvfs(path).ok()?;
    i64::try_from(disk.f_blocks.checked_mul(disk.f_frsize)?).ok()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_read_in_kilobytes() {
        assert_eq!(total_memory("MemTotal:        2048 kB\nMemFree: 1 kB\n"), Some(2048 * 1024));
        assert_eq!(total_memory("MemFree: 1 kB\n"), None);
    }

    #[test]
    fn this_machine_has_cpu_memory_and_pods() {
        let capacity = of_this_machine();
        assert!(capacity["cpu"].value() >= 1);
        assert!(capacity["memory"].value() > 1 << 20);
        assert_eq!(capacity["pods"].value(), MAX_PODS);
    }
}
