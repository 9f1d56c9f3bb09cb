//! Secret keys, and public keys ready for products.

use std::any::Any;
use std::fmt;
use std::sync::OnceLock;

use alphorn_exec::{Backend, Exec, Stopped};
use alphorn_labrador::kernel::SQUARE;
use alphorn_labrador::{Dispatch, Pass, Vectors};
use fn_dsa::{
    CryptoRng, DOMAIN_NONE, FN_DSA_LOGN_512, HASH_ID_RAW, KeyPairGenerator, KeyPairGenerator512,
    KeyPairGenerator1024, RngCore, RngError, SigningKey, SigningKey512, SigningKey1024,
    sign_key_size,
};
use sha2::{Digest, Sha256};
use sha3::digest::{ExtendableOutput, Update, XofReader};
use sha3::{Shake256, Shake256Reader};
use thiserror::Error;
use zeroize::Zeroizing;

use crate::basis::signs;
use crate::codec::{DecodeError, decode_key, key_bytes, key_numbers};
use crate::degree::seed_suffix;
use crate::hash::digests;
use crate::ring::{LANES, Polys, centre};
use crate::{DEGREE, Flavour, MODULUS, Parameters};

/// Bytes of an encoded secret key of degree 512.
pub const SECRET_KEY_BYTES: usize = sign_key_size(FN_DSA_LOGN_512);

/// Reports that bytes are not a secret key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("the bytes are no secret key of Falcon of this degree")]
pub struct KeyError;

/// A public key of degree 512 or 1024: its bytes, its digest, and `h` in the forms requested so far.
#[derive(Clone)]
pub struct PublicKey<const N: usize = DEGREE> {
    flavour: Flavour,
    /// The form of [`Parts::numbers`].
    made: KeyForm,
    parts: Box<Parts<N>>,
    /// The other form, once requested.
    other: OnceLock<Box<[i16; N]>>,
}

/// Common parts of every key, in one allocation of 2 or 4 kB, since allocations dominate the time of decoding many
/// keys. Allocators have a size class for that, and the next larger one is a quarter larger.
#[derive(Clone)]
struct Parts<const N: usize> {
    /// Two bytes per coefficient: the encoded key takes 14 bits of each plus one byte, and its digest 64 bytes. The
    /// bytes after the digest are zero.
    bytes: [[u8; 2]; N],
    numbers: [i16; N],
}

impl<const N: usize> Parts<N> {
    const ZERO: Self = Self {
        bytes: [[0; 2]; N],
        numbers: [0; N],
    };

    const KEY_BYTES: usize = Parameters::of(N).public_key_bytes;

    /// Returns the encoded key.
    #[inline(always)]
    fn bytes(&self) -> &[u8] {
        &self.bytes.as_flattened()[..Self::KEY_BYTES]
    }

    fn digest(&self) -> &[u8; 64] {
        let behind = self.bytes.as_flattened()[Self::KEY_BYTES..].first_chunk();
        behind.expect("127 bytes or more are behind a key")
    }

    fn set_digest(&mut self, digest: &[u8; 64]) {
        let behind = &mut self.bytes.as_flattened_mut()[Self::KEY_BYTES..];
        behind[..digest.len()].copy_from_slice(digest);
    }
}

/// Representation of `h`, two bytes per coefficient for each form of a key.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum KeyForm {
    /// By values at the roots of `Y^N + 1`, which plain verification multiplies.
    Values,
    /// By coefficients, which a proof multiplies.
    Coefficients,
}

impl KeyForm {
    /// Returns the form that keys of a flavour encode.
    fn of(flavour: Flavour) -> Self {
        if flavour.keys_are_coefficients() {
            Self::Coefficients
        } else {
            Self::Values
        }
    }
}

/// Keys with the same bytes are equal.
impl<const N: usize> PartialEq for PublicKey<N> {
    fn eq(&self, other: &Self) -> bool {
        self.flavour == other.flavour && self.bytes() == other.bytes()
    }
}

