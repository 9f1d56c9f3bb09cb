//! Hashes messages to points, many side by side. The values are those of
//! [`Flavour::centred_target`], which is the oracle of the tests.

use alphorn_exec::Backend;
use alphorn_exec::keccak::{ByteOrder, LANES, Shakes256};
use alphorn_labrador::{Dispatch, Pass, Vectors};

use crate::degree::DEGREE_MAX;
use crate::flavour::{EXPANDED_BYTES, SLOT_LABEL, WORD_MAX};
use crate::{Flavour, MODULUS, PublicKey, SALT_BYTES};

/// Bytes of a message representative of the draft.
const REPRESENTATIVE_BYTES: usize = 64;

/// 16-bit words per block of SHAKE256.
const BLOCK_NUMBERS: usize = 68;

/// Buffer for all numbers of a point of either degree, plus those of the block in which they end.
type Numbers = [u16; DEGREE_MAX + BLOCK_NUMBERS];

/// The input of a hash to a point.
#[derive(Clone, Copy)]
pub(crate) struct Hashed<'a> {
    pub(crate) flavour: Flavour,
    /// The digest of the key.
    pub(crate) digest: &'a [u8; 64],
    /// None if the flavour sends no salt.
    pub(crate) salt: Option<&'a [u8; SALT_BYTES]>,
    pub(crate) message: &'a [u8],
}

impl<'a> Hashed<'a> {
    /// Creates the input for a message under a key.
    pub(crate) fn new<const N: usize>(
        key: &'a PublicKey<N>,
        salt: Option<&'a [u8; SALT_BYTES]>,
        message: &'a [u8],
    ) -> Self {
        Self {
            flavour: key.flavour(),
            digest: key.digest(),
            salt,
            message,
        }
    }
}

