//! Key derivation of a keystore, with bounds on what a file may request.

use crate::files::hex::Hex;
use crate::files::secret::Password;
use serde::{Deserialize, Serialize};
use sha2::Sha256;
use thiserror::Error;
use zeroize::Zeroizing;

/// Bytes of a derived key (EIP-2335: 16 for the cipher, 16 for the checksum).
pub(super) const DERIVED_BYTES: usize = 32;
/// Bytes of a salt that we generate.
const SALT_BYTES: usize = 32;
/// Maximum bytes of a salt that we read.
const SALT_BYTES_MAX: usize = 64;
/// log2 of the cost in EIP-2335's test cases, which clients use too.
pub(in crate::files) const COST_LOG2_DEFAULT: u8 = 18;
/// Maximum scrypt r and p that we read.
const SCRYPT_FACTOR_MAX: u64 = 64;
/// Maximum memory for scrypt: twice that of EIP-2335's test case.
const SCRYPT_MEMORY_BYTES_MAX: u64 = 512 << 20;
/// Maximum scrypt n * r * p: eight times that of EIP-2335's test case, some 5 s of one core.
const SCRYPT_WORK_MAX: u64 = 1 << 24;
/// Maximum number of PBKDF2 iterations: 64 times that of EIP-2335's test case, some 5 s of one core.
const PBKDF2_C_MAX: u64 = 1 << 24;

/// Why the parameters of a key derivation are rejected.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub(in crate::files) enum KdfError {
    #[error("scrypt n = {n}: must be a power of two from 2 to {max}")]
    ScryptN { n: u64, max: u64 },
    #[error("scrypt {name} = {value}: must be from 1 to {SCRYPT_FACTOR_MAX}")]
    ScryptFactor { name: &'static str, value: u64 },
    #[error(
        "scrypt n = {n}, r = {r} takes {bytes} bytes of memory: at most {SCRYPT_MEMORY_BYTES_MAX} \
         are allowed"
    )]
    ScryptMemory { n: u64, r: u64, bytes: u64 },
    #[error("scrypt n * r * p = {work}: at most {SCRYPT_WORK_MAX} is allowed")]
    ScryptWork { work: u64 },
    #[error("PBKDF2 c = {c}: must be from 1 to {PBKDF2_C_MAX}")]
    Pbkdf2C { c: u64 },
    #[error("dklen = {dklen}: must be {DERIVED_BYTES}")]
    DerivedBytes { dklen: u64 },
    #[error("a salt of {got} bytes: must have 1 to {SALT_BYTES_MAX}")]
    Salt { got: usize },
    #[error("the kdf module has a message of {got} bytes: must be empty")]
    Message { got: usize },
}

/// Which function protects a new keystore.
#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::files) enum KdfName {
    /// Costs memory as well as time (RFC 7914)
    Scrypt,
    /// Costs time only (RFC 8018), for readers without scrypt
    Pbkdf2,
}

/// The `kdf` module of EIP-2335.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(
    tag = "function",
    rename_all = "lowercase",
    rename_all_fields = "lowercase",
    deny_unknown_fields
)]
pub(in crate::files) enum Kdf {
    Scrypt {
        params: ScryptParams,
        message: Hex<false>,
    },
    Pbkdf2 {
        params: Pbkdf2Params,
        message: Hex<false>,
    },
}

/// Parameters of scrypt as given in a file, not yet checked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::files) struct ScryptParams {
    dklen: u64,
    n: u64,
    p: u64,
    r: u64,
    salt: Hex<false>,
}

/// Parameters of PBKDF2 as given in a file, not yet checked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::files) struct Pbkdf2Params {
    dklen: u64,
    c: u64,
    prf: Prf,
    salt: Hex<false>,
}

/// The pseudo-random function of PBKDF2.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Prf {
    #[serde(rename = "hmac-sha256")]
    HmacSha256,
}

