//! Text for people: tables, durations, and writing to the terminal.

pub mod duration;
pub mod output;
pub mod printable;
pub mod table;
