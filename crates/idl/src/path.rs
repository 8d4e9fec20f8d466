//! Where in a JSON document the reader stands, so that errors can name the field.

use std::fmt;

/// A position, linked to the position that contains it. Costs nothing until it is shown.
#[derive(Clone, Copy)]
pub(crate) enum Path<'a> {
    /// The document itself, by the name of its type.
    Root(&'a str),
    /// A field of an object.
    Key(&'a Self, &'a str),
    /// An element of a list.
    Index(&'a Self, usize),
}

impl<'a> Path<'a> {
    pub(crate) fn key(&'a self, name: &'a str) -> Self {
        Self::Key(self, name)
    }

    pub(crate) fn index(&'a self, index: usize) -> Self {
        Self::Index(self, index)
    }
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Root(name) => formatter.write_str(name),
            Self::Key(parent, name) => write!(formatter, "{parent}.{name}"),
            Self::Index(parent, index) => write!(formatter, "{parent}[{index}]"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shows_the_whole_way() {
        let root = Path::Root("RayJob");
        let groups = root.key("groups");
        assert_eq!(groups.index(2).key("replicas").to_string(), "RayJob.groups[2].replicas");
    }
}
