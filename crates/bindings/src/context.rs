//! Threads, kernels and the secret of the process: what every operation runs on.

use std::num::NonZero;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use alphorn_bls::{Rlc, RlcBits};
use alphorn_exec::{Backend, Exec, Kernels, Watch};
use alphorn_rlnc::Generators;
use rayon::{ThreadPool, ThreadPoolBuilder};
use sha2::{Digest, Sha256};
use zeroize::Zeroizing;

use crate::{Code, Error};

/// Maximum number of threads of a context.
pub const THREADS_MAX: usize = 1024;

/// Step size for the generators of the random linear code, so that longer payloads need few new tables.
const GENERATORS_STEP: u32 = 1024;

/// Threads, kernels and the secret of the process. Clones share them.
#[derive(Clone)]
pub struct Context(Arc<Inner>);

struct Inner {
    pool: Option<ThreadPool>,
    /// The process that owns these threads. A forked child has none of them and would wait forever.
    owner: u32,
    secret: Zeroizing<[u8; 32]>,
    /// Number of draws so far.
    draws: AtomicU64,
    bls: OnceLock<Backend>,
    stark: OnceLock<Backend>,
    rlnc: OnceLock<Backend>,
    /// The generators, with their number.
    generators: Mutex<Option<(u32, Generators)>>,
}

impl Context {
    /// Creates a context with this many threads. 0 means as many as there are cores; with one thread all work
    /// runs on the caller's. The secret comes from the operating system.
    ///
    /// # Errors
    /// [`Code::Argument`] above [`THREADS_MAX`], [`Code::Io`] if the system provides neither threads nor
    /// entropy.
    pub fn new(threads: usize) -> Result<Context, Error> {
        let mut secret = Zeroizing::new([0; 32]);
        getrandom::fill(secret.as_mut_slice()).map_err(|error| Error::new(Code::Io, error))?;
        Context::with_secret(threads, *secret)
    }

    /// The same, with a secret from the caller: 32 bytes that no maker of signatures, proofs or pieces can
    /// predict. They determine the weights of what is verified together.
    ///
    /// # Errors
    /// As for [`Context::new`].
    pub fn with_secret(threads: usize, secret: [u8; 32]) -> Result<Context, Error> {
        let secret = Zeroizing::new(secret);
        if threads > THREADS_MAX {
            let message = format!("threads = {threads}, must be at most {THREADS_MAX}");
            return Err(Error::new(Code::Argument, message));
        }
        let threads = match threads {
            0 => std::thread::available_parallelism().map_or(1, NonZero::get),
            given => given,
        };
        let pool = (threads > 1).then(|| ThreadPoolBuilder::new().num_threads(threads).build());
        let pool = pool
            .transpose()
            .map_err(|error| Error::new(Code::Io, error))?;
        Ok(Context(Arc::new(Inner {
            pool,
            owner: process(),
            secret,
            draws: AtomicU64::new(0),
            bls: OnceLock::new(),
            stark: OnceLock::new(),
            rlnc: OnceLock::new(),
            generators: Mutex::new(None),
        })))
    }

    /// Number of threads in use.
    pub fn threads(&self) -> usize {
        self.pool().map_or(1, ThreadPool::current_num_threads)
    }

    fn pool(&self) -> Option<&ThreadPool> {
        let pool = self.0.pool.as_ref();
        pool.filter(|_| self.0.owner == process())
    }

    /// Execution on the fastest kernel for sums of keys.
    pub(crate) fn bls(&self) -> Exec<'_> {
        self.exec(&self.0.bls, &alphorn_bls::KERNELS)
    }

    /// Execution on the fastest kernel for hashes and proofs.
    pub(crate) fn stark(&self) -> Exec<'_> {
        self.exec(&self.0.stark, &alphorn_stark::KERNELS)
    }

    fn exec<'a>(&'a self, known: &OnceLock<Backend>, kernels: &Kernels) -> Exec<'a> {
        let backend = *known.get_or_init(|| kernels.measured());
        Exec::new(backend, self.pool())
    }

    /// The weights of signature batches, with their own secret.
    pub(crate) fn rlc(&self) -> Rlc {
        Rlc::new(self.secret_of(b"rlc"), RlcBits::Bits64)
    }

    /// A secret for one purpose.
    pub(crate) fn secret_of(&self, purpose: &[u8]) -> [u8; 32] {
        let mut hasher = Sha256::new();
        hasher.update(b"alphorn/bindings/v1\0");
        hasher.update(self.0.secret.as_slice());
        hasher.update(purpose);
        hasher.finalize().into()
    }

    /// A seed that no other call gets, in this process or in a forked one.
    pub(crate) fn fresh_seed(&self, purpose: &[u8]) -> [u8; 32] {
        let draw = self.0.draws.fetch_add(1, Ordering::Relaxed).to_le_bytes();
        let process = process().to_le_bytes();
        self.secret_of(&[purpose, &draw, &process].concat())
    }

    /// Generators for chunks of this many elements; the tables are shared by all broadcasts.
    pub(crate) fn generators(&self, elements: u32) -> Generators {
        let backend = *(self.0.rlnc).get_or_init(|| alphorn_rlnc::KERNELS.measured());
        let mut known = self
            .0
            .generators
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        match &*known {
            Some((made, generators)) if *made >= elements => generators.clone(),
            _ => {
                let made = elements
                    .next_multiple_of(GENERATORS_STEP)
                    .min(alphorn_rlnc::ELEMENTS_MAX);
                let generators = Generators::new(backend, made);
                *known = Some((made, generators.clone()));
                generators
            }
        }
    }
}

/// The same with a watch, if there is one.
pub(crate) fn watched<'a>(exec: Exec<'a>, watch: Option<&'a dyn Watch>) -> Exec<'a> {
    match watch {
        Some(watch) => exec.with_watch(watch),
        None => exec,
    }
}

/// The id of this process, which a forked child does not share. WebAssembly has neither, and asking for it
/// panics.
fn process() -> u32 {
    if cfg!(target_family = "wasm") {
        0
    } else {
        std::process::id()
    }
}
