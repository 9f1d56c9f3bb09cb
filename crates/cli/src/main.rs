//! Runs alphorn from the command line.
#![forbid(unsafe_code)]

fn main() {}
