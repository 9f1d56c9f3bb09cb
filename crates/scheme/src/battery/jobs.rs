//! Jobs, permits, threads and costs.

use super::{EPOCH, Fixture, MESSAGE, SLOT, VALIDATORS, World, run, with_pool};
use crate::{
    AggregateJob, Bytes, Claim, CombineJob, Ctx, Item, Layer, MemoryWatermark, Op, Part,
    PrepareJob, Product, Reservation, Role, Scheme, SchemeError, Scratch, SelectJob, SignItem,
    SignJob, Tail, Task, TaskError, Verdict, VerifyJob, Work, verify_claims,
};
use alphorn_types::{Cell, Slot, Validator};

const CELL: Cell = Cell {
    committee: 0,
    subcommittee: 2,
};

fn item(validator: u32) -> SignItem {
    SignItem::new(Validator(validator), Role::Vote, MESSAGE)
}

/// A signature needs a permit for exactly its validator, role, slot and message, and
/// uses it up.
pub(crate) fn signing_needs_a_fitting_permit<F: Fixture>(fixture: &F) {
    let world = World::new(fixture);
    let signers = fixture.signers(VALIDATORS);
    let sign = |permits| {
        World::<F::S>::with_ctx(|ctx| {
            world
                .scheme()
                .sign(&signers, SLOT, &[item(3)], permits, ctx)
        })
    };
    let other = |item| vec![Reservation::issue(SLOT, &item)];
    for wrong in [
        vec![],
        other(item(4)),
        other(SignItem::new(Validator(3), Role::Block, MESSAGE)),
        other(SignItem::new(Validator(3), Role::Vote, [!MESSAGE[0]; 32])),
        vec![Reservation::issue(Slot(SLOT.0 + 1), &item(3))],
    ] {
        assert_eq!(sign(wrong), Err(SchemeError::WrongReservation(3)));
    }
    assert!(sign(vec![Reservation::issue(SLOT, &item(3))]).is_ok());

    let job = SignJob::new(SLOT, vec![item(5), item(6)]);
    let store = MemoryWatermark::new(VALIDATORS);
    job.admit(&store).expect("fresh");
    let job = Work::Sign(job);
    assert!(matches!(run(&job, &world.env), Ok(Product::Signed(signed)) if signed.len() == 2));
    assert!(
        matches!(run(&job, &world.env), Err(TaskError::Refused(_))),
        "a second run has no permit"
    );
    let again = SignJob::new(SLOT, vec![item(7), item(6)]);
    assert_eq!(
        again.admit(&store).map_err(|(i, _)| i),
        Err(1),
        "the slot of validator 6 is used"
    );
    assert!(matches!(
        world.run(Work::Sign(again)),
        Err(TaskError::Refused(_))
    ));
    let unknown = SignItem {
        validator: Validator(VALIDATORS),
        ..item(0)
    };
    let permit = vec![Reservation::issue(SLOT, &unknown)];
    let refused =
        World::<F::S>::with_ctx(|ctx| world.scheme().sign(&signers, SLOT, &[unknown], permit, ctx));
    assert_eq!(refused, Err(SchemeError::UnknownSigner(VALIDATORS)));
}

/// Converts votes to the form used in a job.
fn tails(votes: Vec<(u32, Bytes)>) -> Vec<(u32, Tail)> {
    let tail = |(position, signature): (u32, Bytes)| (position, signature.into());
    votes.into_iter().map(tail).collect()
}

