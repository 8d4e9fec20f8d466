//! What happened in a run of executors, and the rules that every run must keep.
//!
//! The simulator writes a history while it runs. Suites and the chaos program make one afterwards, from the requests that the
//! API server recorded, from watches and from the events service. The rules do not know the difference.
//!
//! | module | content |
//! | --- | --- |
//! | `history` | the entries, in the order of the API server's revisions |
//! | `plan` | the tasks of a run, and how each of them must end |
//! | `traces` | what people did to objects and actions |
//! | `check` | the rules |

pub mod check;
pub mod history;
pub mod plan;
pub mod traces;
