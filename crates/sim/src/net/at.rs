//! What an event of a node may change outside its state machine, for those who charge its work.

use super::loads::Loads;
use super::parts::{Hot, Tally};
use crate::windows::Windows;

/// Context of an event: where and when it happens.
pub(crate) struct At<'a> {
    pub(crate) now: u64,
    pub(crate) node: u32,
    pub(crate) hot: &'a mut Hot,
    pub(crate) tally: &'a mut Tally,
    pub(crate) loads: &'a mut Loads,
    pub(crate) queue: &'a mut Windows,
}
