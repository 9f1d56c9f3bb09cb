//! Whole proofs over random relations, and provers that lie at each step of the front end.

use super::*;
use crate::adversary::{Defence, Honest, Liar, Step};
use crate::kernel::KERNELS;
use crate::ring::{DEGREE, Rq, Small};
use crate::tests::{Sample, statement};
use crate::{Images, Invalid, ProveError, Reject, StatementError, System};

mod blocks;
mod formats;
mod order;

use alphorn_exec::Exec;

/// Every layout and every kind of level, against the definition of the relation.
#[test]
fn every_level_satisfies_its_relation_by_definition() {
    for (columns, degree, norm_sq, blocks) in [
        (3, 512, 34_034_726, 1),
        (100, 64, 40_000, 0),
        (400, 64, 40_000, 1),
        (1600, 64, 40_000, 1),
    ] {
        let sample = Sample::new("oracle", columns, degree, norm_sq);
        let relation = sample.relation();
        let statement = statement(&sample, &relation, blocks);
        let system = System::on(&statement.bounds(), KERNELS.measured()).expect("short enough");
        let levels = crate::tests::oracle::check_levels(&system, &statement, &sample.witness);
        assert_eq!(levels, system.schedule().levels.len(), "{columns}");
    }
}

/// Rows that are each divided into two pieces.
#[test]
fn proofs_of_divided_rows_verify() {
    let sample = Sample::new("divided rows", 6145, 64, 40_000);
    let relation = sample.relation();
    let statement = statement(&sample, &relation, 1);
    let system = System::on(&statement.bounds(), KERNELS.measured()).expect("short enough");
    let proof = system.prove(&statement, &sample.witness);
    let proof = proof.expect("a true statement");
    assert_eq!(system.verify(&statement, &proof), Ok(()));
}

#[test]
fn proofs_of_many_shapes_verify() {
    for (columns, degree, norm_sq, blocks) in [
        (1, 64, 100, 0),
        (2, 512, 34_034_726, 1),
        (2, 1024, 70_265_242, 1),
        (17, 128, 90_000, 0),
        (100, 64, 40_000, 1),
    ] {
        let sample = Sample::new("shapes", columns, degree, norm_sq);
        let relation = sample.relation();
        let statement = statement(&sample, &relation, blocks);
        let system = System::on(&statement.bounds(), KERNELS.measured());
        let system = system.expect("short enough");
        let proof = system
            .prove(&statement, &sample.witness)
            .expect("a true statement");
        assert_eq!(
            system.verify(&statement, &proof),
            Ok(()),
            "{columns} {degree}"
        );
        let ratio = proof.len() as f64 / system.schedule().bytes as f64;
        assert!((0.9..1.03).contains(&ratio), "{ratio} of the prediction");
    }
}

/// Extreme witnesses: all energy in one coefficient, none at all, the same in all columns, only one embedding of
/// the ring in every element.
#[test]
fn no_honest_witness_fails_whatever_its_shape() {
    let mut one = Small::ZERO;
    one.0[63] = 100;
    let comb = Small([8; DEGREE]);
    let cosine = |k: usize| (12.0 * (std::f64::consts::PI * k as f64 / 64.0).cos()) as i16;
    let embedding = Small(std::array::from_fn(cosine));
    for column in [
        [one, Small::ZERO],
        [Small::ZERO, Small::ZERO],
        [comb.clone(), comb],
        [embedding.clone(), embedding],
    ] {
        for columns in [1, 20] {
            let mut sample = Sample::new("edges", columns, DEGREE, 10_000);
            sample.witness = (0..columns).flat_map(|_| column.clone()).collect();
            sample.aim();
            let relation = sample.relation();
            let statement = statement(&sample, &relation, 0);
            let system = System::new(&statement.bounds()).expect("short enough");
            let proof = system
                .prove(&statement, &sample.witness)
                .expect("a true statement");
            assert_eq!(system.verify(&statement, &proof), Ok(()));
        }
    }
}

