//! Codes a payload into chunks that every relay can verify, recode and forward.
#![deny(unsafe_code)]
