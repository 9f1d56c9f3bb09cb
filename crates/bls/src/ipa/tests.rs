//! Completeness, rejection, the attacks of the lecture, and a formal model as the prover's oracle.

use std::sync::OnceLock;

use alphorn_exec::{Backend, Exec};
use alphorn_types::Bitfield;
use proptest::prelude::*;
use sha2::{Digest, Sha256};

use super::bases::{powers, weighted_sum};
use super::prove::{Vectors, argue};
use super::transcript::Transcript;
use super::*;
use crate::blst_ffi::fr::vartime_fold;
use crate::blst_ffi::points::g1;
use crate::{InteropKey, Rlc, RlcBits, interop_keys, vartime_interop_public_keys};

const SERIAL: fn() -> Exec<'static> = Exec::serial;

fn bases() -> &'static Bases {
    static BASES: OnceLock<Bases> = OnceLock::new();
    BASES.get_or_init(|| Bases::derive(1024, SERIAL()).unwrap())
}

fn keys(n: usize, first: u64) -> Vec<PublicKey> {
    let secrets = interop_keys(first..first + n as u64, SERIAL());
    vartime_interop_public_keys(&secrets, SERIAL().on(Backend::Portable))
}

fn committee(n: usize) -> Committee {
    Committee::new(&keys(n, 0)).unwrap()
}

fn signers_of(multiplicities: &[u32]) -> Bitfield {
    let mut signers = Bitfield::new(multiplicities.len());
    for (i, &m) in multiplicities.iter().enumerate() {
        if m != 0 {
            signers.set(i);
        }
    }
    signers
}

/// 3, 2, 1, 0, 3, ..: all multiplicities of two planes.
fn multiplicities(n: usize) -> Vec<u32> {
    (0..n as u32).map(|i| 3 - i % 4).collect()
}

/// A statement with its honest proof.
#[derive(Clone)]
struct Case {
    committee: Committee,
    multiplicities: Vec<u32>,
    signers: Bitfield,
    aggregate: PublicKey,
    proof: Proof,
}

impl Case {
    fn new(committee: Committee, multiplicities: Vec<u32>) -> Case {
        let signers = signers_of(&multiplicities);
        let (aggregate, proof) =
            prove(bases(), &committee, &multiplicities, &signers, SERIAL()).unwrap();
        Case {
            committee,
            multiplicities,
            signers,
            aggregate,
            proof,
        }
    }

    fn of(n: usize) -> Case {
        Case::new(committee(n), multiplicities(n))
    }

    fn claim(&self) -> Claim<'_> {
        Claim::new(&self.committee, &self.signers, self.aggregate, &self.proof).unwrap()
    }

    fn verify(&self, signers: &Bitfield, aggregate: PublicKey, proof: &Proof) -> bool {
        let claim = Claim::new(&self.committee, signers, aggregate, proof).unwrap();
        match verify(bases(), &claim, SERIAL()) {
            Ok(()) => true,
            Err(IpaError::Rejected) => false,
            Err(error) => panic!("{error}"),
        }
    }

    fn holds(&self) -> bool {
        self.verify(&self.signers, self.aggregate, &self.proof)
    }

    fn vectors(&self) -> (Vec<Fr>, Vec<Fr>) {
        let v: Vec<Fr> = self
            .multiplicities
            .iter()
            .map(|&m| Fr::from_u128(m.into()))
            .collect();
        let w = v.iter().map(Fr::inverse).collect();
        (v, w)
    }
}

fn plus_generator(point: &G1Affine) -> G1Affine {
    g1::sum_naive(&[*point, g1::generator()])
}

#[test]
fn honest_proofs_are_accepted() {
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(2)
        .build()
        .unwrap();
    for n in [1, 2, 3, 4, 5, 8, 37, 64, 1024] {
        let case = Case::of(n);
        assert!(case.holds(), "n = {n}");
        verify(
            bases(),
            &case.claim(),
            Exec::new(Backend::Portable, Some(&pool)),
        )
        .unwrap();
        let naive: Vec<PublicKey> = case
            .multiplicities
            .iter()
            .zip(keys(n, 0))
            .flat_map(|(&m, key)| vec![key; m as usize])
            .collect();
        assert_eq!(
            case.aggregate,
            crate::aggregate_public_keys(&naive).unwrap()
        );
        let bytes = case.proof.to_bytes();
        assert_eq!(bytes.len(), Proof::bytes_len(n));
        assert_eq!(Proof::from_bytes(&bytes, n).unwrap(), case.proof);
        let threads = Exec::new(Backend::Portable, Some(&pool));
        let again = prove(
            bases(),
            &case.committee,
            &case.multiplicities,
            &case.signers,
            threads,
        );
        assert_eq!(again.unwrap().1, case.proof, "the threads change nothing");
    }
    assert_eq!(Proof::bytes_len(1 << 15), 1600);
    assert_eq!(Proof::bytes_len((1 << 14) + 1), 1600);
}

