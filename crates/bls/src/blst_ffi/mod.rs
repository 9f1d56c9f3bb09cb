//! Safe wrappers over raw blst: apart from the kernels, the only code of this crate with `unsafe`.
#![allow(unsafe_code)]

pub(crate) mod curve;
pub(crate) mod curve_field;
pub(crate) mod field;
pub(crate) mod fr;
pub(crate) mod pairing;
pub(crate) mod points;
pub(crate) mod scalar;
