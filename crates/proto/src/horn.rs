//! Horn: two layers of aggregation, from single votes to one collection a committee.
//!
//! G. Kadianakis and F. D'Amato, "Horn: collecting signatures for faster finality",
//! ethresear.ch, 2022.

pub mod committee;
pub mod cover;
pub mod selection;
pub mod shuffle;
