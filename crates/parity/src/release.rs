//! What a release consists of: archives of the program, the image, the chart, bills of materials and checksums.
//!
//! The same commit gives the same bytes: every time is that of the commit, every owner is root, and no file of the machine gets
//! into the result.

mod chart;
mod dist;
mod dockerfile;
mod elf;
mod image;
mod program;
mod root_certificates;
mod tar;

pub use self::chart::package_chart;
pub use self::dist::{Sources, dist};
pub use self::dockerfile::{CopiedFile, Recipe, Stage, stages};
pub use self::elf::{Architecture, Elf};
pub use self::image::{Image, layout};
pub use self::program::{BuildRequest, Program, build};
pub use self::root_certificates::root_certificates;
pub use self::tar::{Entry, Kind, archive, entries, gzip};