#[test]
fn false_witnesses_are_refused_by_name() {
    let mut sample = Sample::new("false", 6, DEGREE, 50_000);
    let refused = |sample: &Sample, witness: &[Small]| {
        let relation = sample.relation();
        let statement = statement(sample, &relation, 0);
        let system = System::new(&statement.bounds()).expect("short enough");
        match system.prove(&statement, witness) {
            Err(ProveError::Witness(invalid)) => invalid,
            other => panic!("not refused: {other:?}"),
        }
    };
    let shape = Invalid::Shape {
        elements: 11,
        expected: 12,
    };
    assert_eq!(refused(&sample, &sample.witness[1..]), shape);
    let mut long = sample.witness.clone();
    long[2 * 3].0[0] = 300;
    assert!(matches!(
        refused(&sample, &long),
        Invalid::Column {
            column: 3,
            max: 50_000,
            ..
        }
    ));
    let mut wrong = sample.witness.clone();
    wrong[4].0[0] -= wrong[4].0[0].signum();
    assert_eq!(refused(&sample, &wrong), Invalid::Relation { column: 2 });
    // A factor and a column made for each other: every product has the same sign.
    sample.norm_sq = 1 << 28;
    for long in [1, 4] {
        sample.h[long] = vec![6144; DEGREE];
        sample.witness[2 * long + 1] = Small([2047; DEGREE]);
    }
    sample.aim();
    // All of them are reported at once.
    assert!(matches!(
        refused(&sample, &sample.witness),
        Invalid::Quotients {
            columns,
            norm_sq,
            max: 0x4000_0000,
            ..
        } if columns == [1, 4] && norm_sq >= 1 << 30
    ));
}

/// A quotient that does not fit 16 bits in a column within the norm bound, which is possible only in degree
/// 1024.
#[test]
fn quotients_beyond_16_bits_are_refused_whatever_their_norm() {
    let degree = 16 * DEGREE;
    let mut sample = Sample::new("one long quotient", 3, degree, 70_265_242);
    // All products for one coefficient of `h s2` are positive; those for the others have any sign.
    let size = |h: i16| if h < 0 { -66 } else { 66 };
    let h: Vec<i16> = sample.h[1].iter().map(|h| 6144 * h.signum()).collect();
    let s2: Vec<i16> = (0..degree)
        .map(|j| {
            if j == 0 {
                size(h[0])
            } else {
                -size(h[degree - j])
            }
        })
        .collect();
    for (element, s2) in sample.witness[3 * 16..].iter_mut().zip(s2.as_chunks().0) {
        *element = Small(*s2);
    }
    sample.h[1] = h;
    sample.aim();
    let relation = sample.relation();
    let statement = statement(&sample, &relation, 0);
    let system = System::on(&statement.bounds(), KERNELS.measured()).expect("short enough");
    let refused = system.prove(&statement, &sample.witness).err();
    let Some(ProveError::Witness(Invalid::Quotients {
        columns,
        norm_sq,
        max,
        largest,
    })) = refused
    else {
        panic!("not refused: {refused:?}");
    };
    assert_eq!((columns, max), (vec![1], quotient_norm_sq(degree)));
    assert!(norm_sq < u128::from(max) && largest > 1 << 15, "{largest}");
}

#[test]
fn statements_that_may_wrap_are_refused() {
    // With the largest modulus and polynomials of any degree all columns and norms are fine: the relation
    // stays below 2^43. So each condition is tried with the numbers it would take to violate it.
    let h = [0i16; DEGREE];
    let polynomials = || vec![&h[..]; 1];
    let serial = Exec::serial();
    for modulus in [12_288, 1 << 15, (1 << 15) + 1] {
        let refused = Relation::new(DEGREE, modulus, polynomials(), polynomials(), serial).err();
        assert_eq!(refused, Some(StatementError::Modulus { modulus }));
    }
    let refused = Relation::new(2 * DEGREE, 3, polynomials(), polynomials(), serial).err();
    let (coefficients, degree) = (DEGREE, 2 * DEGREE);
    let expected = StatementError::Polynomials {
        coefficients,
        degree,
    };
    assert_eq!(refused, Some(expected));
    let beyond = [-2i16; DEGREE];
    let refused = Relation::new(DEGREE, 3, polynomials(), vec![&beyond[..]], serial).err();
    let (place, modulus) = (DEGREE, 3);
    assert_eq!(refused, Some(StatementError::Residue { place, modulus }));
    // Beyond the limits of a layout each condition is violated where the other two hold.
    let layout = |columns, extension, norm_sq| layout::Layout {
        columns,
        extension,
        norm_sq,
        stack: 1,
        divisions: 1,
    };
    let falcon = layout(layout::COLUMNS_MAX, 8, 34_034_726);
    let falcon_1024 = layout(layout::COLUMNS_MAX, 16, 70_265_242);
    let long = layout(1 << 24, 1, layout::COLUMN_NORM_SQ_MAX);
    let large = layout(1, 1, 1);
    // Slack only, without any norm: what remains is the images of quotients.
    let many = layout(3 << 41, 0, 0);
    for (layout, modulus, fits) in [
        (falcon, 12_289, [true, true, true]),
        (falcon_1024, 12_289, [true, true, true]),
        (long, 12_289, [false, true, true]),
        (large, 1 << 31, [true, false, true]),
        (many, 3, [true, true, false]),
    ] {
        let legal = layout.images().are_legal();
        let found = [layout.norms_fit(), layout.relation_fits(modulus), legal];
        assert_eq!(found, fits, "{layout:?}");
        let columns = layout.columns;
        let wraps = fits.contains(&false);
        let expected = wraps.then_some(StatementError::Wraps { columns });
        assert_eq!(layout.check_modulus(modulus).err(), expected, "{layout:?}");
    }
}

