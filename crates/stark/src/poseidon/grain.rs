//! Round constants from the Grain shift register, as the authors of Poseidon make them.
//!
//! Appendix E of the Poseidon paper (ePrint 2019/458): 80 bits that name the field, the width and the
//! round numbers start the register; 160 steps are thrown away; of each pair of bits the second
//! counts if the first is 1; 31 such bits are a candidate, which counts if it is below p. So nobody
//! has to trust a table, and there is none here.

use crate::field::Fp;

/// The register, the oldest bit lowest.
struct Grain(u128);

impl Grain {
    fn new(width: usize, full: usize, partial: usize) -> Grain {
        let mut state = 0;
        let mut position = 0;
        let mut push = |value: usize, bits: u32| {
            for bit in (0..bits).rev() {
                state |= ((value >> bit & 1) as u128) << position;
                position += 1;
            }
        };
        push(1, 2); // a prime field
        push(0, 4); // the S-box is a power
        push(31, 12); // bits of an element
        push(width, 12);
        push(full, 10);
        push(partial, 10);
        push((1 << 30) - 1, 30);
        let mut grain = Grain(state);
        for _ in 0..160 {
            grain.step();
        }
        grain
    }

    fn step(&mut self) -> bool {
        let bit = [62, 51, 38, 23, 13, 0]
            .into_iter()
            .fold(0, |sum, tap| sum ^ self.0 >> tap & 1);
        self.0 = self.0 >> 1 | bit << 79;
        bit == 1
    }

    fn bit(&mut self) -> bool {
        loop {
            let (counts, bit) = (self.step(), self.step());
            if counts {
                return bit;
            }
        }
    }

    fn element(&mut self) -> Fp {
        loop {
            let value = (0..31).fold(0, |value, _| value << 1 | u32::from(self.bit()));
            if let Some(element) = Fp::from_canonical(value) {
                return element;
            }
        }
    }
}

/// The constants of Poseidon2: of the full rounds before, of lane 0 in the partial rounds, and of the
/// full rounds after.
pub(super) fn round_constants_2<const T: usize, const P: usize>(
    half: usize,
) -> ([Vec<[Fp; T]>; 2], [Fp; P]) {
    let mut grain = Grain::new(T, 2 * half, P);
    let full = |grain: &mut Grain| {
        let round = |_| std::array::from_fn(|_| grain.element());
        (0..half).map(round).collect()
    };
    let before = full(&mut grain);
    let partial = std::array::from_fn(|_| grain.element());
    ([before, full(&mut grain)], partial)
}

/// The constants of all rounds, for `full` full and `partial` partial ones.
pub(super) fn round_constants<const T: usize>(full: usize, partial: usize) -> Vec<[Fp; T]> {
    let mut grain = Grain::new(T, full, partial);
    (0..full + partial)
        .map(|_| std::array::from_fn(|_| grain.element()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use p3_field::PrimeField32;
    use p3_koala_bear::{
        KOALABEAR_POSEIDON1_RC_16, KOALABEAR_POSEIDON1_RC_24,
        KOALABEAR_POSEIDON2_RC_16_EXTERNAL_FINAL, KOALABEAR_POSEIDON2_RC_16_EXTERNAL_INITIAL,
        KOALABEAR_POSEIDON2_RC_16_INTERNAL, KoalaBear,
    };

    fn canonical<const T: usize>(rounds: &[[Fp; T]]) -> Vec<u32> {
        rounds.iter().flatten().map(|x| x.canonical()).collect()
    }

    #[test]
    fn the_register_gives_the_published_constants() {
        let known = KOALABEAR_POSEIDON1_RC_16.as_flattened().iter();
        let known: Vec<u32> = known.map(|x| x.as_canonical_u32()).collect();
        assert_eq!(canonical(&round_constants::<16>(8, 20)), known);
        let known = KOALABEAR_POSEIDON1_RC_24.as_flattened().iter();
        let known: Vec<u32> = known.map(|x| x.as_canonical_u32()).collect();
        assert_eq!(canonical(&round_constants::<24>(8, 23)), known);
    }

    #[test]
    fn the_register_gives_the_published_constants_of_poseidon2() {
        let known = |list: &[KoalaBear]| -> Vec<u32> {
            list.iter().map(|x| x.as_canonical_u32()).collect()
        };
        let ([before, after], partial) = round_constants_2::<16, 20>(4);
        let published = KOALABEAR_POSEIDON2_RC_16_EXTERNAL_INITIAL.as_flattened();
        assert_eq!(canonical(&before), known(published));
        let published = KOALABEAR_POSEIDON2_RC_16_EXTERNAL_FINAL.as_flattened();
        assert_eq!(canonical(&after), known(published));
        let published = known(&KOALABEAR_POSEIDON2_RC_16_INTERNAL);
        assert_eq!(partial.map(Fp::canonical).to_vec(), published);
    }
}
