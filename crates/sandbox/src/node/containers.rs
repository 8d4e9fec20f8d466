//! One run of one container: image, files, process, output.

pub(crate) mod container;
pub(crate) mod images;
pub(crate) mod launch;
pub(crate) mod output;
pub(crate) mod state;
