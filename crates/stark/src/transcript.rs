//! The transcript: everything sent so far, as a state of eight field elements.
//!
//! Absorbing puts the state on the left of C, squeezing on the right: s ← C(s, block), and a challenge is
//! C((`0x5143`, j, 0, …), s), where j counts challenges since the last block. Blocks have eight elements, the last
//! one padded with zeros; lengths follow from the public shape, so the padding is unambiguous. Everything a
//! verifier reads is absorbed by the act of reading.

use alphorn_exec::{Exec, Stopped};

use crate::arith::Arith;
use crate::error::VerifyError;
use crate::extension::{DEGREE, Ext};
use crate::field::Fp;
use crate::hash::{DIGEST, compress};
use crate::poseidon::Permutations;

/// Precedes the counter when a challenge is squeezed.
const SQUEEZE: u32 = 0x5143;

/// The protocol's name.
const NAME: &[u8] = b"alphorn/stark/3";

/// ASCII letters, three to an element and the first most significant, in one block.
pub(crate) fn ascii(text: &[u8]) -> [Fp; DIGEST] {
    let mut block = [Fp::ZERO; DIGEST];
    for (out, letters) in block.iter_mut().zip(text.chunks(3)) {
        *out = Fp::new(letters.iter().fold(0, |word, x| word << 8 | u32::from(*x)));
    }
    block
}

/// Four ASCII letters as one element, the first most significant.
pub(crate) fn tag(letters: &[u8; 4]) -> Fp {
    Fp::new(u32::from_be_bytes(*letters))
}

/// Follows the nonce of a proof of work.
const WORK: u32 = 0x0050_4f57;

/// Number of bits of a nonce in its first element; the second takes the rest.
// 2^30 < p, so different parts are different elements.
const NONCE_BITS: u32 = 30;

/// Number of nonces that are tried together.
const GRIND: usize = 256;

/// The block of a nonce, and its two elements.
fn nonce_block(nonce: u64) -> [Fp; DIGEST] {
    let mut block = [Fp::ZERO; DIGEST];
    block[0] = Fp::new((nonce & ((1 << NONCE_BITS) - 1)) as u32);
    block[1] = Fp::new((nonce >> NONCE_BITS) as u32);
    block[2] = Fp::new(WORK);
    block
}

/// The state of prover or verifier.
#[derive(Clone, Debug)]
struct State<B> {
    digest: [B; DIGEST],
    squeezed: u32,
}

/// A verifier's side: reads through its arithmetic and absorbs everything it reads.
#[derive(Debug)]
pub(crate) struct Channel<A: Arith> {
    /// The arithmetic.
    pub(crate) arith: A,
    state: State<A::Base>,
}

impl<A: Arith> Channel<A> {
    /// A transcript that begins with the protocol's name and a block of parameters.
    pub(crate) fn new(mut arith: A, parameters: [Fp; DIGEST]) -> Channel<A> {
        let name = ascii(NAME).map(|x| arith.base(x));
        let parameters = parameters.map(|x| arith.base(x));
        let digest = arith.compress(name, parameters);
        let state = State {
            digest,
            squeezed: 0,
        };
        Channel { arith, state }
    }

    /// Absorbs elements that the verifier knows.
    pub(crate) fn absorb(&mut self, elements: &[A::Base]) {
        for chunk in elements.chunks(DIGEST) {
            let mut block = [self.arith.base(Fp::ZERO); DIGEST];
            block[..chunk.len()].copy_from_slice(chunk);
            self.state.digest = self.arith.compress(self.state.digest, block);
            self.state.squeezed = 0;
        }
    }

    /// Reads elements of F_p.
    ///
    /// # Errors
    /// [`VerifyError::Length`] if the proof is too short.
    pub(crate) fn read_base(&mut self, count: usize) -> Result<Vec<A::Base>, VerifyError> {
        let elements = (0..count)
            .map(|_| self.arith.read())
            .collect::<Result<Vec<_>, _>>()?;
        self.absorb(&elements);
        Ok(elements)
    }

