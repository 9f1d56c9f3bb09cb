//! The roles of Horn together: machines in an ideal network, with the model scheme.
#![allow(missing_docs)]

mod net;
mod slots;