#[test]
fn proofs_are_the_same_on_every_machine() {
    let digest = |n| hex::encode(Sha256::digest(Case::of(n).proof.to_bytes()));
    let pinned = [
        "56c1a1b9dcc4855e24ff1ffa463ee6011561b00ac64d72ad07004a97f2a75621",
        "45c9b9a84db0aaa8a7a64faf7d20012a6de8ba4c320f4507122926565eee636f",
        "91ee569cef01c001116aecdd24e63e035e1a7c4e8a7d2d71696e2e47891d973f",
    ];
    assert_eq!([4, 8, 1024].map(digest), pinned);
}

#[test]
fn any_multiplicities_pass_where_nothing_is_claimed() {
    let mut case = Case::new(committee(8), vec![1, u32::MAX, 0, 0, 2, 0, 0, 7]);
    case.signers.clear(1);
    case.signers.clear(7);
    let (aggregate, proof) = prove(
        bases(),
        &case.committee,
        &case.multiplicities,
        &case.signers,
        SERIAL(),
    )
    .unwrap();
    assert!(case.verify(&case.signers, aggregate, &proof));
    // Equal keys are allowed.
    let clones = Committee::new(&[keys(1, 0)[0]; 4]).unwrap();
    assert!(Case::new(clones, vec![1, 2, 0, 1]).holds());
    // One signer at each position.
    for i in 0..8 {
        let mut alone = vec![0; 8];
        alone[i] = 1;
        assert!(Case::new(committee(8), alone).holds());
    }
}

#[test]
fn a_false_bit_is_rejected() {
    let case = Case::of(8);
    let mut claimed = case.signers.clone();
    claimed.set(3);
    assert_eq!(
        prove(
            bases(),
            &case.committee,
            &case.multiplicities,
            &claimed,
            SERIAL()
        ),
        Err(IpaError::NotSigned { position: 3 })
    );
    // The honest proof for another set of signers: more, fewer, different.
    for i in 0..8 {
        let mut other = case.signers.clone();
        other.toggle(&{
            let mut bit = Bitfield::new(8);
            bit.set(i);
            bit
        });
        assert!(!case.verify(&other, case.aggregate, &case.proof), "{i}");
    }
    // A prover that continues although v_3 = 0, with any w_3.
    for w_3 in [0, 1, 5] {
        let (v, mut w) = case.vectors();
        w[3] = Fr::from_u128(w_3);
        let statement = Statement {
            committee: &case.committee,
            signers: &claimed,
            aggregate: *case.aggregate.point(),
        };
        let (v_point, w_point) = (
            weighted_sum(&bases().g[..8], &v, SERIAL()),
            weighted_sum(&bases().h[..8], &w, SERIAL()),
        );
        let proof = argue(bases(), &statement, v_point, w_point, |_| (v, w), SERIAL());
        assert!(!case.verify(&claimed, case.aggregate, &proof));
    }
}

