use alphorn_exec::Backend;

use super::*;
use crate::arith::Native;
use crate::field::Fp;
use crate::hash::DIGEST;
use crate::multilinear::evaluate;
use crate::poseidon::kernels::KERNELS;
use crate::test_random::Random;
use crate::transcript::Lie;

const CUBE: Cube = Cube {
    groups_log2: 2,
    within_log2: 5,
};

/// Groups with random denominators, in which each numerator has its negative elsewhere.
fn balanced(used: usize) -> Vec<Group> {
    let mut random = Random::new(used as u64);
    let size = used << CUBE.within_log2;
    let (mut p, mut q) = (random.exts(size), random.exts(size));
    for i in 0..size / 2 {
        // Pairs far apart: i and size − 1 − i.
        (p[size - 1 - i], q[size - 1 - i]) = (-p[i], q[i]);
    }
    let chunks = p
        .chunks(1 << CUBE.within_log2)
        .zip(q.chunks(1 << CUBE.within_log2));
    let group = |(p, q): (&[Ext], &[Ext])| Group {
        p: Planes::from_exts(p),
        q: Planes::from_exts(q),
    };
    chunks.map(group).collect()
}

/// The leaves at a point, computed directly.
fn direct(groups: &[Group], leaves: &Leaves<Ext>) -> [Ext; 2] {
    let size = 1 << CUBE.within_log2;
    let mut all = [
        vec![Ext::ZERO; size << CUBE.groups_log2],
        vec![Ext::ONE; size << CUBE.groups_log2],
    ];
    for (g, group) in groups.iter().enumerate() {
        for x in 0..size {
            all[0][g * size + x] = group.p.get(x);
            all[1][g * size + x] = group.q.get(x);
        }
    }
    let point = [leaves.groups.clone(), leaves.within.clone()].concat();
    all.map(|values| evaluate(&values, &point))
}

fn prove_with(exec: Exec<'_>, groups: &[Group], lie: Option<Lie>) -> (Vec<Fp>, Leaves<Ext>) {
    let mut sender = Sender::new([Fp::ZERO; DIGEST]);
    sender.lies = lie.into_iter().collect();
    let leaves = prove(&mut sender, exec, CUBE, groups.to_vec()).unwrap();
    (sender.finish(), leaves)
}

fn check(groups: &[Group], proof: &[Fp]) -> Result<(), VerifyError> {
    let mut channel = Channel::new(Native::new(proof), [Fp::ZERO; DIGEST]);
    let leaves = verify(&mut channel, CUBE)?;
    channel.arith.finish()?;
    let expected = direct(groups, &leaves);
    assert_ne!(expected, [Ext::ZERO; 2]);
    match [leaves.numerator, leaves.denominator] == expected {
        true => Ok(()),
        // The caller detects this when it opens the leaves.
        false => Err(VerifyError::BusLayer(usize::MAX)),
    }
}

#[test]
fn balanced_fractions_are_accepted_by_every_kernel_with_the_same_bytes() {
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(2)
        .build()
        .unwrap();
    for used in 0..=4 {
        let groups = balanced(used);
        let (expected, _) = prove_with(Exec::new(Backend::Portable, None), &groups, None);
        for backend in KERNELS.available() {
            let exec = Exec::new(backend, Some(&pool));
            let (proof, leaves) = prove_with(exec, &groups, None);
            assert_eq!(proof, expected, "{backend}");
            assert_eq!(
                [leaves.numerator, leaves.denominator],
                direct(&groups, &leaves)
            );
            assert_eq!(check(&groups, &proof), Ok(()));
        }
    }
}

#[test]
fn a_sum_other_than_zero_is_refused_at_the_root() {
    let exec = Exec::new(Backend::Portable, None);
    for index in [0, 17, 31] {
        let mut groups = balanced(3);
        let p = groups[1].p.get(index) + Ext::ONE;
        groups[1].p.set(index, p);
        let (proof, _) = prove_with(exec, &groups, None);
        assert_eq!(check(&groups, &proof), Err(VerifyError::BusSum));
    }
}

/// With q = 0 somewhere the product of all denominators is 0, and so are sums that are not zero.
#[test]
fn a_zero_denominator_is_refused() {
    let mut groups = balanced(3);
    for (group, at) in [(0, 3), (2, 9)] {
        groups[group].q.set(at, Ext::ZERO);
    }
    let (proof, _) = prove_with(Exec::new(Backend::Portable, None), &groups, None);
    assert_eq!(check(&groups, &proof), Err(VerifyError::BusZeroDenominator));
}

#[test]
fn each_wrong_message_is_refused_though_the_prover_goes_on_from_it() {
    let exec = Exec::new(Backend::Portable, None);
    let groups = balanced(3);
    let (honest, _) = prove_with(exec, &groups, None);
    for index in 0..honest.len() {
        let lie = Lie {
            index,
            delta: Fp::new(2),
        };
        let (proof, _) = prove_with(exec, &groups, Some(lie));
        assert!(check(&groups, &proof).is_err(), "element {index}");
        let mut changed = honest.clone();
        changed[index] += Fp::ONE;
        assert!(check(&groups, &changed).is_err(), "element {index}");
    }
    assert!(check(&groups, &honest[..honest.len() - 1]).is_err());
}