/// Returns the points of many messages, each with `degree` coefficients in `[-(q-1)/2, (q-1)/2]`, one after another.
pub(crate) fn targets(degree: usize, inputs: &[Hashed<'_>], backend: Backend) -> Vec<i16> {
    match degree {
        512 => targets_of::<512>(inputs, backend).into_flattened(),
        _ => targets_of::<1024>(inputs, backend).into_flattened(),
    }
}

fn targets_of<const N: usize>(inputs: &[Hashed<'_>], backend: Backend) -> Vec<[i16; N]> {
    let mut out = Vec::with_capacity(inputs.len());
    let mut drawn = [(0, [0; DEGREE_MAX + BLOCK_NUMBERS]); LANES];
    for inputs in inputs.chunks(LANES) {
        let hashes = first_hashes(inputs, backend);
        let mut messages = [[&[][..]; 2]; LANES];
        for (k, (parts, input)) in messages.iter_mut().zip(inputs).enumerate() {
            let salt = input.salt.map_or(&[][..], |salt| salt);
            let behind = match input.flavour {
                Flavour::FnDsa => &hashes[k][..REPRESENTATIVE_BYTES],
                Flavour::Original => input.message,
                // These bytes begin with the salt, which is not sent.
                Flavour::Slot => &hashes[k],
            };
            *parts = [salt, behind];
        }
        let messages = messages.each_ref().map(|parts| &parts[..]);
        let mut states = Shakes256::absorb(&messages[..inputs.len()], backend);
        let drawn = &mut drawn[..inputs.len()];
        for (filled, _) in &mut *drawn {
            *filled = 0;
        }
        loop {
            for (lane, (input, (filled, numbers))) in inputs.iter().zip(&mut *drawn).enumerate() {
                // Lanes that are full are permuted along with the others but no longer read, so the buffer cannot
                // overflow.
                if *filled < N {
                    let order = match input.flavour.is_little_endian() {
                        true => ByteOrder::Little,
                        false => ByteOrder::Big,
                    };
                    let rest = &mut numbers[*filled..];
                    *filled += states.below(lane, WORD_MAX, order, rest, backend);
                }
            }
            if drawn.iter().all(|(filled, _)| *filled >= N) {
                break;
            }
            states.permute(backend);
        }
        backend.run(Centre(drawn, &mut out));
    }
    out
}

/// Appends the points of numbers that were drawn. The loop is compiled for the vectors of the pass.
struct Centre<'a, const N: usize>(&'a [(usize, Numbers)], &'a mut Vec<[i16; N]>);

impl<const N: usize> Pass for Centre<'_, N> {
    type Output = ();

    #[inline(always)]
    fn run<V: Vectors>(self) {
        let q = MODULUS as i16;
        for (_, numbers) in self.0 {
            let mut point = [0; N];
            for (out, number) in point.iter_mut().zip(numbers) {
                let residue = (number % MODULUS) as i16;
                *out = residue - if residue > q / 2 { q } else { 0 };
            }
            self.1.push(point);
        }
    }
}

/// Returns what is hashed with the key before the salt: the message representatives of the draft, or salt and
/// representative of flavour `slot`; meaningless for keys of another flavour.
fn first_hashes(inputs: &[Hashed<'_>], backend: Backend) -> [[u8; EXPANDED_BYTES]; LANES] {
    let mut out = [[0; EXPANDED_BYTES]; LANES];
    // Original Falcon hashes only salt and message.
    if inputs.iter().any(|i| i.flavour != Flavour::Original) {
        let mut messages = [[&[][..]; 3]; LANES];
        for (parts, input) in messages.iter_mut().zip(inputs) {
            *parts = match input.flavour {
                Flavour::FnDsa => [input.digest, &[0, 0], input.message],
                Flavour::Slot => [SLOT_LABEL, input.digest, input.message],
                Flavour::Original => [&[]; 3],
            };
        }
        let messages = messages.each_ref().map(|parts| &parts[..]);
        let states = Shakes256::absorb(&messages[..inputs.len()], backend);
        for (lane, out) in out.iter_mut().enumerate() {
            *out = digest_of(&states, lane);
        }
    }
    out
}

/// Returns the first bytes of a hash: whole words of one block.
fn digest_of<const BYTES: usize>(states: &Shakes256, lane: usize) -> [u8; BYTES] {
    let mut out = [0; BYTES];
    for (bytes, word) in out
        .as_chunks_mut::<8>()
        .0
        .iter_mut()
        .zip(states.block(lane))
    {
        *bytes = word.to_le_bytes();
    }
    out
}

/// Returns the first 64 bytes of SHAKE256 of many messages; for encoded keys this is [`crate::flavour::key_digest`].
pub(crate) fn digests(messages: &[&[u8]], backend: Backend) -> Vec<[u8; 64]> {
    let mut out = Vec::with_capacity(messages.len());
    for messages in messages.chunks(LANES) {
        let mut parts = [&[][..]; LANES];
        // Each message is a single part, so a slice of one.
        for (parts, message) in parts.iter_mut().zip(messages.chunks(1)) {
            *parts = message;
        }
        let states = Shakes256::absorb(&parts[..messages.len()], backend);
        for lane in 0..messages.len() {
            out.push(digest_of(&states, lane));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flavour::key_digest;
    use crate::{OriginalKey, SecretKey, SlotKey};
    use alphorn_labrador::KERNELS;

    /// Covers all flavours in one batch, for short and long messages, on every level.
    fn points_and_digests<const N: usize>() {
        let (draft, original) = (SecretKey::<N>::interop(3), OriginalKey::<N>::interop(3));
        let slot = SlotKey::<N>::interop(3);
        let keys = [draft.public(), original.public(), slot.public()];
        let message: Vec<u8> = (0..400).map(|i| (i % 251) as u8).collect();
        let salts: Vec<[u8; SALT_BYTES]> = (0..43).map(|i| [i; SALT_BYTES]).collect();
        let key = |i: usize| keys[i % 3];
        let inputs: Vec<Hashed<'_>> = (salts.iter().enumerate())
            .map(|(i, salt)| {
                let salt = key(i).flavour().is_salted().then_some(salt);
                Hashed::new(key(i), salt, &message[..(i * 37) % 400])
            })
            .collect();
        for backend in KERNELS.available() {
            for count in [0, 1, 8, 9, 43] {
                let keys = (0..count).map(|i| key(i).bytes());
                let digests = digests(&keys.collect::<Vec<_>>(), backend);
                let targets = targets(N, &inputs[..count], backend);
                let targets = targets.as_chunks::<N>().0;
                assert_eq!((targets.len(), digests.len()), (count, count));
                for (i, input) in inputs[..count].iter().enumerate() {
                    let flavour = key(i).flavour();
                    let alone = flavour.centred_target(key(i), input.salt, input.message);
                    assert_eq!(targets[i], alone, "{backend} {i}");
                    assert_eq!(digests[i], key_digest(key(i).bytes()), "{backend} {i}");
                }
            }
        }
    }

    #[test]
    fn points_and_digests_are_those_of_one_message_alone() {
        points_and_digests::<512>();
        points_and_digests::<1024>();
    }
}
