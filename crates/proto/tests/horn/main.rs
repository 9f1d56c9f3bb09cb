//! The roles of Horn together: machines in an ideal network, with the model scheme.
#![allow(missing_docs, unreachable_pub)]

mod adversary;
mod ballots;
mod branches;
mod bundles;
mod flood;
mod forge;
mod griefing;
mod interleavings;
mod late;
mod levels;
mod named;
mod net;
mod overlap;
mod random;
mod rooms;
mod slots;
mod spent;
mod weights;