#[test]
fn trap_23_every_field_is_absorbed_before_the_challenges() {
    let case = Case::of(4);
    let drawn = |committee: &Committee, signers: &Bitfield, points: [G1Affine; 3]| {
        let statement = Statement {
            committee,
            signers,
            aggregate: points[0],
        };
        let challenges = statement.open(&points[1], &points[2]).1;
        [challenges.y, challenges.tau, challenges.x, challenges.e]
    };
    let points = [*case.aggregate.point(), case.proof.v, case.proof.w];
    let reference = drawn(&case.committee, &case.signers, points);
    assert_eq!(reference, drawn(&case.committee, &case.signers, points));
    let mut others = Vec::new();
    let mut keys_changed = keys(4, 0);
    keys_changed[3] = keys(1, 99)[0];
    others.push(drawn(
        &Committee::new(&keys_changed).unwrap(),
        &case.signers,
        points,
    ));
    let mut longer = case.committee.clone();
    longer.keys.push(longer.keys[0]);
    others.push(drawn(&longer, &case.signers, points));
    let mut fewer = case.signers.clone();
    fewer.clear(0);
    others.push(drawn(&case.committee, &fewer, points));
    for i in 0..3 {
        let mut changed = points;
        changed[i] = plus_generator(&changed[i]);
        others.push(drawn(&case.committee, &case.signers, changed));
    }
    for other in others {
        for (a, b) in reference.iter().zip(&other) {
            assert_ne!(a, b, "each challenge depends on each field");
        }
    }
    // Every u depends on L and R of its halving and on everything before.
    let statement = case.claim().statement;
    let (mut transcript, _) = statement.open(&case.proof.v, &case.proof.w);
    let (left, right) = case.proof.rounds[0];
    let u = halve(&mut transcript.clone(), &left, &right);
    assert_ne!(
        u,
        halve(&mut transcript.clone(), &plus_generator(&left), &right)
    );
    assert_ne!(
        u,
        halve(&mut transcript.clone(), &left, &plus_generator(&right))
    );
    assert_eq!(u, halve(&mut transcript, &left, &right));
    assert_ne!(u, halve(&mut transcript, &left, &right));
}

#[test]
fn a_proof_of_another_statement_is_rejected() {
    let case = Case::of(4);
    // Position 3 has multiplicity 0, so only the digest distinguishes these committees.
    let mut other_keys = keys(4, 0);
    other_keys[3] = keys(1, 99)[0];
    for other in [
        Committee::new(&other_keys),
        Committee::new(&other_keys[..3]),
    ] {
        let other = other.unwrap();
        let signers = case.signers.extract(0..other.len());
        let claim = Claim::new(&other, &signers, case.aggregate, &case.proof).unwrap();
        assert_eq!(verify(bases(), &claim, SERIAL()), Err(IpaError::Rejected));
    }
    let aggregate = PublicKey::from_point(plus_generator(case.aggregate.point())).unwrap();
    assert!(!case.verify(&case.signers, aggregate, &case.proof));
}

#[test]
fn every_part_of_a_proof_counts() {
    for n in [1, 8] {
        let case = Case::of(n);
        let points: Vec<G1Affine> = case.proof.points().copied().collect();
        let scalars = case.proof.to_bytes().split_off(48 * points.len());
        for i in 0..points.len() {
            let mut changed = points.clone();
            changed[i] = plus_generator(&changed[i]);
            let mut bytes: Vec<u8> = changed.iter().flat_map(encode_g1).collect();
            bytes.extend(&scalars);
            let proof = Proof::from_bytes(&bytes, n).unwrap();
            assert!(
                !case.verify(&case.signers, case.aggregate, &proof),
                "point {i}"
            );
        }
        for i in 0..2 {
            let mut proof = case.proof.clone();
            let scalar = if i == 0 { &mut proof.a } else { &mut proof.c };
            *scalar = scalar.add(&Fr::one());
            assert!(!case.verify(&case.signers, case.aggregate, &proof));
        }
        let mut proof = case.proof.clone();
        (proof.v, proof.w) = (proof.w, proof.v);
        assert!(!case.verify(&case.signers, case.aggregate, &proof));
        if n > 1 {
            let mut proof = case.proof.clone();
            proof.rounds.swap(0, 1);
            assert!(!case.verify(&case.signers, case.aggregate, &proof));
        }
    }
}

#[test]
fn every_flipped_bit_is_refused() {
    let case = Case::of(2);
    let bytes = case.proof.to_bytes();
    for bit in 0..8 * bytes.len() {
        let mut flipped = bytes.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        if let Ok(proof) = Proof::from_bytes(&flipped, 2) {
            assert_eq!(proof.to_bytes(), flipped, "bit {bit}");
            assert!(
                !case.verify(&case.signers, case.aggregate, &proof),
                "bit {bit}"
            );
        }
    }
}

