//! Each attack breaks exactly one check: the verifier names it, and a verifier that leaves out
//! that check alone accepts, so no test here would pass without the defence.

use super::*;
use crate::adversary::{Liar, Step};
use crate::folded::place;
use crate::{Reject, System};

struct Bench {
    statement: Statement,
    witness: Vec<Small>,
    system: System,
}

impl Bench {
    fn new(name: &str) -> Self {
        let (statement, witness) = sample(name, 2, 8, 5);
        let system = System::new(&statement.bounds()).expect("short enough");
        Self {
            statement,
            witness,
            system,
        }
    }

    fn tail(&self) -> usize {
        self.system.schedule().levels.len() + 1
    }

    fn lie(&self, lie: impl FnMut(usize, Step<'_>)) -> Vec<u8> {
        let mut liar = Liar { lie, forces: 0 };
        let proof = (self.system).prove_with(&self.statement, &self.witness[..], &mut liar);
        proof.expect("the lie stays within the sizes")
    }

    /// The lie breaks this check and no other.
    fn breaks_only(&self, proof: &[u8], check: Reject, what: &str) {
        let verdict = self.system.verify(&self.statement, proof);
        assert_eq!(verdict, Err(check.clone()), "{what}");
        let weak = self.system.verify_weakly(&self.statement, proof, check);
        assert_eq!(weak, Ok(()), "{what}, weakly");
    }
}

/// A prover that takes the first projection even where it is too long.
#[test]
fn long_projections_are_rejected() {
    let mut seen = 0;
    for i in 0..12 {
        let bench = Bench::new(&format!("projection {i}"));
        let mut long = false;
        let norm_sq = crate::ring::norm_sq(&bench.witness);
        let mut liar = Liar {
            lie: |level: usize, step: Step<'_>| {
                if let (1, Step::Projection(image)) = (level, step) {
                    long = crate::projection::image_norm_sq(image) > 128 * norm_sq;
                }
            },
            forces: 1,
        };
        let proof = (bench.system).prove_with(&bench.statement, &bench.witness[..], &mut liar);
        let proof = proof.expect("a forced proof");
        if long {
            bench.breaks_only(&proof, Reject::ProjectionLong { level: 1 }, "projection");
            seen += 1;
        }
        if seen == 1 {
            return;
        }
    }
    panic!("every second projection is longer than the mean");
}

/// The honest response is longer than a quarter of its bound.
#[test]
fn long_responses_are_rejected() {
    let mut bench = Bench::new("response");
    bench.system.shorten_tail(4);
    let mut liar = Liar {
        lie: |_: usize, _: Step<'_>| {},
        forces: bench.tail(),
    };
    let proof = (bench.system).prove_with(&bench.statement, &bench.witness[..], &mut liar);
    bench.breaks_only(
        &proof.expect("a forced proof"),
        Reject::NormBound,
        "response",
    );
}