impl<const N: usize> Eq for PublicKey<N> {}

impl<const N: usize> PublicKey<N> {
    /// Decodes a key. `h` need not be invertible: neither verification nor the argument of the aggregate
    /// divides by it.
    ///
    /// # Errors
    /// If the bytes are not a key of the flavour and degree.
    pub fn from_bytes(flavour: Flavour, bytes: &[u8]) -> Result<Self, DecodeError> {
        let form = KeyForm::of(flavour);
        let mut keys = decode_batch(flavour, &[bytes], form, Backend::Portable);
        keys.remove(0)
    }

    /// Decodes many keys, each as by [`PublicKey::from_bytes`], [`LANES`] at a time on the kernel and threads of
    /// `exec`, and computes the form that will be needed. The other form is computed on first use.
    #[must_use]
    pub fn from_bytes_batch(
        flavour: Flavour,
        keys: &[&[u8]],
        form: KeyForm,
        exec: Exec<'_>,
    ) -> Vec<Result<Self, DecodeError>> {
        let parts = exec.map(keys.len().div_ceil(LANES), |part| {
            let rest = &keys[part * LANES..];
            decode_batch(
                flavour,
                &rest[..rest.len().min(LANES)],
                form,
                exec.backend(),
            )
        });
        parts.into_iter().flatten().collect()
    }

    /// Returns the flavour of the key.
    #[must_use]
    pub(crate) fn flavour(&self) -> Flavour {
        self.flavour
    }

    /// Returns the encoded key.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        self.parts.bytes()
    }

    /// Returns the values of `h` at the roots of `Y^N + 1`, in the order of [`Polys::forward`]; reduced.
    #[must_use]
    pub(crate) fn values(&self) -> &[i16; N] {
        self.form(KeyForm::Values)
    }

    /// Returns the coefficients of `h`, centred, which a proof multiplies.
    #[must_use]
    pub(crate) fn coefficients(&self) -> &[i16; N] {
        self.form(KeyForm::Coefficients)
    }

    fn form(&self, form: KeyForm) -> &[i16; N] {
        if form == self.made {
            return &self.parts.numbers;
        }
        let alone = || {
            let mut numbers = Box::new(self.parts.numbers);
            transform(N, &mut [&mut numbers[..]], form, Backend::Portable);
            numbers
        };
        // Whichever thread computes the form first, the numbers are the same.
        self.other.get_or_init(alone)
    }

    /// Computes a form of many keys where it is missing; otherwise each key would compute it separately.
    pub(crate) fn prepare(keys: &[&Self], form: KeyForm, exec: Exec<'_>) -> Result<(), Stopped> {
        let each = |part: usize| {
            let rest = &keys[part * LANES..];
            Self::prepare_few(&rest[..rest.len().min(LANES)], form, exec.backend());
        };
        exec.try_map(keys.len().div_ceil(LANES), each).map(|_| ())
    }

    /// The same for up to [`LANES`] keys.
    pub(crate) fn prepare_few(keys: &[&Self], form: KeyForm, backend: Backend) {
        let is_missing = |key: &&&Self| key.made != form && key.other.get().is_none();
        let missing: Vec<&&Self> = keys.iter().filter(is_missing).collect();
        if missing.is_empty() {
            return;
        }
        let mut made: Vec<_> = (missing.iter())
            .map(|key| Box::new(key.parts.numbers))
            .collect();
        let mut numbers: Vec<_> = made.iter_mut().map(|numbers| &mut numbers[..]).collect();
        transform(N, &mut numbers, form, backend);
        for (key, made) in missing.iter().zip(made) {
            // If another thread was faster, this copy of the same numbers is dropped.
            key.other.get_or_init(|| made);
        }
    }

    /// Returns the SHAKE256 digest of the encoded key, 64 bytes.
    #[must_use]
    pub(crate) fn digest(&self) -> &[u8; 64] {
        self.parts.digest()
    }
}