    /// Reads elements of the extension.
    ///
    /// # Errors
    /// [`VerifyError::Length`] if the proof is too short.
    pub(crate) fn read(&mut self, count: usize) -> Result<Vec<A::Ext>, VerifyError> {
        let elements = self.read_base(count * DEGREE)?;
        let (groups, _) = elements.as_chunks::<DEGREE>();
        Ok(groups.iter().map(|x| self.arith.join(*x)).collect())
    }

    /// Reads elements of F_p if a flag is one; if it is zero they are zero and not in the proof.
    ///
    /// # Errors
    /// [`VerifyError::Length`] if the proof is too short.
    pub(crate) fn read_base_where(
        &mut self,
        flag: A::Base,
        count: usize,
    ) -> Result<Vec<A::Base>, VerifyError> {
        let elements = (0..count)
            .map(|_| self.arith.read_where(flag))
            .collect::<Result<Vec<_>, _>>()?;
        self.absorb(&elements);
        Ok(elements)
    }

    /// The same for elements of the extension.
    ///
    /// # Errors
    /// [`VerifyError::Length`] if the proof is too short.
    pub(crate) fn read_where(
        &mut self,
        flag: A::Base,
        count: usize,
    ) -> Result<Vec<A::Ext>, VerifyError> {
        let elements = self.read_base_where(flag, count * DEGREE)?;
        let (groups, _) = elements.as_chunks::<DEGREE>();
        Ok(groups.iter().map(|x| self.arith.join(*x)).collect())
    }

    /// Reads one element of the extension.
    ///
    /// # Errors
    /// [`VerifyError::Length`] if the proof is too short.
    pub(crate) fn read_one(&mut self) -> Result<A::Ext, VerifyError> {
        self.read(1).map(|list| list[0])
    }

    /// A random element of the extension.
    pub(crate) fn challenge(&mut self) -> A::Ext {
        let mut left = [self.arith.base(Fp::ZERO); DIGEST];
        left[0] = self.arith.base(Fp::new(SQUEEZE));
        left[1] = self.arith.base(Fp::new(self.state.squeezed));
        // Squeezing leaves the digest as it is, so the counter is what makes challenges differ. After a new block
        // it may begin again.
        self.state.squeezed += 1;
        let out = self.arith.compress(left, self.state.digest);
        self.arith.join(std::array::from_fn(|i| out[i]))
    }

    /// Random elements of the extension.
    pub(crate) fn challenges(&mut self, count: usize) -> Vec<A::Ext> {
        (0..count).map(|_| self.challenge()).collect()
    }

    /// Random indices below 2^`bits`, as their bits from the lowest; eight from each squeeze. Only the value 0 of
    /// 24 bits is more likely than others, by 1/127.
    pub(crate) fn queries(&mut self, count: usize, bits: usize) -> Vec<Vec<A::Base>> {
        let mut elements = Vec::with_capacity(count);
        while elements.len() < count {
            let mut left = [self.arith.base(Fp::ZERO); DIGEST];
            left[0] = self.arith.base(Fp::new(SQUEEZE));
            left[1] = self.arith.base(Fp::new(self.state.squeezed));
            self.state.squeezed += 1;
            let of_block = self.arith.compress(left, self.state.digest);
            elements.extend(of_block.into_iter().take(count - elements.len()));
        }
        let elements = self.arith.in_lanes(elements);
        let bits = self.arith.each(count, |arith, lane| {
            (arith.low_bits(elements[lane], bits), Vec::new())
        });
        bits.into_iter().map(|(bits, _)| bits).collect()
    }

    /// Reads a nonce and checks that its hash with the state ends in `bits` zero bits.
    pub(crate) fn check_work(&mut self, bits: u32, error: VerifyError) -> Result<(), VerifyError> {
        let nonce = [self.arith.read()?, self.arith.read()?];
        let mut block = [self.arith.base(Fp::ZERO); DIGEST];
        block[..2].copy_from_slice(&nonce);
        block[2] = self.arith.base(Fp::new(WORK));
        let hash = self.arith.compress(self.state.digest, block);
        let zero = self.arith.base(Fp::ZERO);
        let low = self.arith.low_bits(hash[0], bits as usize);
        let set = low.into_iter().fold(zero, |sum, bit| sum + bit);
        #[cfg(test)]
        let set = match crate::whir::weak::is_out(crate::whir::weak::Rule::Work) {
            true => zero,
            false => set,
        };
        let set = self.arith.join([set, zero, zero, zero, zero]);
        // The sum of at most 31 bits is below p, so it is zero only if all are.
        self.arith.assert_zero(set, error)?;
        // What follows depends on the nonce, so a prover cannot see the next challenge before the work is done.
        self.absorb(&nonce);
        Ok(())
    }
}

