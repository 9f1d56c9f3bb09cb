//! Several networks in one process, on real sockets of the loopback interface.
#![forbid(unsafe_code)]

mod connections;
mod frames;
mod gossip;
mod limits;
mod machine;
mod requests;