#[test]
fn encodings_that_are_not_canonical_are_refused() {
    let case = Case::of(4);
    let bytes = case.proof.to_bytes();
    let points = bytes.len() / 48 - 1;
    let with = |at: usize, part: &[u8]| {
        let mut changed = bytes.clone();
        changed[at..at + part.len()].copy_from_slice(part);
        Proof::from_bytes(&changed, 4)
    };
    let mut infinity = [0; 48];
    infinity[0] = 0xc0;
    // (0, 2) has order 3.
    let mut order_3 = [0; 48];
    order_3[0] = 0x80;
    let mut stray = infinity;
    stray[47] = 1;
    for index in 0..points {
        for (part, error) in [
            (infinity, DecodeError::Infinity),
            (order_3, DecodeError::NotInSubgroup),
            (stray, DecodeError::InfinityBits),
            ([0; 48], DecodeError::Flags { flags: 0 }),
            ([0x9f; 48], DecodeError::NotCanonical),
        ] {
            assert_eq!(
                with(48 * index, &part),
                Err(IpaError::Point { index, error })
            );
        }
    }
    let mut order = Fr::one().neg().to_be_bytes();
    order[31] += 1;
    for index in 0..2 {
        for scalar in [order, [0xff; 32]] {
            let at = 48 * points + 32 * index;
            assert_eq!(with(at, &scalar), Err(IpaError::Scalar { index }));
        }
    }
    for len in [0, 1, 47, bytes.len() - 1] {
        let expected = IpaError::ProofLength {
            got: len,
            expected: bytes.len(),
        };
        assert_eq!(Proof::from_bytes(&bytes[..len], 4), Err(expected));
    }
    assert!(Proof::from_bytes(&[&bytes[..], &[0]].concat(), 4).is_err());
    assert!(Proof::from_bytes(&bytes, 5).is_err());
    assert!(Proof::from_bytes(&bytes, 3).is_ok(), "the same padded size");
    for keys in [0, KEYS_MAX + 1, usize::MAX] {
        assert_eq!(
            Proof::from_bytes(&bytes, keys),
            Err(IpaError::Keys { got: keys })
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]
    #[test]
    fn no_bytes_panic_the_decoder(bytes in prop::collection::vec(any::<u8>(), 0..300), keys in 0usize..6) {
        if let Ok(proof) = Proof::from_bytes(&bytes, keys) {
            prop_assert_eq!(proof.to_bytes(), bytes);
        }
    }

}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn random_supports_hold(seed in any::<u64>(), n in 1usize..33) {
        let mut multiplicities: Vec<u32> = (0..n).map(|i| (seed >> (2 * (i % 32)) & 3) as u32).collect();
        multiplicities[seed as usize % n] = 1;
        prop_assert!(Case::new(committee(n), multiplicities).holds());
    }
}

#[test]
fn sizes_that_do_not_fit_are_errors() {
    let case = Case::of(4);
    let error = |result: Result<(PublicKey, Proof), IpaError>| result.unwrap_err();
    assert_eq!(Committee::new(&[]).unwrap_err(), IpaError::Keys { got: 0 });
    assert_eq!(case.committee.len(), 4);
    let run = |m: &[u32], signers: &Bitfield| {
        error(prove(bases(), &case.committee, m, signers, SERIAL()))
    };
    assert_eq!(run(&[1; 4], &Bitfield::new(4)), IpaError::NoSigner);
    let (got, expected) = (5, 4);
    assert_eq!(
        run(&[1; 4], &Bitfield::ones(5)),
        IpaError::Signers { got, expected }
    );
    assert_eq!(
        run(&[1; 5], &Bitfield::ones(4)),
        IpaError::Multiplicities { got, expected }
    );
    for n in [0, KEYS_MAX + 1] {
        assert_eq!(
            Bases::derive(n, SERIAL()).unwrap_err(),
            IpaError::Keys { got: n }
        );
    }
    let small = Bases::derive(3, SERIAL()).unwrap();
    let five = Case::of(5);
    let too_few = IpaError::Bases { got: 4, needed: 8 };
    assert_eq!(
        verify(&small, &five.claim(), SERIAL()),
        Err(too_few.clone())
    );
    let rlc = Rlc::reproducible();
    assert_eq!(
        verify_batch(&small, &[five.claim()], &rlc, SERIAL()),
        Err(too_few.clone())
    );
    assert_eq!(
        locate(&small, &[five.claim()], &rlc, SERIAL()),
        Err(too_few)
    );
    let nobody = Bitfield::new(4);
    let claim = |committee, signers, proof| {
        Claim::new(committee, signers, case.aggregate, proof)
            .map(|_| ())
            .unwrap_err()
    };
    let (got, expected) = (3, 2);
    assert_eq!(
        claim(&case.committee, &case.signers, &five.proof),
        IpaError::Rounds { got, expected }
    );
    assert_eq!(
        claim(&case.committee, &nobody, &case.proof),
        IpaError::NoSigner
    );
    assert_eq!(
        claim(&case.committee, &five.signers, &case.proof),
        IpaError::Signers {
            got: 5,
            expected: 4
        }
    );
}