/// A lie that tests inject into a prover: `delta` is added to the sent element `index`, and the prover continues
/// honestly from the challenges that follow.
#[cfg(test)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lie {
    pub(crate) index: usize,
    pub(crate) delta: Fp,
}

/// A prover's side: writes the proof and absorbs everything it writes.
#[derive(Clone, Debug)]
pub(crate) struct Sender {
    state: State<Fp>,
    proof: Vec<Fp>,
    #[cfg(test)]
    pub(crate) lies: Vec<Lie>,
}

impl Sender {
    /// See [`Channel::new`].
    pub(crate) fn new(parameters: [Fp; DIGEST]) -> Sender {
        Sender {
            state: State {
                digest: compress(ascii(NAME), parameters),
                squeezed: 0,
            },
            proof: Vec::new(),
            #[cfg(test)]
            lies: Vec::new(),
        }
    }

    /// Absorbs elements that the verifier knows.
    pub(crate) fn absorb(&mut self, elements: &[Fp]) {
        for chunk in elements.chunks(DIGEST) {
            let mut block = [Fp::ZERO; DIGEST];
            block[..chunk.len()].copy_from_slice(chunk);
            self.state.digest = compress(self.state.digest, block);
            self.state.squeezed = 0;
        }
    }

    /// Writes elements of F_p.
    pub(crate) fn send_base(&mut self, elements: &[Fp]) {
        let start = self.proof.len();
        self.proof.extend_from_slice(elements);
        #[cfg(test)]
        for lie in &self.lies {
            if let Some(hints) = self.proof[start..].get_mut(lie.index.wrapping_sub(start)) {
                *hints += lie.delta;
            }
        }
        let said = self.proof[start..].to_vec();
        self.absorb(&said);
    }

    /// Writes elements of the extension.
    pub(crate) fn send(&mut self, elements: &[Ext]) {
        let coefficients: Vec<Fp> = elements.iter().flat_map(|x| x.0).collect();
        self.send_base(&coefficients);
    }

    /// See [`Channel::challenge`].
    pub(crate) fn challenge(&mut self) -> Ext {
        let mut left = [Fp::ZERO; DIGEST];
        left[0] = Fp::new(SQUEEZE);
        left[1] = Fp::new(self.state.squeezed);
        self.state.squeezed += 1;
        let out = compress(left, self.state.digest);
        Ext(std::array::from_fn(|i| out[i]))
    }

    /// See [`Channel::challenges`].
    pub(crate) fn challenges(&mut self, count: usize) -> Vec<Ext> {
        (0..count).map(|_| self.challenge()).collect()
    }

    /// See [`Channel::queries`]; returns them as numbers.
    pub(crate) fn queries(&mut self, count: usize, bits: usize) -> Vec<usize> {
        let mut out = Vec::with_capacity(count);
        while out.len() < count {
            let mut left = [Fp::ZERO; DIGEST];
            left[0] = Fp::new(SQUEEZE);
            left[1] = Fp::new(self.state.squeezed);
            self.state.squeezed += 1;
            // p is not a power of two, so low bits are not quite uniform: see the bound at `Channel::queries`.
            let lanes = compress(left, self.state.digest);
            let index = |lane: Fp| lane.canonical() as usize & ((1 << bits) - 1);
            out.extend(lanes.map(index).into_iter().take(count - out.len()));
        }
        out
    }

    /// Writes elements that earlier messages bind; they are not absorbed.
    pub(crate) fn hint(&mut self, elements: &[Fp]) {
        self.proof.extend_from_slice(elements);
    }