impl Kdf {
    /// Returns a function with a cost of 2^`cost_log2`, and a fresh salt.
    pub(super) fn new(name: KdfName, cost_log2: u8) -> crate::error::Result<Self> {
        let mut salt = vec![0; SALT_BYTES];
        crate::files::secret::fill_random(&mut salt)?;
        let salt = Hex(salt);
        let dklen = DERIVED_BYTES as u64;
        let cost = 1 << cost_log2;
        let message = Hex(Vec::new());
        Ok(match name {
            KdfName::Scrypt => Kdf::Scrypt {
                params: ScryptParams {
                    dklen,
                    n: cost,
                    p: 1,
                    r: 8,
                    salt,
                },
                message,
            },
            KdfName::Pbkdf2 => Kdf::Pbkdf2 {
                params: Pbkdf2Params {
                    dklen,
                    c: cost,
                    prf: Prf::HmacSha256,
                    salt,
                },
                message,
            },
        })
    }

    /// Describes the function and cost for a human reader.
    pub(in crate::files) fn describe(&self) -> String {
        match self {
            Kdf::Scrypt { params, .. } => {
                format!(
                    "scrypt n = {}, r = {}, p = {}",
                    params.n, params.r, params.p
                )
            }
            Kdf::Pbkdf2 { params, .. } => format!("pbkdf2 hmac-sha256 c = {}", params.c),
        }
    }

    /// Checks that the memory and time required by the parameters are within bounds.
    pub(super) fn check(&self) -> Result<(), KdfError> {
        let (dklen, salt, message) = match self {
            Kdf::Scrypt { params, message } => (params.dklen, &params.salt, message),
            Kdf::Pbkdf2 { params, message } => (params.dklen, &params.salt, message),
        };
        if dklen != DERIVED_BYTES as u64 {
            return Err(KdfError::DerivedBytes { dklen });
        }
        if salt.0.is_empty() || salt.0.len() > SALT_BYTES_MAX {
            return Err(KdfError::Salt { got: salt.0.len() });
        }
        if !message.0.is_empty() {
            return Err(KdfError::Message {
                got: message.0.len(),
            });
        }
        match self {
            Kdf::Scrypt { params, .. } => params.check(),
            Kdf::Pbkdf2 { params, .. } if (1..=PBKDF2_C_MAX).contains(&params.c) => Ok(()),
            Kdf::Pbkdf2 { params, .. } => Err(KdfError::Pbkdf2C { c: params.c }),
        }
    }

    /// Derives the decryption key of a password. The parameters are checked first.
    pub(super) fn derive(
        &self,
        password: &Password,
    ) -> Result<Zeroizing<[u8; DERIVED_BYTES]>, KdfError> {
        self.check()?;
        let mut key = Zeroizing::new([0; DERIVED_BYTES]);
        match self {
            Kdf::Scrypt { params, .. } => {
                let cost = scrypt::Params::new(
                    params.n.trailing_zeros() as u8,
                    params.r as u32,
                    params.p as u32,
                )
                .expect("the bounds are stricter than those of scrypt");
                scrypt::scrypt(password.bytes(), &params.salt.0, &cost, &mut *key)
                    .expect("scrypt makes keys of 32 bytes");
            }
            Kdf::Pbkdf2 { params, .. } => pbkdf2::pbkdf2_hmac::<Sha256>(
                password.bytes(),
                &params.salt.0,
                params.c as u32,
                &mut *key,
            ),
        }
        Ok(key)
    }
}

impl ScryptParams {
    fn check(&self) -> Result<(), KdfError> {
        /// The smallest r allows the largest n.
        const N_MAX: u64 = SCRYPT_MEMORY_BYTES_MAX / 128;
        let (n, r, p) = (self.n, self.r, self.p);
        if !n.is_power_of_two() || !(2..=N_MAX).contains(&n) {
            return Err(KdfError::ScryptN { n, max: N_MAX });
        }
        for (name, value) in [("r", r), ("p", p)] {
            if !(1..=SCRYPT_FACTOR_MAX).contains(&value) {
                return Err(KdfError::ScryptFactor { name, value });
            }
        }
        // At most 2^22 * 2^6 * 2^7, so nothing overflows.
        let bytes = 128 * n * r;
        if bytes > SCRYPT_MEMORY_BYTES_MAX {
            return Err(KdfError::ScryptMemory { n, r, bytes });
        }
        let work = n * r * p;
        if work > SCRYPT_WORK_MAX {
            return Err(KdfError::ScryptWork { work });
        }
        Ok(())
    }
}
