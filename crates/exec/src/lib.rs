//! Chooses the instruction set and the threads of a computation, and stops it on request.
//!
//! | what | where |
//! |---|---|
//! | proof that this processor has an instruction set | [`Backend`], with a witness in each variant but the
//! portable one |
//! | the kernels of a crate by name, and the fastest one here | [`Kernels`] |
//! | threads, lent or none, and loops over them | [`Exec`] |
//! | stopping a computation, and following its steps | [`Stop`], [`Pulse`], [`Watch`] |
//! | Keccak on eight states at once | [`keccak`] |
//! | prefetching memory | [`prefetch`] |
//!
//! Kernels stay in the crates that use them. A crate matches on the [`Backend`] that it is given, passes the
//! witness to the file of that instruction set, and runs its portable kernel for all others. No task depends on
//! another, however finely the work is cut, and results of tasks are joined in order, so neither the kernel nor
//! the number of threads changes a result.
#![deny(unsafe_code)]

#[cfg(target_arch = "x86_64")]
mod avx2;
mod exec;
mod instructions;
pub mod keccak;
mod kernels;
mod prefetch;
mod stop;

/// Compiles the example in the package README together with the other doctests.
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
