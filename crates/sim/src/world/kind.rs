//! Kinds of events of the world itself.

use crate::charge::kind::OTHERS_STILL;
use crate::net::event::ARRIVAL;

/// A deadline. The argument is the timer's generation.
pub(super) const TIMER: u8 = OTHERS_STILL;
/// A command. The argument is its number.
pub(super) const COMMAND: u8 = OTHERS_STILL + 1;
/// A message that its node held back can leave. No argument.
pub(super) const HELD: u8 = OTHERS_STILL + 2;

// No own event has the kind of an event from another node.
const _: () = assert!(HELD < ARRIVAL);
