//! The event core: events in total order, and the loop that feeds state machines with them.

mod driver;
mod queue;
#[cfg(test)]
mod tests;

pub(crate) use driver::{Digest, DriveError, Driver, Limits};
pub(crate) use queue::Queue;