#[test]
fn keys_that_cancel_have_no_proof() {
    let key = keys(1, 0)[0];
    let opposite = PublicKey::from_point(key.point().neg()).unwrap();
    let committee = Committee::new(&[key, opposite]).unwrap();
    let both = Bitfield::ones(2);
    assert_eq!(
        prove(bases(), &committee, &[1, 1], &both, SERIAL()),
        Err(IpaError::Identity)
    );
    assert!(prove(bases(), &committee, &[2, 1], &both, SERIAL()).is_ok());
}

/// Proofs of four committees of different sizes, some of them made bad.
fn batch_of(count: usize, bad: &[usize]) -> Vec<Case> {
    static GOOD: OnceLock<Vec<Case>> = OnceLock::new();
    let sizes = [4, 8, 7, 1];
    let good = GOOD.get_or_init(|| {
        let case = |i: usize| {
            let n = sizes[i % sizes.len()];
            let multiplicities = (0..n).map(|j| 1 + (i / 4 + j) as u32 % 3).collect();
            let committee = Committee::new(&keys(n, 10 * (i % sizes.len()) as u64)).unwrap();
            Case::new(committee, multiplicities)
        };
        (0..64).map(case).collect()
    });
    let mut cases = good[..count].to_vec();
    for &i in bad {
        cases[i].proof.c = cases[i].proof.c.add(&Fr::one());
    }
    cases
}

#[test]
fn trap_23_a_batch_names_its_one_bad_proof_of_64() {
    let rlc = Rlc::new([5; 32], RlcBits::Bits64);
    let good = batch_of(64, &[]);
    let claims: Vec<Claim<'_>> = good.iter().map(Case::claim).collect();
    verify_batch(bases(), &claims, &rlc, SERIAL()).unwrap();
    let found = locate(bases(), &claims, &rlc, SERIAL()).unwrap();
    assert_eq!((found.bad, found.tests, found.sums), (vec![], 1, 6));
    for at in [0, 17, 63] {
        let cases = batch_of(64, &[at]);
        let claims: Vec<Claim<'_>> = cases.iter().map(Case::claim).collect();
        assert_eq!(
            verify_batch(bases(), &claims, &rlc, SERIAL()),
            Err(IpaError::Rejected)
        );
        let found = locate(bases(), &claims, &rlc, SERIAL()).unwrap();
        assert_eq!(found.bad, [at]);
        assert_eq!(found.tests, 7, "the whole and one a level");
    }
}

#[test]
fn a_search_finds_what_single_proofs_say() {
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(2)
        .build()
        .unwrap();
    for rlc in [Rlc::new([1; 32], RlcBits::Bits64), Rlc::reproducible()] {
        for (count, step) in [
            (1, 1),
            (2, 1),
            (16, 1),
            (16, 2),
            (16, 5),
            (30, 7),
            (64, 32),
            (64, 1),
        ] {
            let bad: Vec<usize> = (0..count).step_by(step).collect();
            let cases = batch_of(count, &bad);
            let claims: Vec<Claim<'_>> = cases.iter().map(Case::claim).collect();
            let found = locate(
                bases(),
                &claims,
                &rlc,
                Exec::new(Backend::Portable, Some(&pool)),
            )
            .unwrap();
            assert_eq!(found.bad, bad, "{count} proofs, every {step}");
            let alone: Vec<usize> = (0..count).filter(|&i| !cases[i].holds()).collect();
            assert_eq!(found.bad, alone);
            assert!(found.tests <= count);
        }
        let none = locate(bases(), &[], &rlc, SERIAL()).unwrap();
        assert_eq!((none.bad.len(), none.tests), (0, 0));
        verify_batch(bases(), &[], &rlc, SERIAL()).unwrap();
    }
}

/// The argument without V, where the keys are the only bases of v: C = x·A + W + x·z·Q̂.
mod without_v {
    use super::*;

    pub(super) struct Reduced {
        pub(super) w: G1Affine,
        pub(super) rounds: Vec<(G1Affine, G1Affine)>,
        pub(super) a: Fr,
        pub(super) c: Fr,
    }