/// An attack: what the prover lies about, and how the verifier detects it.
struct Attack {
    defence: Defence,
    lie: fn(&layout::Layout, &Images, Step<'_>),
    reject: Reject,
}

impl Attack {
    /// Asserts that a prover that lies at a level with these images is refused, unless both sides leave out the
    /// defence.
    fn is_stopped_alone(
        &self,
        system: &System,
        statement: &Columns<'_>,
        witness: &[Small],
        target: usize,
        layout: &layout::Layout,
        images: &Images,
    ) {
        let defence = self.defence;
        for without in [None, Some(defence)] {
            let mut liar = Liar {
                lie: |level: usize, step: Step<'_>| {
                    if level == target {
                        (self.lie)(layout, images, step);
                    }
                },
                forces: 0,
            };
            let proof = system.prove_without(statement, witness, &mut liar, without);
            let proof = proof.expect("the lie stays within the sizes");
            let verdict = system.verify_without(statement, &proof, without);
            let expected = without.map_or(Err(self.reject.clone()), |_| Ok(()));
            assert_eq!(
                verdict, expected,
                "{defence:?} without {without:?}, level {target}"
            );
        }
    }
}

/// Adds one to the first coefficient.
fn add_one(elements: &mut [Rq]) {
    elements[0].add(&Rq::constant(1));
}

/// Each lie at the first level breaks the equations of one defence and no other.
fn attacks() -> Vec<Attack> {
    let attack = |defence, lie, reject| Attack {
        defence,
        lie,
        reject,
    };
    let equations = Reject::Equations;
    vec![
        // Commits to rows other than those of the sumcheck, which are the witness.
        attack(
            Defence::Value,
            |_, _, step| match step {
                Step::Witness(s) => s[0].0[0] += 1,
                Step::Rows(s, others) => others.insert(s.to_vec())[0].0[0] -= 1,
                _ => {}
            },
            equations.clone(),
        ),
        attack(
            Defence::Images,
            |_, _, step| {
                if let Step::Second(digits) = step {
                    digits[0].0[0] += 1;
                }
            },
            equations.clone(),
        ),
        attack(
            Defence::Projections,
            |_, _, step| {
                if let Step::Projection(images) = step {
                    images[0][0] += 1;
                }
            },
            equations.clone(),
        ),
        attack(
            Defence::Padding,
            |_, images, step| {
                if let Step::Second(digits) = step {
                    digits[2 * images.elements()].0[0] = 1;
                }
            },
            equations.clone(),
        ),
        attack(
            Defence::First,
            |_, _, step| {
                if let Step::First(u0) = step {
                    add_one(u0);
                }
            },
            equations.clone(),
        ),
        attack(
            Defence::Outer,
            |_, _, step| {
                if let Step::Outer(u1) = step {
                    add_one(u1);
                }
            },
            equations.clone(),
        ),
        attack(
            Defence::Garbage,
            |_, _, step| {
                if let Step::OuterGarbage(u2) = step {
                    add_one(u2);
                }
            },
            equations.clone(),
        ),
        attack(
            Defence::Inner,
            |_, _, step| {
                if let Step::Commitments(t) = step {
                    add_one(t);
                }
            },
            equations.clone(),
        ),
        // The value of a lift appears only in (5).
        attack(
            Defence::Sum,
            |_, _, step| {
                if let Step::Lifts(values) = step {
                    let mut other = Rq::ZERO;
                    other.add(&Rq::from_small(&Small(std::array::from_fn(|k| {
                        i16::from(k == 1)
                    }))));
                    values[0].add(&other);
                }
            },
            equations.clone(),
        ),
        // The form of the images counts in (5) only for their own piece.
        attack(
            Defence::Families,
            |layout, _, step| {
                if let Step::Garbage(h) = step {
                    let pieces = h.len() / layout.families();
                    let first = (layout.families() - layout.images().image_pieces()) * pieces;
                    add_one(&mut h[first..]);
                }
            },
            equations,
        ),
    ]
}

