//! Some tens of nodes on a simple virtual network, honest and not.

mod attacks;
mod delivery;
mod headers;
mod net;
mod places;
mod points;
mod privacy;
mod rejoin;
mod slow;
mod sources;
mod starving;