    fn open(statement: &Statement<'_>, w: &G1Affine) -> (Transcript, [Fr; 3]) {
        let (mut transcript, _) = statement.open(&G1Affine::generator(), w);
        let drawn = [b"y", b"x", b"e"].map(|label| transcript.challenge(label));
        (transcript, drawn)
    }

    pub(super) fn prove(
        statement: &Statement<'_>,
        w: &[Fr],
        witness: impl FnOnce(&Fr) -> Vec<Fr>,
    ) -> Reduced {
        let n = w.len();
        let w_point = weighted_sum(&bases().h[..n], w, SERIAL());
        let (mut transcript, [y, x, e]) = open(statement, &w_point);
        let vectors = Vectors {
            g: statement.committee.keys.clone(),
            h: bases().h[..n].to_vec(),
            y_inverses: powers(&y.inverse(), n),
            q: g1::mul(&bases().q, &e.to_le_bytes(), 255),
            a: witness(&y).iter().map(|v| v.mul(&x)).collect(),
            c: w.iter()
                .zip(powers(&y, n))
                .map(|(w, y)| w.mul(&y))
                .collect(),
        };
        let (rounds, a, c) = vectors.argue(&mut transcript, SERIAL());
        Reduced {
            w: w_point,
            rounds,
            a,
            c,
        }
    }

    pub(super) fn accepts(statement: &Statement<'_>, proof: &Reduced) -> bool {
        let n = statement.committee.len();
        let (mut transcript, [y, x, e]) = open(statement, &proof.w);
        let mul = |point: &G1Affine, scalar: &Fr| g1::mul(point, &scalar.to_le_bytes(), 255);
        let q = mul(&bases().q, &e);
        let z = statement.claimed(&y);
        let mut left = vec![mul(&statement.aggregate, &x), proof.w, mul(&q, &x.mul(&z))];
        let mut g = statement.committee.keys.clone();
        let y_inverses = powers(&y.inverse(), n);
        let mut h: Vec<G1Affine> = (0..n).map(|i| mul(&bases().h[i], &y_inverses[i])).collect();
        for (l, r) in &proof.rounds {
            let u = halve(&mut transcript, l, r);
            left.extend([mul(l, &u), mul(r, &u.inverse())]);
            let half = g.len() / 2;
            g = vartime_fold(&g[..half], &g[half..], &u);
            h = vartime_fold(&h[..half], &h[half..], &u.inverse());
        }
        let inner = mul(&q, &proof.a.mul(&proof.c));
        let right = [mul(&g[0], &proof.a), mul(&h[0], &proof.c), inner];
        g1::sum_naive(&left) == g1::sum_naive(&right)
    }
}

#[test]
fn trap_23_without_v_the_owner_of_two_keys_adds_a_signer() {
    let n = 8;
    let victim = 5;
    let mut multiplicities = vec![1; n];
    multiplicities[victim] = 0;
    let case = Case::new(committee(n), multiplicities);
    let mut claimed = case.signers.clone();
    claimed.set(victim);
    let statement = Statement {
        committee: &case.committee,
        signers: &claimed,
        aggregate: *case.aggregate.point(),
    };
    let (v, w) = case.vectors();
    let secret = |i| Fr::from_be_bytes(&InteropKey::new(i).to_secret_key().to_bytes()).unwrap();
    let (s_1, s_2) = (secret(1), secret(2));
    // The owner of keys 1 and 2 moves v along their relation until <v, y w> includes y^victim.
    let moved = |y: &Fr| {
        let y = powers(y, n);
        let per_step = s_2.mul(&y[1]).mul(&w[1]).sub(&s_1.mul(&y[2]).mul(&w[2]));
        let t = y[victim].mul(&per_step.inverse());
        let mut v = v.clone();
        v[1] = v[1].add(&t.mul(&s_2));
        v[2] = v[2].sub(&t.mul(&s_1));
        v
    };
    let after = weighted_sum(&case.committee.keys, &moved(&Fr::from_u128(77)), SERIAL());
    assert_eq!(after, *case.aggregate.point(), "A stays the same");

    let honest = case.claim().statement;
    let proof = without_v::prove(&honest, &w, |_| v.clone());
    assert!(
        without_v::accepts(&honest, &proof),
        "the reduced protocol is complete"
    );
    let proof = without_v::prove(&statement, &w, |_| v.clone());
    assert!(
        !without_v::accepts(&statement, &proof),
        "and rejects the lazy forger"
    );
    let proof = without_v::prove(&statement, &w, moved);
    assert!(without_v::accepts(&statement, &proof), "the attack");

    let (v_point, w_point) = (
        weighted_sum(&bases().g[..n], &v, SERIAL()),
        weighted_sum(&bases().h[..n], &w, SERIAL()),
    );
    let witness = |challenges: &Challenges| (moved(&challenges.y), w.clone());
    let proof = argue(bases(), &statement, v_point, w_point, witness, SERIAL());
    assert!(!case.verify(&claimed, case.aggregate, &proof), "V stops it");
    let honest = argue(
        bases(),
        &honest,
        v_point,
        w_point,
        |_| (v.clone(), w.clone()),
        SERIAL(),
    );
    assert_eq!(honest, case.proof, "the same prover without the attack");
}