/// An attack is accepted by a prover and verifier that both leave out its defence, and by no other
/// pair.
#[test]
fn each_defence_stops_its_attack_alone() {
    // Rows are not stacked, so there are families; the images are followed by padding.
    let sample = Sample::new("attacks", 1540, DEGREE, 40_000);
    let relation = sample.relation();
    let statement = statement(&sample, &relation, 0);
    let system = System::on(&statement.bounds(), KERNELS.measured()).expect("short enough");
    let layout = layout::Layout::new(1540, DEGREE, 40_000).expect("within limits");
    assert!(layout.has_families());
    let images = layout.images();
    for attack in attacks() {
        attack.is_stopped_alone(&system, &statement, &sample.witness, 1, &layout, &images);
    }
}

/// The same for defects of the witness itself.
#[test]
fn false_statements_need_the_defence_that_is_left_out() {
    let mut sample = Sample::new("statements", 5, 2 * DEGREE, 90_000);
    let long = sample.norm_sq / 2;
    let mut wrong = sample.witness.clone();
    wrong[4].0[0] += 1;
    let honest = sample.witness.clone();
    for (defence, norm_sq, witness) in [
        (Defence::Norms, long, honest),
        (Defence::Relation, sample.norm_sq, wrong),
    ] {
        sample.norm_sq = norm_sq;
        let relation = sample.relation();
        let statement = statement(&sample, &relation, 0);
        let system = System::new(&statement.bounds()).expect("short enough");
        assert!(system.prove(&statement, &witness).is_err(), "{defence:?}");
        for without in [None, Some(defence)] {
            let proof = system.prove_without(&statement, &witness, &mut Honest, without);
            let proof = proof.expect("no size is exceeded");
            let verdict = system.verify_without(&statement, &proof, without);
            let expected = without.map_or(Err(Reject::Sumcheck), |_| Ok(()));
            assert_eq!(verdict, expected, "{defence:?} without {without:?}");
        }
    }
}

/// The end of the sumcheck is a check of its own: a wrong claim in a round fails there and nowhere else, since
/// the opening follows the value. A wrong value after the ten rounds fails there, and would fail at the
/// opening.
#[test]
fn the_end_of_the_sumcheck_is_checked() {
    let sample = Sample::new("rounds", 3, DEGREE, 40_000);
    let relation = sample.relation();
    let statement = statement(&sample, &relation, 0);
    let system = System::new(&statement.bounds()).expect("short enough");
    for wrong in [0, 5, 6, 9, 10] {
        let mut round = 0;
        let mut liar = Liar {
            lie: |_: usize, step: Step<'_>| {
                if let Step::Round(coefficients) = step {
                    if round == wrong {
                        let last = coefficients.last_mut().expect("coefficients");
                        *last = last.plus(crate::field::F::ONE);
                    }
                    round += 1;
                }
            },
            forces: 0,
        };
        let proof = system.prove_with(&statement, &sample.witness, &mut liar);
        let proof = proof.expect("a lie");
        assert_eq!(round, 11, "ten rounds and the value");
        let verdict = system.verify(&statement, &proof);
        assert_eq!(verdict, Err(Reject::Sumcheck), "round {wrong}");
        let weak = system.verify_weakly(&statement, &proof, Reject::Sumcheck);
        let opened = if wrong < 10 {
            Ok(())
        } else {
            Err(Reject::Equations)
        };
        assert_eq!(weak, opened, "round {wrong}");
    }
}