/// Honest jobs of each kind that has an encoding.
fn samples<F: Fixture>(world: &World<F::S>) -> Vec<Work> {
    let statement = world.statement(CELL);
    let votes = world.votes(&statement, &[0, 1, 3]);
    let evidence = world.aggregate(&statement, &votes);
    let claims = votes.iter().map(|(position, signature)| {
        let validator = world.assignment.member(statement.first + position);
        Item {
            claims: vec![World::<F::S>::vote_claim(validator, signature.clone())],
        }
    });
    let mut items: Vec<Item> = claims.collect();
    items.push(Item {
        claims: vec![
            // A proof of no scheme, so that one verdict is negative and names its claim.
            Claim::Selected {
                validator: Validator(1),
                message: MESSAGE,
                proof: vec![1, 2, 3].into(),
            },
            Claim::Group {
                statement,
                evidence: evidence.clone(),
            },
        ],
    });
    let offset = world.assignment.layout().cell_in_committee(CELL).start;
    vec![
        Work::Verify(VerifyJob {
            op: Op::VerifyVotes,
            epoch: EPOCH,
            items,
        }),
        Work::Aggregate(AggregateJob {
            epoch: EPOCH,
            statement,
            votes: tails(votes),
        }),
        Work::Combine(CombineJob {
            op: Op::Collect,
            epoch: EPOCH,
            statement: world.committee_statement(0),
            parts: vec![Part {
                offset,
                layer: Layer::Aggregate,
                evidence,
            }],
            multiplicity_max: 1,
        }),
    ]
}

/// Jobs survive encoding, their prefixes are jobs, damaged bytes are rejected, and outputs pass the
/// public verifier.
pub(crate) fn jobs_round_trip<F: Fixture>(fixture: &F) {
    let world = World::new(fixture);
    for job in samples::<F>(&world) {
        let op = job.name();
        let bytes = job.encode().expect("these jobs hold no secret");
        let back = Work::decode(&bytes).expect("what was encoded decodes");
        assert_eq!(back.encode().as_deref(), Some(&bytes[..]), "{op}");
        for cut in 0..bytes.len() {
            assert!(Work::decode(&bytes[..cut]).is_err(), "{op} cut at {cut}");
        }
        assert!(
            Work::decode(&[&bytes[..], &[0]].concat()).is_err(),
            "{op} with a byte more"
        );
        let features = job.features(&world.env);
        assert_eq!(Op::ALL[usize::from(features.kind)].name(), op);
        let prefix = job.part(0..1).expect("one input is a job");
        assert_eq!(prefix.features(&world.env).inputs, 1);
        assert!(job.part(0..features.inputs as usize + 1).is_none());
        if let Work::Combine(job) = &job {
            // Charged by signers, and cut by parts.
            let united = Work::Combine(CombineJob {
                op: Op::Aggregate,
                ..job.clone()
            });
            assert_eq!(united.features(&world.env).inputs as usize, job.parts.len());
        }
        let (mut scratch, env) = (Scratch::default(), &world.env);
        let ctx = &mut Ctx::single(&mut scratch);
        let output = job
            .run(env, ctx)
            .unwrap_or_else(|error| panic!("{op}: {error}"));
        assert!(job.verify_output(env, &output, ctx), "{op}");
        if let Product::Verdicts(verdicts) = &output.product {
            assert_eq!(verdicts[..3], [Verdict::Valid; 3]);
            assert_eq!(
                verdicts[3],
                Verdict::Invalid { claim: 0 },
                "the first claim that fails is named"
            );
        }
        let prepared = job.prepare(env, ctx).expect("inputs can be tested");
        let inputs = features.inputs as usize;
        let bad: Vec<usize> = (0..inputs)
            .filter(|i| !job.check(env, &prepared, *i..i + 1))
            .collect();
        assert_eq!(
            bad,
            if op == Op::VerifyVotes.name() {
                vec![3]
            } else {
                vec![]
            }
        );
        assert_eq!(job.check(env, &prepared, 0..inputs), bad.is_empty());
        assert!(
            job.check(env, &prepared, 0..0),
            "nothing is wrong with nothing"
        );
        if let Some(located) = job.locate(env, &prepared, ctx) {
            assert_eq!(located, bad);
        }
    }
    let secret = Work::Sign(SignJob::new(SLOT, vec![item(0)]));
    assert!(secret.encode().is_none());
    let select = Work::Select(SelectJob {
        message: MESSAGE,
        validators: vec![],
    });
    assert!(select.encode().is_none());
}