/// Converts up to [`LANES`] keys from the other form. Like all slow code it names the degrees explicitly, since
/// generic code is compiled at the optimisation level of the crate that names them.
fn transform(degree: usize, keys: &mut [&mut [i16]], form: KeyForm, backend: Backend) {
    match degree {
        512 => transform_of::<512>(keys, form, backend),
        _ => transform_of::<1024>(keys, form, backend),
    }
}

fn transform_of<const N: usize>(keys: &mut [&mut [i16]], form: KeyForm, backend: Backend) {
    let array = |key| <&mut [i16; N]>::try_from(key).expect("of the degree");
    let mut keys: Vec<_> = keys.iter_mut().map(|key| array(&mut **key)).collect();
    // The fewest lanes that loading by squares allows: most of the work of a full batch would be for nothing.
    if keys.len() == 1 {
        backend.run(Transform::<SQUARE, N>(&mut keys, form));
    } else {
        backend.run(Transform::<LANES, N>(&mut keys, form));
    }
}

/// Converts up to `L` keys from the other form; `L` is a multiple of [`SQUARE`].
struct Transform<'a, 'k, const L: usize, const N: usize>(&'a mut [&'k mut [i16; N]], KeyForm);

impl<const L: usize, const N: usize> Pass for Transform<'_, '_, L, N> {
    type Output = ();

    #[inline(always)]
    fn run<V: Vectors>(self) {
        let Self(keys, form) = self;
        // On the stack, where it stays in the processor's cache and need not be copied to.
        let mut polys = Polys::<L, N>::ZERO;
        polys.load_all::<V>(&keys.iter().map(|key| &**key).collect::<Vec<_>>());
        match form {
            KeyForm::Values => polys.forward(),
            KeyForm::Coefficients => {
                polys.inverse();
                polys.centre();
            }
        }
        polys.store_all::<V>(keys);
    }
}

/// Decodes up to [`LANES`] public keys, in code that is compiled in this crate ([`transform`] says why).
fn decode_batch<const N: usize>(
    flavour: Flavour,
    keys: &[&[u8]],
    form: KeyForm,
    backend: Backend,
) -> Vec<Result<PublicKey<N>, DecodeError>> {
    let decoded = decode_any(N, flavour, keys, form, backend).downcast();
    *decoded.expect("keys of the degree")
}

fn decode_any(
    degree: usize,
    flavour: Flavour,
    keys: &[&[u8]],
    form: KeyForm,
    backend: Backend,
) -> Box<dyn Any> {
    match degree {
        512 => Box::new(decode_of::<512>(flavour, keys, form, backend)),
        _ => Box::new(decode_of::<1024>(flavour, keys, form, backend)),
    }
}

fn decode_of<const N: usize>(
    flavour: Flavour,
    keys: &[&[u8]],
    form: KeyForm,
    backend: Backend,
) -> Vec<Result<PublicKey<N>, DecodeError>> {
    let mut decoded = backend.run(Decode::<N>(flavour, keys));
    // Digests only of the valid keys; the loop below skips the others in the same way.
    let good = decoded.iter().flatten();
    let encoded: Vec<&[u8]> = good.map(|parts| parts.bytes()).collect();
    let digests = digests(&encoded, backend);
    for (parts, digest) in decoded.iter_mut().flatten().zip(digests) {
        parts.set_digest(&digest);
    }
    if form != KeyForm::of(flavour) {
        let good = decoded.iter_mut().flatten();
        let mut numbers: Vec<_> = good.map(|parts| &mut parts.numbers[..]).collect();
        transform(N, &mut numbers, form, backend);
    }
    let complete = |parts: Result<Box<Parts<N>>, DecodeError>| {
        Ok(PublicKey {
            flavour,
            made: form,
            parts: parts?,
            other: OnceLock::new(),
        })
    };
    decoded.into_iter().map(complete).collect()
}

