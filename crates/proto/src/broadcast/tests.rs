//! Some tens of nodes on a simple virtual network, honest and not.

mod attacks;
mod delivery;
mod net;
mod places;
mod privacy;
mod rejoin;
mod sources;