/// An aggregate over a bad input is never delivered; the input is named.
pub(crate) fn bad_inputs_of_an_aggregate_are_named<F: Fixture>(fixture: &F) {
    let world = World::new(fixture);
    let statement = world.statement(CELL);
    let mut votes = world.votes(&statement, &[0, 1, 2]);
    // Another voter's signature is well-formed, so only verification finds it.
    votes[1].1 = votes[2].1.clone();
    let job = AggregateJob {
        epoch: EPOCH,
        statement,
        votes: tails(votes),
    };
    assert_eq!(
        world.run(Work::Aggregate(job)),
        Err(TaskError::Invalid(vec![1]))
    );
}

/// One thread, several threads and the portable kernel yield the same bytes and verdicts.
pub(crate) fn same_for_every_thread_count_and_kernel<F: Fixture>(fixture: &F) {
    let world = World::new(fixture);
    let portable = world.scheme().portable();
    for job in samples::<F>(&world) {
        let op = job.name();
        let expected = run(&job, &world.env);
        for threads in [1, 3] {
            let got = with_pool(threads, |ctx| job.run(&world.env, ctx));
            let got = got.map(|output| output.product);
            assert_eq!(got, expected, "{op} on {threads} threads");
        }
        let got = run(&job, &world.env.portable());
        assert_eq!(got, expected, "{op} on the portable kernel");
    }
    let claim = World::<F::S>::vote_claim(Validator(0), world.vote(Validator(0)));
    let verdict = World::<F::S>::with_ctx(|ctx| {
        verify_claims(&portable, world.keys(), &[claim], &[3; 32], ctx)
    });
    assert_eq!(verdict, [true]);
}

/// More work is never predicted to be cheaper, and nothing that the roles wait for is free.
pub(crate) fn costs_grow_with_size<F: Fixture>(fixture: &F) {
    let scheme = fixture.scheme();
    for op in Op::ALL {
        let costs: Vec<_> = (0..16)
            .map(|i| scheme.cost(op, 1 << i, (1 << i) * 64))
            .collect();
        assert!(
            costs.windows(2).all(|pair| pair[0].ns <= pair[1].ns),
            "{op}: {costs:?}"
        );
    }
    for op in [
        Op::Sign,
        Op::VerifyVotes,
        Op::Aggregate,
        Op::Collect,
        Op::VerifyAggregates,
        Op::VerifyCollections,
    ] {
        assert!(scheme.cost(op, 512, 512).ns > 0, "{op} is free");
    }
}

/// A registry that differs in size from the assignment is refused; a matching one is prepared by a
/// job.
pub(crate) fn key_tables_check_sizes<F: Fixture>(fixture: &F) {
    let world = World::new(fixture);
    let small = std::sync::Arc::new(fixture.registry(VALIDATORS - 1));
    let refused =
        World::<F::S>::with_ctx(|ctx| world.scheme().keys(&small, &world.assignment, ctx).err());
    assert_eq!(
        refused,
        Some(SchemeError::RegistrySize {
            keys: u64::from(VALIDATORS - 1),
            validators: u64::from(VALIDATORS)
        })
    );
    let job = Work::Prepare(PrepareJob {
        assignment: world.assignment.clone(),
    });
    let mut scratch = Scratch::default();
    let output = job.run(&world.env, &mut Ctx::single(&mut scratch));
    let output = output.expect("sizes fit");
    assert_eq!(output.product, Product::Prepared(EPOCH));
    let (_, keys) = output.keys.expect("a key table for the driver");
    let keys = keys.get().expect("of this scheme");
    assert_eq!(
        world.scheme().assignment(keys).members(),
        world.assignment.members()
    );
}