/// Decodes keys. Each valid one yields its bytes and centred numbers, without its digest as yet. The loops are
/// compiled for the vectors of the pass.
struct Decode<'a, 'k, const N: usize>(Flavour, &'a [&'k [u8]]);

impl<const N: usize> Pass for Decode<'_, '_, N> {
    type Output = Vec<Result<Box<Parts<N>>, DecodeError>>;

    #[inline(always)]
    fn run<V: Vectors>(self) -> Self::Output {
        let Self(flavour, keys) = self;
        let mut decoded = Vec::with_capacity(keys.len());
        for bytes in keys {
            let bytes = match key_bytes::<N>(bytes) {
                Ok(bytes) => bytes,
                Err(error) => {
                    decoded.push(Err(error));
                    continue;
                }
            };
            let numbers = key_numbers::<N>(flavour, bytes);
            if numbers.iter().fold(0, |max, &c| c.max(max)) >= MODULUS {
                // Finds out which number it is.
                if let Err(error) = decode_key::<N>(flavour, bytes) {
                    decoded.push(Err(error));
                    continue;
                }
            }
            // Written in place: a value built elsewhere and moved here would be copied.
            let mut parts = Box::new(Parts::ZERO);
            parts.bytes.as_flattened_mut()[..bytes.len()].copy_from_slice(bytes);
            for (out, &number) in parts.numbers.iter_mut().zip(&numbers) {
                *out = centre(number as i16);
            }
            decoded.push(Ok(parts));
        }
        decoded
    }
}

impl<const N: usize> fmt::Debug for PublicKey<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PublicKey({:02x?}..)", &self.digest()[..4])
    }
}

/// Returns the seed of an interop validator's key, for any flavour.
pub(crate) fn interop_seed(index: u64) -> [u8; 32] {
    let mut hash = Sha256::new();
    Digest::update(&mut hash, b"alphorn-interop-v1");
    Digest::update(&mut hash, b"falcon");
    Digest::update(&mut hash, index.to_le_bytes());
    hash.finalize().into()
}

/// A secret key of [`Flavour::FnDsa`], of degree 512 or 1024. The crate `fn-dsa` signs; its arithmetic is
/// constant-time on x86-64 and AArch64. The bytes are erased when the key is dropped.
pub struct SecretKey<const N: usize = DEGREE> {
    bytes: Zeroizing<Vec<u8>>,
    public: PublicKey<N>,
}

impl<const N: usize> SecretKey<N> {
    /// Parameters of the degree.
    const PARAMETERS: Parameters = Parameters::of(N);

    /// `log2` of the degree, as `fn-dsa` expects it.
    const DEGREE_LOG2: u32 = Self::PARAMETERS.degree_log2 as u32;

    /// Returns the key of a seed; each degree has a domain of its own.
    #[must_use]
    pub fn from_seed(seed: &[u8; 32]) -> Self {
        let mut hash = Shake256::default();
        hash.update(b"alphorn/falcon/key/v1");
        hash.update(seed);
        hash.update(seed_suffix(N));
        let mut rng = Drawn(hash.finalize_xof());
        let mut bytes = Zeroizing::new(vec![0; sign_key_size(Self::DEGREE_LOG2)]);
        let mut public = vec![0; Self::PARAMETERS.public_key_bytes];
        let generate = match N {
            DEGREE => generate::<KeyPairGenerator512>,
            _ => generate::<KeyPairGenerator1024>,
        };
        generate(Self::DEGREE_LOG2, &mut rng, &mut bytes, &mut public);
        let public = PublicKey::from_bytes(Flavour::FnDsa, &public);
        Self {
            bytes,
            public: public.expect("a generated key decodes"),
        }
    }

    /// Returns the key of interop validator `index`, which is public knowledge, for tests and devnets. Its seed is
    /// `SHA-256("alphorn-interop-v1" || "falcon" || le64(index))`.
    #[must_use]
    pub fn interop(index: u64) -> Self {
        Self::from_seed(&interop_seed(index))
    }

