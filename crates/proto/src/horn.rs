//! Horn: levels of aggregation, from single votes to one collection a committee.
//!
//! G. Kadianakis and F. D'Amato, "Horn: collecting signatures for faster finality",
//! ethresear.ch, 2022.
//!
//! | module | what it decides |
//! |---|---|
//! | [`committee`], [`shuffle`] | who sits where in an epoch |
//! | [`selection`], `ranks`, `roster` | who serves at which level |
//! | `voter` | what a validator votes for |
//! | `maker` | when whoever serves makes and publishes evidence |
//! | `aggregator` | which votes it is made of, at the first level |
//! | `combiner`, [`cover`] | which evidence it is made of, at the levels above |
//! | `proposer` | which collections become a block |
//! | `gate` | which messages are taken |
//! | [`fetch`] | who is asked for a block that messages wait for |
//! | `role`, `roles` | what roles and gate are lent, and how one follows from another |
//! | `store` | what the machines of a program keep once for all of them |
//! | `deadlines` | when a message is wanted, late, of no use |
//! | `machine` | [`Horn`]: all of it at one machine, under the contract |
//! | `local` | whose duties a machine does |
//! | `held` | how many bytes a machine holds, and how many they can become |
//! | `duties` | what local validators had to do in a slot, and did |
//! | `cast` | which messages travel as coded broadcasts, and with which parameters |
//! | `sources` | who may send which message as a coded broadcast |
//! | [`config`], `view` | what the network agrees on, and what a machine shows |

mod aggregator;
#[cfg(any(test, feature = "fuzzing"))]
pub mod alone;
mod ballot;
mod batch;
pub mod cast;
mod cell_votes;
mod combiner;
pub mod committee;
pub mod config;
pub mod cover;
mod deadlines;
mod duties;
mod effects;
mod epochs;
mod fair;
pub mod fetch;
mod gate;
mod held;
mod local;
mod machine;
mod maker;
mod pool;
mod proposer;
mod ranks;
mod restore;
mod role;
mod roles;
mod roster;
pub mod selection;
pub mod shuffle;
mod sources;
mod state;
mod store;
mod task;
mod view;
mod voter;

pub use config::{Config, ConfigError, Level, Preset, Publish, SchemeInfo, Selection, SubsetRule};
pub use cover::Rule as Cover;
pub use duties::{Done, Duties, Seat};
pub use gate::ITEMS_PER_JOB_MAX;
pub use held::Held;
pub use local::{Hosted, Local};
pub use machine::Horn;
pub use sources::{KIND_BLOCK, KIND_COLLECTION, Sources};
pub use store::Store;
pub use view::{BlockView, CollectionView, Counters, Finality, Shown, SlotView};
