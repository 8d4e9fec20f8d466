//! Mount tables of Linux.

use std::fs;
use std::path::{Path, PathBuf};

/// A line of a mount table that mounts `source` at `target`, with everything that is mounted below it.
pub(crate) fn bind_line(source: &Path, target: &Path) -> String {
    format!("{} {} none rbind 0 0\n", escaped(source), escaped(target))
}

/// Whether this process sees a mount at this path or below it.
pub(crate) fn is_mount_below(path: &Path) -> bool {
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let path = PathBuf::from(escaped(path));
    mounts.lines().filter_map(|line| line.split(' ').nth(4)).any(|target| Path::new(target).starts_with(&path))
}

/// A path in the notation of mount tables, where fields are separated by blanks.
fn escaped(path: &Path) -> String {
    let escape = |letter: char| match letter {
        ' ' | '\t' | '\n' | '\\' | '#' => format!("\\{:03o}", u32::from(letter)),
        letter => letter.to_string(),
    };
    path.display().to_string().chars().map(escape).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_with_blanks_are_escaped() {
        assert_eq!(bind_line(Path::new("/a b"), Path::new("/c\\d")), "/a\\040b /c\\134d none rbind 0 0\n");
    }
}