    /// Decodes a secret key.
    ///
    /// # Errors
    /// [`KeyError`] if the bytes are not a key of this degree, or the key could not sign.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, KeyError> {
        let mut public = vec![0; Self::PARAMETERS.public_key_bytes];
        let decode = match N {
            DEGREE => public_of::<SigningKey512>,
            _ => public_of::<SigningKey1024>,
        };
        decode(bytes, &mut public).ok_or(KeyError)?;
        let public = PublicKey::from_bytes(Flavour::FnDsa, &public).map_err(|_| KeyError)?;
        // The crate accepts some keys with which it would try in vain to sign.
        if !signs(bytes, &public) {
            return Err(KeyError);
        }
        Ok(Self {
            bytes: Zeroizing::new(bytes.to_vec()),
            public,
        })
    }

    /// Returns the encoded key, which is secret.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns the public key.
    #[must_use]
    pub fn public(&self) -> &PublicKey<N> {
        &self.public
    }

    /// Signs a message.
    ///
    /// Salt and sampler are seeded by a hash of the secret key, the message and `entropy`. With
    /// equal entropy the signature is the same every time, so a repeated call reveals nothing and a
    /// replay gives the same bytes. Two *different* signatures on one salt and message would leak
    /// a vector of the secret lattice; the hash makes salts differ whenever any input differs.
    #[must_use]
    pub fn sign(&self, message: &[u8], entropy: &[u8; 32]) -> Vec<u8> {
        let mut hash = Shake256::default();
        hash.update(b"alphorn/falcon/sign/v1");
        // `fn-dsa` hashes what it draws here together with the secret key and the message before it uses it, see
        // `sign` in `fn-dsa-sign` 0.4. So neither need be hashed here.
        hash.update(entropy);
        let mut rng = Drawn(hash.finalize_xof());
        let mut out = vec![0; Self::PARAMETERS.signature_bytes];
        let sign = match N {
            DEGREE => sign_with::<SigningKey512>,
            _ => sign_with::<SigningKey1024>,
        };
        sign(&self.bytes, &mut rng, message, &mut out);
        out
    }
}

/// Generates a key pair with the generator of a degree.
fn generate<G: KeyPairGenerator>(
    degree_log2: u32,
    rng: &mut Drawn,
    secret: &mut [u8],
    public: &mut [u8],
) {
    G::default().keygen(degree_log2, rng, secret, public);
}

/// Writes the public key of an encoded secret key of the signer's degree. None if the bytes are not such a key.
fn public_of<S: SigningKey>(secret: &[u8], public: &mut [u8]) -> Option<()> {
    S::decode(secret)?.to_verifying_key(public);
    Some(())
}

/// Signs with the signer of a degree.
fn sign_with<S: SigningKey>(secret: &[u8], rng: &mut Drawn, message: &[u8], out: &mut [u8]) {
    let mut key = S::decode(secret).expect("a checked key");
    key.sign(rng, &DOMAIN_NONE, &HASH_ID_RAW, message, out)
        .expect("27 attempts fail once in 2^300 signatures");
}

/// The stream of a hash, as the random generator that `fn-dsa` requires.
struct Drawn(Shake256Reader);

impl CryptoRng for Drawn {}

impl RngCore for Drawn {
    fn next_u32(&mut self) -> u32 {
        let mut bytes = [0; 4];
        self.fill_bytes(&mut bytes);
        u32::from_le_bytes(bytes)
    }

    fn next_u64(&mut self) -> u64 {
        let mut bytes = [0; 8];
        self.fill_bytes(&mut bytes);
        u64::from_le_bytes(bytes)
    }

    fn fill_bytes(&mut self, out: &mut [u8]) {
        self.0.read(out);
    }

    fn try_fill_bytes(&mut self, out: &mut [u8]) -> Result<(), RngError> {
        self.fill_bytes(out);
        Ok(())
    }
}
