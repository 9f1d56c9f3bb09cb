//! Chooses the instruction set and the threads of a computation, and stops it on request.
//!
//! | what | where |
//! |---|---|
//! | proof that this processor has an instruction set | [`Backend`], with a witness in each variant but the portable one |
//! | the kernels of a crate by name, and the fastest one here | [`Kernels`] |
//! | threads, lent or none, and loops over them | [`Exec`] |
//! | who may end a computation, and who hears of its steps | [`Stop`], [`Pulse`], [`Watch`] |
//! | Keccak on eight states at once | [`keccak`] |
//! | memory that is read soon | [`prefetch`] |
//!
//! Kernels stay in the crates that they compute for. A crate matches the [`Backend`] that it is
//! given, hands the witness to the file of that instruction set, and runs its portable kernel for
//! all others. No task depends on another, however many the work is cut into, and what tasks return is
//! joined in their order: so neither kernel nor threads change a result.
#![deny(unsafe_code)]

#[cfg(target_arch = "x86_64")]
mod avx2;
mod exec;
mod instructions;
pub mod keccak;
mod kernels;
mod prefetch;
mod stop;

/// The example of the package's page is compiled with the other ones.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

#[cfg(target_arch = "x86_64")]
pub use avx2::rounding_to_nearest;
pub use exec::Exec;
pub use instructions::{
    Avx2, Avx2Fma, Avx512Dq, Avx512Ifma, Avx512Vaes, Avx512Vbmi2, Avx512Vnni, Backend,
    InstructionSet,
};
pub use kernels::{BackendError, Kernels};
pub use prefetch::prefetch;
pub use stop::{Pulse, Stop, Stopped, Watch};
