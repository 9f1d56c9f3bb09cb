//! Safe wrappers over raw blst: the only place of this crate, beside the kernels, with `unsafe`.
#![allow(unsafe_code)]

pub(crate) mod curve;
pub(crate) mod field;
pub(crate) mod fr;
pub(crate) mod pairing;
pub(crate) mod points;
pub(crate) mod scalar;
