//! Kinds of events that the network schedules. Unless stated otherwise, the argument is a message or
//! [`PART`](super::PART), and the extra fields are the receiver's number for the sender and the bytes on the wire.

/// The uplink is free. The argument is 1 plus the number of the peer whose paced message left it, or 0.
pub(crate) const UPLINK: u8 = crate::windows::FIRST;
/// A transmission has arrived and is examined.
pub(crate) const DELIVERY: u8 = 1;
/// The same, with the receiver's processor already reserved for it.
pub(crate) const RESERVED: u8 = 2;
/// A part is acknowledged. The extra fields are the sender's end and the bytes.
pub(crate) const ACKNOWLEDGED: u8 = 3;
/// A paced message left the queue without being sent. The argument is its peer.
pub(crate) const READY: u8 = 4;
/// First kind that other modules may use for a node's own events.
pub(crate) const OTHERS: u8 = 5;
/// A first bit arrives.
pub(crate) use crate::windows::ARRIVAL;
