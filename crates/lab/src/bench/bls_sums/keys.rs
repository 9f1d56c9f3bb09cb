//! Keys that an adversary would register: all of them have valid proofs of possession, and make
//! additions meet equal and opposite points.

use alphorn_bls::{FixedBaseG1, G1Affine, g1_generator};
use alphorn_exec::Backend;
use alphorn_types::Layout;

/// Validators that share a key: a committee of 2^15 has 1,024 different keys.
const CLONES: usize = 32;
/// Points that the fixed-base multiplication makes at once: enough to share its inversions.
const BLOCK: usize = 2048;

/// Which keys the committees have.
#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Keys {
    /// Interop keys, all different
    Interop,
    /// 32 validators of a committee share each key: additions are doublings
    Clones,
    /// P and -P side by side: additions end in the identity
    Pairs,
    /// Secret keys 1 to n, the least beside the greatest: sums of neighbours are equal
    Sequence,
}

impl Keys {
    /// The name in tables.
    pub(super) fn name(self) -> &'static str {
        match self {
            Keys::Interop => "interop",
            Keys::Clones => "clones",
            Keys::Pairs => "pairs",
            Keys::Sequence => "sequence",
        }
    }

    /// The keys of all committees in order, made from as many interop keys.
    pub(super) fn points(
        self,
        interop: &[G1Affine],
        layout: &Layout,
        kernel: Backend,
    ) -> Vec<G1Affine> {
        let committees = || {
            (0..layout.committees()).map(|c| {
                let range = layout.committee_range(c);
                &interop[range.start as usize..range.end as usize]
            })
        };
        match self {
            Keys::Interop => interop.to_vec(),
            Keys::Clones => committees()
                .flat_map(|keys| {
                    let different = keys.len().div_ceil(CLONES).max(1);
                    (0..keys.len()).map(move |i| keys[i % different])
                })
                .collect(),
            Keys::Pairs => committees()
                .flat_map(|keys| {
                    (0..keys.len()).map(move |i| match i % 2 {
                        0 => keys[i],
                        _ => keys[i - 1].neg(),
                    })
                })
                .collect(),
            Keys::Sequence => sequence(interop.len(), layout, kernel),
        }
    }
}

/// Multiples 1 to n of the generator, from both ends of each committee's range in turn.
fn sequence(count: usize, layout: &Layout, kernel: Backend) -> Vec<G1Affine> {
    let scalars: Vec<[u8; 32]> = (1..=count as u64)
        .map(|scalar| {
            let mut bytes = [0; 32];
            bytes[..8].copy_from_slice(&scalar.to_le_bytes());
            bytes
        })
        .collect();
    let table = FixedBaseG1::new(kernel, &g1_generator(), count);
    let mut multiples = Vec::with_capacity(count);
    for block in scalars.chunks(BLOCK) {
        table.vartime_mul_many(block, &mut multiples);
    }
    let ends = |c: u16| {
        let range = layout.committee_range(c);
        let (start, end) = (range.start as usize, range.end as usize);
        (0..end - start).map(move |i| match i % 2 {
            0 => start + i / 2,
            _ => end - 1 - i / 2,
        })
    };
    (0..layout.committees())
        .flat_map(ends)
        .map(|i| multiples[i])
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use alphorn_bls::{encode_g1, interop_keys, peer, vartime_interop_public_keys};
    use alphorn_exec::Exec;

    #[test]
    fn keys_are_as_adversarial_as_they_say() {
        let layout = Layout::new(201, 2, 1).unwrap();
        let kernel = Backend::Portable;
        let secrets = interop_keys(0..201, Exec::serial());
        let interop: Vec<G1Affine> = vartime_interop_public_keys(&secrets, Exec::new(kernel, None))
            .iter()
            .map(|key| *key.point())
            .collect();
        let points = |keys: Keys| keys.points(&interop, &layout, kernel);
        assert_eq!(points(Keys::Interop), interop);
        let first = layout.committee_len(0) as usize;
        for keys in [Keys::Clones, Keys::Pairs, Keys::Sequence] {
            let points = points(keys);
            assert_eq!(points.len(), 201);
            let committee = &points[..first];
            match keys {
                Keys::Clones => {
                    let mut different: Vec<_> = committee.iter().map(encode_g1).collect();
                    different.sort_unstable();
                    different.dedup();
                    assert_eq!(different.len(), first.div_ceil(CLONES));
                }
                Keys::Pairs => {
                    for pair in committee.chunks_exact(2) {
                        assert!(peer::sum_naive(pair).is_infinity());
                    }
                }
                _ => {
                    let sums: Vec<_> = committee.chunks_exact(2).map(peer::sum_naive).collect();
                    assert!(sums.windows(2).all(|two| two[0] == two[1]));
                    assert_eq!(committee[0], alphorn_bls::g1_generator());
                }
            }
        }
    }
}
