//! One piece of evidence for several collections.

use super::{EPOCH, Fixture, MESSAGE, SLOT, World, run};
use crate::{
    BundleEntry, BundleJob, Bundled, Bytes, Layer, Part, Product, Role, Scheme, SchemeError,
    Statement, VerifyBundleJob, Work,
};
use alphorn_types::{Cell, Slot, Support};
use std::sync::Arc;

/// A collection with its proof.
type Collection = (BundleEntry, Bytes);

/// Creates the collection of a committee whose first cell has these signers.
fn collection<F: Fixture>(
    world: &World<F::S>,
    committee: u16,
    slot: Slot,
    message: [u8; 32],
    signers: &[u32],
) -> Collection {
    let cell = Cell {
        committee,
        subcommittee: 0,
    };
    let of = |statement: Statement| Statement {
        slot,
        message,
        ..statement
    };
    let aggregated = of(world.statement(cell));
    let vote = |position: &u32| {
        let member = world.assignment.member(aggregated.first + position);
        let signature = world.sign(member, Role::Vote, slot, message);
        (*position, signature)
    };
    let votes: Vec<_> = signers.iter().map(vote).collect();
    let part = Part {
        offset: 0,
        layer: Layer::Aggregate,
        evidence: world.aggregate(&aggregated, &votes),
    };
    let statement = of(world.committee_statement(committee));
    let evidence = world.combine(&statement, &[part], 1).expect("one cell");
    let entry = BundleEntry {
        epoch: EPOCH,
        statement,
        support: evidence.support,
    };
    (entry, evidence.bytes)
}

fn bundle<F: Fixture>(world: &World<F::S>, of: &[Collection]) -> Result<Bytes, SchemeError> {
    let parts = of.iter();
    let parts: Vec<_> = parts
        .map(|(entry, bytes)| (bundled::<F>(world, entry), &**bytes))
        .collect();
    World::<F::S>::with_ctx(|ctx| world.scheme().bundle(&parts, ctx))
}

fn bundled<'a, F: Fixture>(
    world: &'a World<F::S>,
    entry: &'a BundleEntry,
) -> Bundled<'a, <F::S as Scheme>::Keys> {
    Bundled {
        keys: world.keys(),
        statement: entry.statement,
        support: &entry.support,
    }
}

fn holds<F: Fixture>(world: &World<F::S>, entries: &[BundleEntry], evidence: &[u8]) -> bool {
    let entries: Vec<_> = entries.iter().map(|of| bundled::<F>(world, of)).collect();
    World::<F::S>::with_ctx(|ctx| world.scheme().verify_bundle(&entries, evidence, ctx))
}

/// Returns entries that differ from the bundled ones in one place.
fn lies(entries: &[BundleEntry]) -> Vec<(&'static str, Vec<BundleEntry>)> {
    let with = |change: &dyn Fn(&mut BundleEntry)| {
        let mut lied = entries.to_vec();
        change(&mut lied[1]);
        lied
    };
    let mut swapped = entries.to_vec();
    swapped.swap(0, 1);
    let more = [entries, &entries[..1]].concat();
    let mut twice = entries.to_vec();
    twice[1] = entries[0].clone();
    let signer = with(&|entry| {
        let mut signed: Vec<u8> = (0..entry.support.len())
            .map(|i| entry.support.multiplicity(i))
            .collect();
        signed[1] ^= 1;
        let support = Support::from_multiplicities(&signed).expect("zeros and ones");
        entry.support = Arc::new(support);
    });
    vec![
        ("a signer more or less", signer),
        (
            "another message",
            with(&|entry| entry.statement.message[0] ^= 1),
        ),
        (
            "another committee",
            with(&|entry| entry.statement.first = entries[0].statement.first),
        ),
        ("another order", swapped),
        ("an entry more", more),
        ("an entry less", entries[..entries.len() - 1].to_vec()),
        ("an entry twice", twice),
        ("no entry", Vec::new()),
    ]
}

/// One piece of evidence proves collections of several committees, slots and messages, and nothing
/// else; or the scheme reports that it cannot.
pub(crate) fn bundles_are_as_declared<F: Fixture>(fixture: &F) {
    let world = World::new(fixture);
    let next = Slot(SLOT.0 + 1);
    let all = [
        collection::<F>(&world, 0, SLOT, MESSAGE, &[0, 2]),
        collection::<F>(&world, 1, SLOT, MESSAGE, &[1]),
        collection::<F>(&world, 0, next, [8; 32], &[0, 1, 2, 3]),
    ];
    let entries: Vec<BundleEntry> = all.iter().map(|(entry, _)| entry.clone()).collect();
    let job = Work::Bundle(BundleJob {
        collections: all.to_vec(),
    });
    let Some(max) = world.scheme().abilities().bundle_max else {
        let refused = bundle::<F>(&world, &all);
        assert!(
            matches!(refused, Err(SchemeError::Unsupported { .. })),
            "{refused:?}"
        );
        assert!(!holds::<F>(&world, &entries, &all[0].1));
        assert!(run(&job, &world.env).is_err());
        return;
    };
    assert!(usize::from(max) >= all.len(), "most in a bundle = {max}");
    assert_eq!(bundle::<F>(&world, &[]), Err(SchemeError::Empty));
    let many = vec![all[0].clone(); usize::from(max) + 1];
    let refused = bundle::<F>(&world, &many);
    let value = many.len();
    assert_eq!(refused, Err(SchemeError::BundleSize { value, max }));
    for count in [1, all.len()] {
        let made = bundle::<F>(&world, &all[..count]).expect("verified collections");
        let length = world.scheme().bundle_length(max).max_bytes();
        assert!(made.len() <= length, "{} bytes of {length}", made.len());
        assert!(holds::<F>(&world, &entries[..count], &made));
        let other = &entries[..if count == 1 { 2 } else { 1 }];
        assert!(!holds::<F>(&world, other, &made));
    }
    let Ok(Product::Bundle { count, bytes }) = run(&job, &world.env) else {
        panic!("the job makes no bundle");
    };
    assert_eq!(count, all.len());
    for (what, lied) in lies(&entries) {
        assert!(!holds::<F>(&world, &lied, &bytes), "{what}");
    }
    let mut tampered = bytes.to_vec();
    tampered[bytes.len() / 2] ^= 1;
    for wrong in [&tampered[..], &bytes[1..], &[], &all[0].1] {
        assert!(!holds::<F>(&world, &entries, wrong), "tampered bytes");
    }
    for (evidence, valid) in [(bytes, true), (tampered.into(), false)] {
        let entries = entries.clone();
        let job = Work::VerifyBundle(VerifyBundleJob { entries, evidence });
        let Ok(Product::Verdicts(verdicts)) = run(&job, &world.env) else {
            panic!("a bundle has a verdict");
        };
        let good: Vec<bool> = verdicts.iter().map(|verdict| verdict.is_valid()).collect();
        assert_eq!(good, [valid]);
    }
}
