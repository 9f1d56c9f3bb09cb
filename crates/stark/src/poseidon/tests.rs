use super::*;
use crate::poseidon::kernels::KERNELS;
use p3_field::{PrimeCharacteristicRing, PrimeField32};
use p3_koala_bear::{
    KoalaBear, default_koalabear_poseidon1_16, default_koalabear_poseidon1_24,
    default_koalabear_poseidon2_16,
};
use p3_symmetric::Permutation;
use proptest::prelude::*;

fn counting<const T: usize>() -> [Fp; T] {
    std::array::from_fn(|i| Fp::new(i as u32))
}

fn canonical(elements: &[Fp]) -> Vec<u32> {
    elements.iter().map(|x| x.canonical()).collect()
}

/// Known answers of the lean consensus specification's definitions.
#[test]
fn known_answers() {
    let known_16 = [
        610090613, 935319874, 1893335292, 796792199, 356405232, 552237741, 55134556, 1215104204,
        1823723405, 1133298033, 1780633798, 1453946561, 710069176, 1128629550, 1917333254,
        1175481618,
    ];
    let known_24 = [
        511672087, 215882318, 237782537, 740528428, 712760904, 54615367, 751514671, 110231969,
    ];
    let compressed_16 = [
        1322417907, 1303287496, 1541273089, 1618220094, 1711479283, 239494928, 1755981565,
        1393953151,
    ];
    let compressed_24 = [
        1114630880, 1895839298, 1019726674, 919764788, 323823531, 372774729, 1191983079, 70660318,
    ];
    for backend in KERNELS.available() {
        let mut states = [counting()];
        backend.permute_16(&mut states);
        assert_eq!(canonical(&states[0]), known_16, "{backend}");
        let mut states = [counting()];
        backend.permute_24(&mut states);
        assert_eq!(canonical(&states[0][..8]), known_24, "{backend}");
        // The input of the compressions is 0..7; the other lanes are zero.
        let mut states = [counting()];
        states[0][8..].fill(Fp::ZERO);
        backend.compress_16(&mut states);
        assert_eq!(canonical(&states[0][..8]), compressed_16, "{backend}");
        let mut states = [counting()];
        states[0][8..].fill(Fp::ZERO);
        backend.compress_24(&mut states);
        assert_eq!(canonical(&states[0][..8]), compressed_24, "{backend}");
    }
}

/// The known answer of Plonky3's own test of Poseidon2, which the compression adds to its input.
#[test]
fn known_answer_of_poseidon2() {
    let input = [
        894848333, 1437655012, 1200606629, 1690012884, 71131202, 1749206695, 1717947831, 120589055,
        19776022, 42382981, 1831865506, 724844064, 171220207, 1299207443, 227047920, 1783754913,
    ];
    let known = [
        1934285469, 604889435, 133449501, 1026180808, 1830659359, 176667110, 1391183747, 351743874,
        1238264085, 1292768839, 2023573270, 1201586780, 1360691759, 1230682461, 748270449,
        651545025,
    ];
    let input = input.map(Fp::new);
    for backend in KERNELS.available() {
        let mut states = [input];
        backend.compress_own(&mut states);
        let permuted: Vec<Fp> = states[0].iter().zip(&input).map(|(x, y)| *x - *y).collect();
        assert_eq!(canonical(&permuted), known, "{backend}");
    }
}

/// Permutes states by the compression of a proof's own hash.
fn permute_own(backend: Backend, states: &mut [[Fp; 16]]) {
    let inputs = states.to_vec();
    backend.compress_own(states);
    for (state, input) in states.iter_mut().zip(&inputs) {
        state.iter_mut().zip(input).for_each(|(x, y)| *x -= *y);
    }
}

