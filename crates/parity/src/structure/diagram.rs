//! Mermaid diagrams of crates and modules.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use super::{Member, ModuleGraph};

/// Names and, for each, the names that it uses.
type Arrows = BTreeMap<String, BTreeSet<String>>;

/// The crates of a workspace and their dependencies.
pub fn crate_diagram(members: &[Member]) -> String {
    let arrows: Arrows =
        members.iter().map(|member| (member.name.clone(), member.dependencies.iter().cloned().collect())).collect();
    // The crates come with their dependencies first; the diagram shows them the other way round.
    let names: Vec<String> = members.iter().rev().map(|member| member.name.clone()).collect();
    diagram(&names, &arrows)
}

/// The top-level modules of a crate and their dependencies. The modules must be without a cycle.
pub fn module_diagram(graph: &ModuleGraph) -> String {
    let used = |name: &String| graph.uses.get(name).into_iter().flat_map(BTreeMap::keys).cloned().collect();
    let arrows: Arrows = graph.modules.iter().map(|name| (name.clone(), used(name))).collect();
    diagram(&graph.layers().concat(), &arrows)
}

fn diagram(names: &[String], arrows: &Arrows) -> String {
    let mut text = String::from("```mermaid\nflowchart TD\n");
    // Writing to a `String` cannot fail. The prefix avoids mermaid keywords, such as `end`.
    for name in names {
        let _ = writeln!(text, "    n_{}[\"{name}\"]", id(name));
    }
    for name in names {
        let direct = arrows.get(name).into_iter().flatten();
        for other in direct.filter(|other| !is_implied(arrows, name, other)) {
            let _ = writeln!(text, "    n_{} --> n_{}", id(name), id(other));
        }
    }
    text.push_str("```\n");
    text
}

fn id(name: &str) -> String {
    name.replace('-', "_")
}

/// Whether `from` also reaches `to` through other nodes, which makes the direct arrow redundant.
fn is_implied(arrows: &Arrows, from: &str, to: &str) -> bool {
    let mut seen = BTreeSet::new();
    let mut open: Vec<&String> = arrows.get(from).into_iter().flatten().filter(|name| *name != to).collect();
    while let Some(name) = open.pop() {
        if name == to {
            return true;
        }
        if seen.insert(name) {
            open.extend(arrows.get(name).into_iter().flatten());
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn redundant_arrows_are_left_out() {
        let row = |name: &str, used: &[&str]| (name.to_owned(), used.iter().map(|name| (*name).to_owned()).collect());
        let arrows: Arrows = [row("a", &["b", "c"]), row("b", &["c"]), row("c", &[])].into();
        let names = ["a", "b", "c"].map(str::to_owned);
        let expected = "```mermaid\nflowchart TD\n    n_a[\"a\"]\n    n_b[\"b\"]\n    n_c[\"c\"]\n    n_a --> n_b\n    n_b --> n_c\n```\n";
        assert_eq!(diagram(&names, &arrows), expected);
    }
}
