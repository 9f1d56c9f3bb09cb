//! A few dozen honest and dishonest nodes on a simple virtual network.

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