fn agrees<const T: usize>(
    plainly: impl Fn(&mut [Fp; T]),
    oracle: impl Permutation<[KoalaBear; T]>,
    permute: impl Fn(Backend, &mut [[Fp; T]]),
    words: &[u32],
) {
    let states: Vec<[Fp; T]> = words
        .chunks_exact(T)
        .map(|chunk| std::array::from_fn(|i| Fp::new(chunk[i])))
        .collect();
    let expected: Vec<[Fp; T]> = states
        .iter()
        .map(|state| {
            let mut plain = *state;
            plainly(&mut plain);
            let theirs = oracle.permute(state.map(|x| KoalaBear::from_u32(x.canonical())));
            assert_eq!(
                plain.map(Fp::canonical),
                theirs.map(|x| x.as_canonical_u32())
            );
            plain
        })
        .collect();
    for backend in KERNELS.available() {
        let mut out = states.clone();
        permute(backend, &mut out);
        assert_eq!(out, expected, "{backend}");
    }
}

fn plain_16(state: &mut [Fp; 16]) {
    TABLES_16.permute_plainly(state);
}

fn plain_24(state: &mut [Fp; 24]) {
    TABLES_24.permute_plainly(state);
}

fn plain_own(state: &mut [Fp; 16]) {
    OWN.permute_plainly(state);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn every_kernel_agrees_with_the_plain_rounds_and_with_plonky3(
        words in proptest::collection::vec(any::<u32>(), 24 * 35),
    ) {
        let oracle = default_koalabear_poseidon1_16();
        agrees(plain_16, oracle, Backend::permute_16, &words);
        let oracle = default_koalabear_poseidon1_24();
        agrees(plain_24, oracle, Backend::permute_24, &words);
        let oracle = default_koalabear_poseidon2_16();
        agrees(plain_own, oracle, permute_own, &words);
    }
}

fn compresses(
    backend: Backend,
    states: &[[Fp; 16]],
    compress: impl Fn(Backend, &mut [[Fp; 16]]),
    plainly: impl Fn(&mut [Fp; 16]),
) {
    let (mut compressed, mut expected) = (states.to_vec(), states.to_vec());
    compress(backend, &mut compressed);
    for (state, input) in expected.iter_mut().zip(states) {
        plainly(state);
        state.iter_mut().zip(input).for_each(|(x, y)| *x += *y);
    }
    assert_eq!(compressed, expected, "{backend} {}", states.len());
}

/// Pairs of vectors, one vector, and single states at the end.
#[test]
fn every_number_of_states_gives_the_same_values() {
    let states: Vec<[Fp; 24]> = (0..70u32)
        .map(|i| std::array::from_fn(|j| Fp::new(1000 * i + j as u32)))
        .collect();
    let narrow: Vec<[Fp; 16]> = states
        .iter()
        .map(|state| std::array::from_fn(|j| state[j]))
        .collect();
    for backend in KERNELS.available() {
        for count in (0..40).chain([63, 64, 65, 70]) {
            let (mut wide, mut expected) = (states[..count].to_vec(), states[..count].to_vec());
            backend.permute_24(&mut wide);
            expected
                .iter_mut()
                .for_each(|state| TABLES_24.permute_plainly(state));
            assert_eq!(wide, expected, "{backend} {count}");
            compresses(backend, &narrow[..count], Backend::compress_16, plain_16);
            compresses(backend, &narrow[..count], Backend::compress_own, plain_own);
        }
    }
}

#[test]
fn extreme_words_agree_too() {
    let top = crate::field::P - 1;
    for value in [0, 1, top, top - 1] {
        agrees(
            plain_own,
            default_koalabear_poseidon2_16(),
            permute_own,
            &[value; 16 * 17],
        );
        agrees(
            plain_16,
            default_koalabear_poseidon1_16(),
            Backend::permute_16,
            &[value; 16 * 17],
        );
        agrees(
            plain_24,
            default_koalabear_poseidon1_24(),
            Backend::permute_24,
            &[value; 24 * 17],
        );
    }
}
