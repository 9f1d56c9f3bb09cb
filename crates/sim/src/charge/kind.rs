//! Kinds of events of processors.

use crate::net::event::OTHERS;

/// An inline job ends; the argument is its number here.
pub(crate) const INLINE: u8 = OTHERS;
/// A job on a lane ends; the argument holds lane and generation.
pub(crate) const LANE: u8 = OTHERS + 1;
/// The scheduler has work to do; the argument is the generation.
pub(crate) const PLAN: u8 = OTHERS + 2;
/// First event kind available to other modules.
pub(crate) const OTHERS_STILL: u8 = OTHERS + 3;
