//! Horn end to end over the simulated network: votes, aggregates, collections, the block.
//!
//! A node is the protocol's own state machine ([`alphorn_proto::horn::Horn`]) with the validators that it hosts, on
//! top of one dissemination state machine (`crate::gossip`) for each topic that the node is a member of. Messages
//! are those of the protocol, encoded once and shared by all nodes that hold them. Jobs take virtual time according
//! to a cost table. When that time is over, their result is produced by the model scheme of that table
//! ([`alphorn_scheme::model`]), which has no cryptography.
//!
//! Votes go to a cell's aggregators, by default directly. The first row below shows the cost of a mesh instead. The
//! counts are deliveries in a slot with N = 2^20 votes, 32 committees of 64 cells, 16 aggregators and 16 collectors
//! each, n nodes, and about 7 copies in a mesh of degree 8. A delivery is up to three events (uplink, arrival,
//! delivery):
//!
//! | what | deliveries |
//! |---|---|
//! | votes by a mesh of 16 aggregators and 32 relays | N · 48 · 7 = 3.5·10^8 |
//! | votes directly to 16 aggregators | N · 16 = 1.7·10^7 |
//! | aggregates by a mesh of 16 collectors and 32 relays | 32 · 1024 · 48 · 7 = 1.1·10^7 |
//! | collections to all, each forwarded | 512 · 7 · n = 3.6·10^7 at n = 10^4, 3.6·10^9 at 10^6 |
//! | collections to all, only those forwarded that add a signer | 32 to 512 · 7 · n |
//!
//! The preset `horn-1m-10k` (99 % vote, seed 1) has 9.9·10^7 events: 1.66·10^7 votes, 1.03·10^7 aggregates and
//! 3.0·10^6 collections are sent. Nearly all of the 468 collections of honest aggregators are identical, and each
//! node forwards one per committee.
//!
//! | file | role |
//! |---|---|
//! | `plan` | what all nodes know, for any number of levels of evidence |
//! | `message` | messages |
//! | `work` | computation, and the parts of it that all nodes share |
//! | `subscription` | a topic at a node |
//! | `casting`, `blocks` | what a node knows of traffic in coded pieces, and of blocks that messages wait for |
//! | `node` | a node |
//! | `handle` | how a node handles an input |
//! | `cast`, `fetch`, `handshake` | what it does for coded pieces, for missing blocks, and to join topics |
//! | `own` | what a node publishes |
//! | `build` | the nodes and their graph |
//! | `connections` | which nodes are connected: meshes of the peers that nodes have, and publishers |
//! | `join` | which members dial which others to join topics |
//! | `watch`, `followed`, `tell` | the probe that checks and measures a run, what it sees of a slot, and its trace |
//! | `violation`, `milestones` | the rules that it checks, and the times that it measures |
//! | `heads` | the fate of nodes' heads and of proposers' blocks |
//! | `run` | from a scenario to a stopped world |
//! | `results`, `findings`, `floor` | the results of a run, how they are found, and their lower bound |
//! | `paid`, `harm` | what its blocks pay for, and the loss compared with another run |
//! | `posts` | the validators whose nodes a fault controls |

mod blocks;
pub(crate) mod build;
mod cast;
mod casting;
mod connections;
mod error;
mod fetch;
mod findings;
mod floor;
mod followed;
mod handle;
mod handshake;
mod harm;
mod heads;
mod join;
mod message;
mod milestones;
pub(crate) mod node;
mod own;
mod paid;
mod plan;
mod posts;
mod results;
mod run;
mod subscription;
mod tell;
#[cfg(test)]
mod tests;
mod violation;
mod watch;
mod work;

pub use error::HornError;
pub use harm::Harm;
pub use heads::Fate;
pub(crate) use message::{BlockBody, EvidenceBody, Exchange, HornMessage, Inner, Item};
pub use milestones::Milestones;
pub use paid::{PaidBlock, pay};
pub use plan::timing;
pub(crate) use plan::{Plan, Server, TopicId};
pub use results::{HornRun, SlotVotes};
pub use run::run;
pub use violation::Violation;
pub(crate) use work::{HornWork, NodeProduct, NodeWork};
