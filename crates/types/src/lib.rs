//! Names what every crate speaks of: time, slots, indices, layouts, bitfields, support vectors and their codes, trace records.
#![forbid(unsafe_code)]
