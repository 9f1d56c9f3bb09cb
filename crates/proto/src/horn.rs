//! Horn: two layers of aggregation, from single votes to one collection a committee.
//!
//! G. Kadianakis and F. D'Amato, "Horn: collecting signatures for faster finality",
//! ethresear.ch, 2022.

pub mod committee;
pub mod config;
pub mod cover;
pub mod selection;
pub mod shuffle;
pub mod view;

pub use config::{Config, ConfigError, Local, Publish, SchemeInfo, Selection, SubsetRule};
pub use cover::Rule as Cover;
pub use view::{BlockView, CollectionView, Counters, SlotView};
