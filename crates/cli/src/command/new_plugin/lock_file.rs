//! The order of a lock file: cargo refuses one in another order where it must not write it.

/// A lock file with its packages, and the dependencies of each, in the order of their names.
pub fn sorted(lock: &str) -> String {
    let mut parts = lock.split("[[package]]\n");
    let head = parts.next().unwrap_or_default();
    let mut packages: Vec<_> = parts.map(|package| with_sorted_dependencies(package.trim_end())).collect();
    // Versions of one package are in order already.
    packages.sort_by_key(|package| name(package));
    let packages = packages.iter().map(|package| format!("[[package]]\n{package}\n"));
    format!("{head}{}", packages.collect::<Vec<_>>().join("\n"))
}

fn with_sorted_dependencies(package: &str) -> String {
    let (mut before, mut dependencies, mut after) = (Vec::new(), Vec::new(), Vec::new());
    for line in package.lines() {
        match line {
            _ if line.starts_with(" \"") => dependencies.push(line),
            _ if dependencies.is_empty() => before.push(line),
            _ => after.push(line),
        }
    }
    // By name, not by text: a quotation mark or a space ends a name.
    let name = |line: &str| line.trim_matches([' ', '"', ',']).split(' ').next().unwrap_or_default().to_owned();
    dependencies.sort_by_key(|line| name(line));
    [before, dependencies, after].concat().join("\n")
}

fn name(package: &str) -> String {
    package.lines().find_map(|line| line.strip_prefix("name = ")).unwrap_or_default().trim_matches('"').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_and_dependencies_are_sorted_by_name() {
        let lock = "version = 4\n\n[[package]]\nname = \"b\"\nversion = \"1\"\ndependencies = [\n \"z\",\n \"a-b\",\n \"a\",\n]\n\n\
                    [[package]]\nname = \"a\"\nversion = \"1\"\n";
        let expected = "version = 4\n\n[[package]]\nname = \"a\"\nversion = \"1\"\n\n[[package]]\nname = \"b\"\nversion = \"1\"\n\
                        dependencies = [\n \"a\",\n \"a-b\",\n \"z\",\n]\n";
        assert_eq!(sorted(lock), expected);
    }
}