#[test]
fn without_a_signature_the_proof_accepts_a_key_that_nobody_owns() {
    // Position 3 is neither claimed nor contained; H_3 goes into A. Section 4 of the lecture: this
    // is why a proof counts only together with a signature under A.
    let case = Case::of(4);
    let (v, w) = case.vectors();
    let aggregate = g1::sum_naive(&[*case.aggregate.point(), bases().h[3]]);
    let aggregate = PublicKey::from_point(aggregate).unwrap();
    let statement = Statement {
        aggregate: *aggregate.point(),
        ..case.claim().statement
    };
    let (v_point, w_point) = (case.proof.v, case.proof.w);
    let witness = |challenges: &Challenges| {
        let mut w = w.clone();
        w[3] = challenges.x.mul(&challenges.tau);
        (v.clone(), w)
    };
    let proof = argue(bases(), &statement, v_point, w_point, witness, SERIAL());
    assert!(case.verify(&case.signers, aggregate, &proof));
    // At a claimed position the same trick fails.
    let aggregate = g1::sum_naive(&[*case.aggregate.point(), bases().h[2]]);
    let aggregate = PublicKey::from_point(aggregate).unwrap();
    let statement = Statement {
        aggregate: *aggregate.point(),
        ..case.claim().statement
    };
    let witness = |challenges: &Challenges| {
        let mut w = w.clone();
        w[2] = w[2].add(&challenges.x.mul(&challenges.tau));
        (v.clone(), w)
    };
    let proof = argue(bases(), &statement, v_point, w_point, witness, SERIAL());
    assert!(!case.verify(&case.signers, aggregate, &proof));
}

/// Points as their coefficients over G, H, P and Q, treated as unknowns: the protocol of the lecture, word for
/// word.
mod formal {
    use super::*;

    /// Coefficients of G_0.., H_0.., P_0.., Q.
    type Point = Vec<Fr>;

    fn scale(point: &Point, by: &Fr) -> Point {
        point
            .iter()
            .map(|coefficient| coefficient.mul(by))
            .collect()
    }

    fn sum(points: &[Point]) -> Point {
        (0..points[0].len())
            .map(|i| {
                points
                    .iter()
                    .fold(Fr::ZERO, |sum, point| sum.add(&point[i]))
            })
            .collect()
    }

    fn combine(scalars: &[Fr], points: &[Point]) -> Point {
        let terms: Vec<Point> = scalars
            .iter()
            .zip(points)
            .map(|(s, p)| scale(p, s))
            .collect();
        sum(&terms)
    }

    fn inner(a: &[Fr], b: &[Fr]) -> Fr {
        a.iter()
            .zip(b)
            .fold(Fr::ZERO, |sum, (a, b)| sum.add(&a.mul(b)))
    }

    pub(super) struct Run {
        pub(super) rounds: Vec<(Point, Point)>,
        pub(super) a: Fr,
        pub(super) c: Fr,
        /// Left minus right side of the last equation.
        pub(super) difference: Point,
    }