#[test]
fn wrong_messages_of_the_tail_are_rejected_by_their_own_checks() {
    let bench = Bench::new("tail");
    let tail = bench.tail();
    let one = Rq::constant(1);
    let proof = bench.lie(|level, step| match step {
        Step::Commitments(t, _) if level == tail => t[0].add(&one),
        _ => {}
    });
    bench.breaks_only(&proof, Reject::InnerOpening, "t");
    // The last piece belongs to v, over which no equation is quadratic.
    let proof = bench.lie(|level, step| match step {
        Step::Commitments(_, g) if level == tail => g.last_mut().expect("pairs").add(&one),
        _ => {}
    });
    bench.breaks_only(&proof, Reject::QuadraticGarbage, "g");
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

#[test]
fn false_equations_are_rejected() {
    let mut stream = Seed::of_name("false equations").stream();
    for kind in [Kind::Ring, Kind::Constant] {
        let mut bench = Bench::new("equations");
        let equation = random_equation(&mut stream, kind, 2, 8);
        let mut equation = satisfied(equation, 8, &bench.witness);
        equation.target.add(&Rq::constant(1));
        let norm_sq = crate::ring::norm_sq(&bench.witness);
        let statement = Statement::new(2, 8, norm_sq, Profile::Core128, vec![equation]);
        bench.statement = statement.expect("well formed");
        let proof = bench.lie(|_, _| {});
        bench.breaks_only(&proof, Reject::Equations, "a false equation");
    }
}

/// Everything that an outer commitment hides is opened by the next level, so a lie about it is
/// an equation that does not hold.
#[test]
fn wrong_messages_of_a_level_are_false_equations() {
    let bench = Bench::new("levels");
    let one = Rq::constant(1);
    for target in [1, bench.tail() - 1] {
        for kind in 0..6 {
            let proof = bench.lie(|level, step| {
                if level != target {
                    return;
                }
                match (kind, step) {
                    (0, Step::Commitments(t, _)) => t[0].add(&one),
                    (1, Step::Commitments(_, g)) => g.last_mut().expect("pairs").add(&one),
                    (2, Step::Outer(u)) | (3, Step::OuterGarbage(u)) => u[0].add(&one),
                    (4, Step::Garbage(h)) => h[1].add(&one),
                    (5, Step::Response(z)) => z[0][5] += 1,
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
    let bench = Bench::new("lifts");
    for target in [1, bench.tail()] {
        let proof = bench.lie(|level, step| match step {
            Step::Projection(image) if level == target => image.fill(0),
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

/// A witness that differs from what the level before committed to.
#[test]
fn another_witness_at_a_later_level_is_a_false_equation() {
    let bench = Bench::new("witness");
    for target in [2, bench.tail()] {
        let proof = bench.lie(|level, step| match step {
            Step::Witness(s) if level == target => s[0].0[3] += 1,
            _ => {}
        });
        bench.breaks_only(&proof, Reject::Equations, &format!("witness {target}"));
    }
}

/// Padding is under no commitment of the level before and in no equation but its own: behind
/// `v` nothing else notices it, behind `z` it would be a free term of the norm.
#[test]
fn padding_that_is_not_zero_is_a_false_equation() {
    let bench = Bench::new("padding");
    let levels = &bench.system.schedule().levels;
    let mut tried = 0;
    for target in 2..=bench.tail() {
        let before = &levels[target - 2];
        let cut = levels
            .get(target - 1)
            .map_or(bench.system.schedule().tail.cut, |l| l.cut);
        let last = place(
            &cut,
            before.cut.rank,
            2 * before.cut.rank + before.digits() - 1,
        );
        let behind_z = (before.cut.rank < cut.z_pieces * cut.rank).then_some(before.cut.rank);
        let behind_v = (last + 1 < cut.pieces * cut.rank).then_some(last + 1);
        for index in behind_z.into_iter().chain(behind_v) {
            let proof = bench.lie(|level, step| match step {
                Step::Witness(s) if level == target => s[index].0[0] = 1,
                _ => {}
            });
            bench.breaks_only(&proof, Reject::Equations, &format!("padding {target}"));
            tried += 1;
        }
    }
    assert!(tried > 1, "some level has padding");
}

/// A product of two vectors is no norm: `(w + d, sigma(w - d))` has that of `w` less that of `d`, if the two
/// are orthogonal, and each is longer. Where nothing says that one is the conjugate of the other the proof
/// of the false norm is accepted; with the equations that say so nobody accepts it.
#[test]
fn a_product_of_two_vectors_is_no_norm() {
    let rank = 6;
    let sigma = |s: &Small| s.sigma().expect("not the least integer");
    for (name, long) in [("norm 1", 1), ("norm 2", 5), ("norm 3", 20)] {
        let mut stream = Seed::of_name(name).stream();
        let mut w = short(&mut stream, rank, 20);
        w[2].0[9] = 0;
        let (mut longer, mut other) = (w.clone(), w);
        longer[2].0[9] += long;
        other[2].0[9] -= long;
        let norm_sq = crate::ring::norm_sq(&longer);
        let claimed = norm_sq - 2 * (long as u128).pow(2);
        let witness: Vec<Small> = longer.into_iter().chain(other.iter().map(sigma)).collect();
        for conjugates in [0, usize::MAX] {
            let equations = Equation::conjugates(0, 1, rank).take(conjugates);
            let equations = equations.chain([product_of_two(claimed)]).collect();
            let statement = Statement::new(2, rank, 2 * claimed, Profile::Core128, equations);
            let statement = statement.expect("well formed");
            let system = System::new(&statement.bounds()).expect("short enough");
            let exec = alphorn_exec::Exec::serial();
            let proof = system.prove_unchecked_on(&statement, &witness[..], exec);
            let verdict = system.verify(&statement, &proof.expect("within the margins"));
            let expected = if conjugates == 0 {
                Ok(())
            } else {
                Err(Reject::Equations)
            };
            assert_eq!(verdict, expected, "{name}, {conjugates} equations");
        }
    }
}