    /// Finds and writes the smallest nonce: see [`Channel::check_work`].
    ///
    /// # Errors
    /// [`Stopped`] if the computation is stopped.
    pub(crate) fn grind(&mut self, exec: Exec<'_>, bits: u32) -> Result<(), Stopped> {
        exec.step("proof of work")?;
        let mask = (1u32 << bits) - 1;
        let tiles = exec.threads();
        // All threads try neighbouring ranges and wait for each other. If each went on alone, the nonce would
        // depend on their number.
        for start in (0u64..).step_by(GRIND * tiles) {
            let found = exec.try_map(tiles, |tile| {
                let start = start + (tile * GRIND) as u64;
                let mut states = [[Fp::ZERO; 2 * DIGEST]; GRIND];
                for (i, state) in states.iter_mut().enumerate() {
                    state[..DIGEST].copy_from_slice(&self.state.digest);
                    state[DIGEST..].copy_from_slice(&nonce_block(start + i as u64));
                }
                exec.backend().compress_own(&mut states);
                let found = states.iter().position(|s| s[0].canonical() & mask == 0);
                found.map(|found| start + found as u64)
            })?;
            // Tiles are in order, so the first find is the smallest nonce.
            if let Some(nonce) = found.into_iter().flatten().next() {
                let block = nonce_block(nonce);
                self.send_base(&block[..2]);
                break;
            }
        }
        Ok(())
    }

    /// Number of elements written so far.
    #[cfg(test)]
    pub(crate) fn written(&self) -> usize {
        self.proof.len()
    }

    /// The elements written so far.
    pub(crate) fn proof(&self) -> &[Fp] {
        &self.proof
    }

    /// All elements written.
    pub(crate) fn finish(self) -> Vec<Fp> {
        self.proof
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arith::Native;

    fn parameters() -> [Fp; DIGEST] {
        std::array::from_fn(|i| Fp::new(i as u32))
    }

    /// Ten elements written one way, with a challenge after each block of sends.
    fn conversation(change: Option<usize>) -> (Vec<Fp>, Vec<Ext>) {
        let mut sender = Sender::new(parameters());
        sender.lies = change
            .map(|index| Lie {
                index,
                delta: Fp::ONE,
            })
            .into_iter()
            .collect();
        sender.absorb(&[Fp::new(7)]);
        let mut challenges = sender.challenges(2);
        for start in [0, 5, 10] {
            let block: Vec<Fp> = (start..start + 5).map(Fp::new).collect();
            sender.send_base(&block);
            challenges.push(sender.challenge());
        }
        assert_eq!(sender.written(), 15);
        (sender.finish(), challenges)
    }

    #[test]
    fn both_sides_draw_the_same_challenges() {
        let (proof, expected) = conversation(None);
        let mut channel = Channel::new(Native::new(&proof), parameters());
        channel.absorb(&[Fp::new(7)]);
        let mut challenges = channel.challenges(2);
        assert_eq!(channel.read_base(5).unwrap(), proof[..5]);
        challenges.push(channel.challenge());
        let element = channel.read_one().unwrap();
        assert_eq!(element.0[..], proof[5..10]);
        challenges.push(channel.challenge());
        channel.read(1).unwrap();
        challenges.push(channel.challenge());
        assert_eq!(challenges, expected);
        channel.arith.finish().unwrap();
        let end = channel.read_one().unwrap_err();
        assert_eq!(end, VerifyError::Length { want: 16, got: 15 });
    }

    #[test]
    fn each_element_said_changes_all_later_challenges_and_no_earlier_one() {
        let (_, honest) = conversation(None);
        for index in 0..15 {
            let (_, lied) = conversation(Some(index));
            let before = 2 + index / 5;
            assert_eq!(honest[..before], lied[..before]);
            let later = honest[before..].iter().zip(&lied[before..]);
            assert!(later.clone().count() > 0 && later.clone().all(|(a, b)| a != b));
        }
    }

    #[test]
    fn challenges_of_one_state_differ() {
        let mut sender = Sender::new(parameters());
        let challenges = sender.challenges(8);
        let distinct: std::collections::HashSet<_> = challenges.iter().collect();
        assert_eq!(distinct.len(), 8);
        assert_eq!(tag(b"ent1"), Fp::new(0x656e_7431));
        assert_eq!(ascii(b"alp")[0], Fp::new(0x0061_6c70));
    }
}
