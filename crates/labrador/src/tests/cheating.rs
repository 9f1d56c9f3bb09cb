//! Attacks on the levels after the first. An attack that is caught by a check of its own is accepted by a verifier
//! that leaves out only that check, so no test here would pass without the defence.

use super::*;
use crate::adversary::{Defence, Liar, Step};
use crate::folded::place;

struct Bench<'a> {
    statement: Columns<'a>,
    witness: &'a [Small],
    system: System,
}

impl<'a> Bench<'a> {
    fn new(sample: &'a Sample, relation: &'a Relation<'a>) -> Self {
        let statement = statement(sample, relation, 0);
        let system = System::on(&statement.bounds(), KERNELS.measured()).expect("short enough");
        let levels = &system.schedule().levels;
        assert!(levels.len() > 2, "levels behind the first one");
        Self {
            statement,
            witness: &sample.witness,
            system,
        }
    }

    fn tail(&self) -> usize {
        self.system.schedule().levels.len() + 1
    }

    /// Returns a proof by a prover that lies, and continues at a level with values that are too long.
    fn lie_and_force(&self, forces: usize, lie: impl FnMut(usize, Step<'_>)) -> Vec<u8> {
        let mut liar = Liar { lie, forces };
        let proof = (self.system).prove_with(&self.statement, self.witness, &mut liar);
        proof.expect("the lie stays within the sizes")
    }

    fn lie(&self, lie: impl FnMut(usize, Step<'_>)) -> Vec<u8> {
        self.lie_and_force(0, lie)
    }

    /// Asserts that the lie breaks this check and no other.
    fn breaks_only(&self, proof: &[u8], check: Reject, what: &str) {
        let verdict = self.system.verify(&self.statement, proof);
        assert_eq!(verdict, Err(check.clone()), "{what}");
        let weak = self.system.verify_weakly(&self.statement, proof, check);
        assert_eq!(weak, Ok(()), "{what}, weakly");
    }
}

/// Has a number of columns that leaves padding of both kinds to several levels.
fn sample(name: &str) -> Sample {
    Sample::new(name, 391, DEGREE, 40_000)
}

/// The honest dense projection exceeds a quarter of the bound.
#[test]
fn long_projections_are_rejected() {
    let sample = sample("projection");
    let relation = sample.relation();
    let tail = Bench::new(&sample, &relation).tail();
    for level in [2, tail] {
        let mut bench = Bench::new(&sample, &relation);
        bench.system.shorten_witness(level, 4);
        let proof = bench.lie_and_force(level, |_, _| {});
        bench.breaks_only(&proof, Reject::ProjectionLong { level }, "projection");
    }
}

/// The honest response exceeds a quarter of its bound.
#[test]
fn long_responses_are_rejected() {
    let sample = sample("response");
    let relation = sample.relation();
    let mut bench = Bench::new(&sample, &relation);
    bench.system.shorten_tail(4);
    let proof = bench.lie_and_force(bench.tail(), |_, _| {});
    bench.breaks_only(&proof, Reject::NormBound, "response");
}

#[test]
fn wrong_messages_of_the_tail_are_rejected_by_their_own_checks() {
    let sample = sample("tail");
    let relation = sample.relation();
    let bench = Bench::new(&sample, &relation);
    let tail = bench.tail();
    let one = Rq::constant(1);
    let proof = bench.lie(|level, step| match step {
        Step::Commitments(t) if level == tail => t[0].add(&one),
        _ => {}
    });
    bench.breaks_only(&proof, Reject::InnerOpening, "t");
    let mut once = false;
    let proof = bench.lie(|level, step| match step {
        Step::Garbage(h) if level == tail && h.len() == 2 && !once => {
            h[0].add(&one);
            once = true;
        }
        _ => {}
    });
    bench.breaks_only(&proof, Reject::LinearGarbage, "h");
}

/// Everything that an outer commitment hides is opened by the next level, so a lie about it makes
/// an equation false.
#[test]
fn wrong_messages_of_a_level_are_false_equations() {
    let sample = sample("levels");
    let relation = sample.relation();
    let bench = Bench::new(&sample, &relation);
    let one = Rq::constant(1);
    for target in [1, 2, bench.tail() - 1] {
        for kind in 0..5 {
            let proof = bench.lie(|level, step| {
                if level != target {
                    return;
                }
                match (kind, step) {
                    (0, Step::Commitments(t)) => t[0].add(&one),
                    (1, Step::Outer(u)) | (2, Step::OuterGarbage(u)) => u[0].add(&one),
                    (3, Step::Garbage(h)) => h[1].add(&one),
                    (4, Step::Response(z)) => z[0][5] += 1,
                    _ => {}
                }
            });
            let what = format!("lie {kind} at level {target}");
            bench.breaks_only(&proof, Reject::Equations, &what);
        }
    }
}

#[test]
fn lies_about_projections_and_lifts_are_false_equations() {
    let sample = sample("lifts");
    let relation = sample.relation();
    let bench = Bench::new(&sample, &relation);
    for target in [2, bench.tail()] {
        let proof = bench.lie(|level, step| match step {
            Step::Projection(image) if level == target => image[0].fill(0),
            _ => {}
        });
        bench.breaks_only(&proof, Reject::Equations, &format!("image {target}"));
        let proof = bench.lie(|level, step| match step {
            Step::Lifts(lifts) if level == target => lifts[1].add(&Rq::from_integers(&[1; 64])),
            _ => {}
        });
        bench.breaks_only(&proof, Reject::Equations, &format!("lift {target}"));
    }
}

/// The witness differs from the one that the previous level committed to.
#[test]
fn another_witness_at_a_later_level_is_a_false_equation() {
    let sample = sample("witness");
    let relation = sample.relation();
    let bench = Bench::new(&sample, &relation);
    for target in [2, bench.tail()] {
        let proof = bench.lie(|level, step| match step {
            Step::Witness(s) if level == target => s[0].0[3] += 1,
            _ => {}
        });
        bench.breaks_only(&proof, Reject::Equations, &format!("witness {target}"));
    }
}

/// Padding is under no commitment of the previous level and in no equation but its own: nothing else notices it.
#[test]
fn padding_that_is_not_zero_is_a_false_equation() {
    let sample = sample("padding");
    let relation = sample.relation();
    let bench = Bench::new(&sample, &relation);
    let Bench {
        statement,
        witness,
        system,
    } = &bench;
    let schedule = system.schedule();
    let cuts = schedule.levels[1..].iter().map(|level| level.cut);
    let (mut behind_halves, mut behind_digits) = (0, 0);
    let cuts = schedule.levels.iter().zip(cuts.chain([schedule.tail.cut]));
    for (target, (before, cut)) in (2..).zip(cuts) {
        let rank = before.cut.rank;
        let last = place(&cut, rank, 2 * rank + before.digits() - 1);
        let behind_z = (rank < cut.z_pieces * cut.rank).then_some(rank);
        let behind_v = (last + 1 < cut.pieces * cut.rank).then_some(last + 1);
        behind_halves += behind_z.iter().len();
        behind_digits += behind_v.iter().len();
        for index in behind_z.into_iter().chain(behind_v) {
            for without in [None, Some(Defence::Padding)] {
                let mut liar = Liar {
                    lie: |level: usize, step: Step<'_>| match step {
                        Step::Witness(s) if level == target => s[index].0[0] = 1,
                        _ => {}
                    },
                    forces: 0,
                };
                let proof = system.prove_without(statement, witness, &mut liar, without);
                let proof = proof.expect("the lie stays within the sizes");
                let verdict = system.verify_without(statement, &proof, without);
                let expected = without.map_or(Err(Reject::Equations), |_| Ok(()));
                assert_eq!(verdict, expected, "level {target}, without {without:?}");
            }
        }
    }
    assert!(
        behind_halves > 0 && behind_digits > 0,
        "padding of both kinds"
    );
}

/// The images of two parts are wrong by the same amount with opposite signs. Their sum, which is all that counts if
/// parts have no scalars of their own, is right.
#[test]
fn errors_of_two_parts_do_not_cancel() {
    let sample = Sample::new("parts of a projection", 391, DEGREE, 40_000);
    let relation = sample.relation();
    let statement = statement(&sample, &relation, 1);
    let system = System::on(&statement.bounds(), KERNELS.measured()).expect("short enough");
    let schedule = system.schedule();
    let levels = schedule.levels.iter().zip(1..);
    let dense = levels.filter(|(level, _)| level.images.is_none());
    let mut targets: Vec<usize> = dense.map(|(_, number)| number).collect();
    targets.push(schedule.levels.len() + 1);
    assert!(
        targets.len() > 1 && schedule.tail.parts.count == 2,
        "{targets:?}"
    );
    for target in targets {
        for without in [None, Some(Defence::Parts)] {
            let mut liar = Liar {
                lie: |level: usize, step: Step<'_>| match step {
                    Step::Projection(images) if level == target => {
                        assert_eq!(images.len(), 2);
                        images[0][7] += 1;
                        images[1][7] -= 1;
                    }
                    _ => {}
                },
                forces: 0,
            };
            let proof = system.prove_without(&statement, &sample.witness, &mut liar, without);
            let verdict = system.verify_without(&statement, &proof.expect("a lie"), without);
            let expected = without.map_or(Err(Reject::Equations), |_| Ok(()));
            assert_eq!(verdict, expected, "level {target} without {without:?}");
        }
    }
}
