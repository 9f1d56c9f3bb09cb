//! Says what a signature scheme must be able to do so that a million votes a slot can be signed, aggregated and verified.
#![forbid(unsafe_code)]