    pub(super) fn run(v: &[Fr], w: &[Fr], z: &Fr, challenges: &Challenges, us: &[Fr]) -> Run {
        let n = v.len();
        let unknown = |i: usize| -> Point {
            let mut point = vec![Fr::ZERO; 3 * n + 1];
            point[i] = Fr::one();
            point
        };
        let family = |f: usize| -> Vec<Point> { (f * n..(f + 1) * n).map(unknown).collect() };
        let (g, h, p) = (family(0), family(1), family(2));
        let (aggregate, v_point, w_point) = (combine(v, &p), combine(v, &g), combine(w, &h));
        let q = scale(&unknown(3 * n), &challenges.e);
        let y = powers(&challenges.y, n);
        let mut g: Vec<Point> = g
            .iter()
            .zip(&p)
            .map(|(g, p)| sum(&[g.clone(), scale(p, &challenges.tau)]))
            .collect();
        let mut h: Vec<Point> = h
            .iter()
            .zip(&y)
            .map(|(h, y)| scale(h, &y.inverse()))
            .collect();
        let mut a: Vec<Fr> = v.iter().map(|v| v.mul(&challenges.x)).collect();
        let mut c: Vec<Fr> = w.iter().zip(&y).map(|(w, y)| w.mul(y)).collect();
        let xz = challenges.x.mul(z);
        let tied = sum(&[v_point, scale(&aggregate, &challenges.tau)]);
        let mut claim = sum(&[scale(&tied, &challenges.x), w_point, scale(&q, &xz)]);
        let mut rounds = Vec::new();
        for u in us {
            let half = a.len() / 2;
            let inverse = u.inverse();
            let left = sum(&[
                combine(&a[..half], &g[half..]),
                combine(&c[half..], &h[..half]),
                scale(&q, &inner(&a[..half], &c[half..])),
            ]);
            let right = sum(&[
                combine(&a[half..], &g[..half]),
                combine(&c[..half], &h[half..]),
                scale(&q, &inner(&a[half..], &c[..half])),
            ]);
            claim = sum(&[claim, scale(&left, u), scale(&right, &inverse)]);
            rounds.push((left, right));
            let scalars = |s: &[Fr], by: &Fr| -> Vec<Fr> {
                (0..half).map(|i| s[i].add(&s[half + i].mul(by))).collect()
            };
            let points = |s: &[Point], by: &Fr| -> Vec<Point> {
                (0..half)
                    .map(|i| sum(&[s[i].clone(), scale(&s[half + i], by)]))
                    .collect()
            };
            (a, c) = (scalars(&a, &inverse), scalars(&c, u));
            (g, h) = (points(&g, u), points(&h, &inverse));
        }
        let right = sum(&[
            scale(&g[0], &a[0]),
            scale(&h[0], &c[0]),
            scale(&q, &a[0].mul(&c[0])),
        ]);
        let minus = scale(&right, &Fr::one().neg());
        Run {
            rounds,
            a: a[0],
            c: c[0],
            difference: sum(&[claim, minus]),
        }
    }
}

#[test]
fn the_formal_model_agrees() {
    for n in [1, 2, 8, 16] {
        let case = Case::of(n);
        let statement = case.claim().statement;
        let (v, w) = case.vectors();
        let (mut transcript, challenges) = statement.open(&case.proof.v, &case.proof.w);
        let us: Vec<Fr> = case
            .proof
            .rounds
            .iter()
            .map(|(left, right)| halve(&mut transcript, left, right))
            .collect();
        let z = statement.claimed(&challenges.y);
        let run = formal::run(&v, &w, &z, &challenges, &us);
        assert!(run.difference.iter().all(Fr::is_zero), "complete");
        assert_eq!((run.a, run.c), (case.proof.a, case.proof.c));
        let points = [
            &bases().g[..n],
            &bases().h[..n],
            &case.committee.keys[..],
            &[bases().q],
        ]
        .concat();
        let place = |formal: &Vec<Fr>| weighted_sum(&points, formal, SERIAL());
        for ((left, right), formal) in case.proof.rounds.iter().zip(&run.rounds) {
            assert_eq!(
                (*left, *right),
                (place(&formal.0), place(&formal.1)),
                "n = {n}"
            );
        }
        // One more bit, one less, a changed v or w: some coefficient remains.
        let one = Fr::one();
        for z in [z.add(&one), z.sub(&one)] {
            let run = formal::run(&v, &w, &z, &challenges, &us);
            assert!(!run.difference[3 * n].is_zero());
            assert!(run.difference[..3 * n].iter().all(Fr::is_zero));
        }
        for i in 0..n {
            let mut other = w.clone();
            other[i] = other[i].add(&one);
            let run = formal::run(&v, &other, &z, &challenges, &us);
            let product = v[i].is_zero();
            assert_eq!(
                run.difference[3 * n].is_zero(),
                product,
                "w_{i} matters where v_{i} ≠ 0"
            );
        }
    }
}
