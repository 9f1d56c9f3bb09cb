//! Single signatures.

use super::{Fixture, MESSAGE, SLOT, VALIDATORS, World};
use crate::{Claim, Role, Scheme, SchemeError};
use alphorn_types::{Slot, Validator};

/// A signature is valid only for its validator and message and, for one-time keys, only for its
/// slot.
pub(crate) fn signatures_bind_validator_and_message<F: Fixture>(fixture: &F) {
    let world = World::new(fixture);
    let one_time = world.scheme().abilities().one_time;
    for role in Role::ALL {
        let signature = world.sign(Validator(4), role, SLOT, MESSAGE);
        let claim = |validator, slot, message| Claim::One {
            validator,
            role,
            slot,
            message,
            signature: signature.clone(),
        };
        let verdicts = world.verify(&[
            claim(Validator(4), SLOT, MESSAGE),
            claim(Validator(5), SLOT, MESSAGE),
            claim(Validator(4), SLOT, [8; 32]),
            claim(Validator(VALIDATORS), SLOT, MESSAGE),
            claim(Validator(u32::MAX), SLOT, MESSAGE),
            // Without one-time keys the slot is not part of what is signed.
            claim(Validator(4), Slot(SLOT.0 + 1), MESSAGE),
        ]);
        assert_eq!(
            verdicts,
            [true, false, false, false, false, !one_time],
            "role {role:?}"
        );
    }
}

/// Verdicts of a batch equal those of its items one by one, whatever is bad and wherever: swapped
/// signatures of one message (their sum is unchanged), another message, other bytes.
pub(crate) fn verdicts_of_batches_are_exact<F: Fixture>(fixture: &F) {
    let world = World::new(fixture);
    let good: Vec<_> = (0..VALIDATORS)
        .map(|v| World::<F::S>::vote_claim(Validator(v), world.vote(Validator(v))))
        .collect();
    let signature = |i: usize| match &good[i] {
        Claim::One { signature, .. } => signature.clone(),
        other => panic!("a vote is {other:?}"),
    };
    let swapped = |i: usize, j: usize| World::<F::S>::vote_claim(Validator(i as u32), signature(j));
    for n in [1, 2, 5, good.len()] {
        for bad in [0, 1, 2, n / 2, n] {
            let mut claims = good[..n].to_vec();
            let mut expected = vec![true; n];
            // Rotating the signatures of the first `bad` items keeps their sum.
            for i in 0..bad.min(n) {
                let j = if bad == 1 {
                    (i + 1) % good.len()
                } else {
                    (i + 1) % bad.min(n)
                };
                claims[i] = swapped(i, j);
                expected[i] = i == j;
            }
            assert_eq!(world.verify(&claims), expected, "{bad} bad of {n}");
            claims.reverse();
            expected.reverse();
            assert_eq!(
                world.verify(&claims),
                expected,
                "{bad} bad of {n}, reversed"
            );
        }
    }
    assert!(world.verify(&[]).is_empty());
}

/// Bytes of the wrong length or content are invalid, never cause a panic, and affect no other item.
pub(crate) fn malformed_bytes_are_invalid<F: Fixture>(fixture: &F) {
    let world = World::new(fixture);
    let bytes = world.scheme().sizes().signature_bytes;
    let good = world.vote(Validator(0));
    let mut bad: Vec<Vec<u8>> = vec![
        vec![],
        vec![0],
        vec![0; bytes - 1],
        vec![0; bytes],
        vec![0xff; bytes],
        vec![0; bytes + 1],
    ];
    bad.push(good[..bytes - 1].to_vec());
    bad.push([&good[..], &[0]].concat());
    for i in [0, 1, bytes / 2, bytes - 1] {
        let mut flipped = good.to_vec();
        flipped[i] ^= 0x41;
        bad.push(flipped);
    }
    let mut claims = vec![World::<F::S>::vote_claim(Validator(0), good)];
    claims.extend(
        bad.into_iter()
            .map(|bytes| World::<F::S>::vote_claim(Validator(0), bytes.into())),
    );
    let verdicts = world.verify(&claims);
    assert!(verdicts[0]);
    assert_eq!(
        verdicts.iter().filter(|good| **good).count(),
        1,
        "{verdicts:?}"
    );
}

/// Proofs of selection exist exactly where signatures are unique, and bind their validator.
pub(crate) fn selection_follows_uniqueness<F: Fixture>(fixture: &F) {
    let world = World::new(fixture);
    let validators = [Validator(2), Validator(9)];
    let signers = fixture.signers(VALIDATORS);
    let select = || {
        World::<F::S>::with_ctx(|ctx| world.scheme().select(&signers, &MESSAGE, &validators, ctx))
    };
    let unique = world.scheme().abilities().unique;
    assert_eq!(
        world.scheme().sizes().selection_proof_bytes.is_some(),
        unique
    );
    if !unique {
        assert!(matches!(select(), Err(SchemeError::Unsupported { .. })));
        return;
    }
    let proofs = select().expect("a scheme with unique signatures proves selection");
    assert_eq!(
        Some(proofs.iter().next().map_or(0, <[u8]>::len)),
        world.scheme().sizes().selection_proof_bytes
    );
    assert_eq!(
        proofs,
        select().expect("again"),
        "the ticket is a function of key and message"
    );
    let proofs: Vec<_> = proofs.iter().collect();
    let claim = |validator, message, proof: &[u8]| Claim::Selected {
        validator,
        message,
        proof: proof.into(),
    };
    let verdicts = world.verify(&[
        claim(validators[0], MESSAGE, proofs[0]),
        claim(validators[1], MESSAGE, proofs[1]),
        claim(validators[0], MESSAGE, proofs[1]),
        claim(validators[0], [9; 32], proofs[0]),
        claim(validators[0], MESSAGE, &proofs[0][1..]),
    ]);
    assert_eq!(verdicts, [true, true, false, false, false]);
    let unknown = [Validator(VALIDATORS)];
    let refused =
        World::<F::S>::with_ctx(|ctx| world.scheme().select(&signers, &MESSAGE, &unknown, ctx));
    assert_eq!(refused, Err(SchemeError::UnknownSigner(VALIDATORS)));
}

/// Signatures have the declared length.
pub(crate) fn sizes_are_kept<F: Fixture>(fixture: &F) {
    let world = World::new(fixture);
    let sizes = world.scheme().sizes();
    for role in Role::ALL {
        let expected = if role == Role::Vote {
            sizes.signature_bytes
        } else {
            sizes.duty_signature_bytes
        };
        assert_eq!(
            world.sign(Validator(1), role, SLOT, MESSAGE).len(),
            expected,
            "role {role:?}"
        );
    }
}
