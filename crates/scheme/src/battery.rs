//! The tests that every scheme passes by one macro line.
