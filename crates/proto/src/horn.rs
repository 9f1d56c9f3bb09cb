//! Horn: multi-level aggregation, from single votes up to one collection per committee.
//!
//! G. Kadianakis and F. D'Amato, "Horn: collecting signatures for faster finality",
//! ethresear.ch, 2022.
//!
//! | module | responsibility |
//! |---|---|
//! | [`committee`], [`shuffle`] | committee assignment in an epoch |
//! | [`selection`], `ranks`, `roster` | which validators serve at which level |
//! | `voter` | what a validator votes for |
//! | `maker` | when serving validators make and publish evidence |
//! | `aggregator` | which votes go into evidence of the first level |
//! | `combiner`, [`cover`] | which evidence goes into evidence of the higher levels |
//! | `proposer` | which collections go into a block |
//! | `gate` | which messages are accepted |
//! | [`fetch`] | which peers are asked for a block that messages wait for |
//! | `role`, `roles` | state lent to the roles and the gate, and the flow between roles |
//! | `store` | data shared by all state machines of a process |
//! | `deadlines` | when a message is wanted, late, or useless |
//! | `machine` | [`Horn`]: the whole protocol as one state machine, under the contract |
//! | `local` | the validators whose duties a node performs |
//! | `held` | how many bytes a state machine holds, and the upper bound |
//! | `duties` | what local validators had to do in a slot, and did |
//! | `cast` | which messages travel as coded broadcasts, and with which parameters |
//! | `sources` | which validators may send which message as a coded broadcast |
//! | [`config`], `view` | the network-wide parameters, and the state a node exposes |

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
