//! Whole proofs over a toy relation, and provers that lie at each step of the front end.

use super::layout::{Layout, PRODUCT_DIGITS};
use super::*;
use crate::adversary::{Step, Tamper};
use crate::kernel::KERNELS;
use crate::ring::{DEGREE, Rq, Small};
use crate::sis::Profile;
use crate::{FrontEnd, Invalid, ProveError, Reject, StatementError, System};

pub(crate) const MODULUS: u64 = 12_289;
const FORMS: usize = 3;

/// Column `i` satisfies `<h_i, s_i> = t_i` modulo `q`.
pub(crate) struct Toy {
    rows: usize,
    h: Vec<Vec<i64>>,
    pub(crate) t: Vec<i64>,
}

struct DrawnToy<'a> {
    toy: &'a Toy,
    /// A weight for each form and column.
    weights: Vec<Vec<i64>>,
    targets: Vec<u64>,
}

fn centred(x: i64) -> i64 {
    let residue = x.rem_euclid(MODULUS as i64);
    if residue > MODULUS as i64 / 2 {
        residue - MODULUS as i64
    } else {
        residue
    }
}

impl Toy {
    pub(crate) fn rows(&self) -> usize {
        self.rows
    }
}

impl Forms for Toy {
    fn count(&self) -> usize {
        FORMS
    }

    fn modulus(&self) -> u64 {
        MODULUS
    }

    fn draw<'a>(&'a self, seed: &Seed) -> Box<dyn DrawnForms + 'a> {
        let mut stream = seed.stream();
        let weights: Vec<Vec<i64>> = (0..FORMS)
            .map(|_| {
                let column = |_| (stream.residue() % MODULUS) as i64;
                (0..self.t.len()).map(column).collect()
            })
            .collect();
        let targets = weights.iter().map(|weights| {
            let sum: i64 = weights.iter().zip(&self.t).map(|(a, t)| a * t).sum();
            sum.rem_euclid(MODULUS as i64) as u64
        });
        Box::new(DrawnToy {
            toy: self,
            targets: targets.collect(),
            weights,
        })
    }
}

impl DrawnForms for DrawnToy<'_> {
    fn targets(&self) -> &[u64] {
        &self.targets
    }

    fn weights(&self, first: usize, columns: usize, out: &mut [[i16; TILE]]) {
        let width = self.toy.rows * DEGREE;
        for (place, row) in out.iter_mut().enumerate() {
            let (form, place) = (place / width, place % width);
            for (o, column) in row[..columns].iter_mut().zip(first..) {
                *o = centred(self.weights[form][column] * self.toy.h[column][place]) as i16;
            }
        }
    }
}

/// Columns of about three quarters of the norm, and a relation that they satisfy.
pub(crate) fn sample(name: &str, columns: usize, rows: usize, norm_sq: u64) -> (Toy, Vec<Small>) {
    let mut stream = Seed::of_name(name).stream();
    // A uniform coefficient in [-b, b] has a square of b^2 / 3.
    let bound = ((norm_sq as f64 * 2.2 / (rows * DEGREE) as f64).sqrt() as i64).max(1);
    let mut element = |bound: i64| stream.element().centred().map(|c| c % (bound + 1));
    let witness: Vec<Small> = (0..columns * rows)
        .map(|_| Small(element(bound).map(|c| c as i16)))
        .collect();
    let h: Vec<Vec<i64>> = (0..columns)
        .map(|_| (0..rows).flat_map(|_| element(6144)).collect())
        .collect();
    let t = (h.iter().zip(witness.chunks_exact(rows)))
        .map(|(h, column)| {
            let flat = column.iter().flat_map(|s| s.0);
            h.iter()
                .zip(flat)
                .map(|(h, c)| h * i64::from(c))
                .sum::<i64>()
                % MODULUS as i64
        })
        .collect();
    (Toy { rows, h, t }, witness)
}

fn statement(toy: &Toy, norm_sq: u64) -> DachshundJoint<'_> {
    let context = b"context".to_vec();
    let statement = DachshundJoint::new(
        toy.t.len(),
        toy.rows,
        norm_sq,
        Profile::Core128,
        toy,
        context,
    );
    statement.expect("within limits")
}

#[test]
fn proofs_of_many_shapes_verify() {
    for (columns, rows, norm_sq) in [
        (1, 1, 100),
        (2, 16, 34_034_726),
        (17, 4, 90_000),
        (50, 7, 40_000),
    ] {
        let (toy, witness) = sample("shapes", columns, rows, norm_sq);
        let statement = statement(&toy, norm_sq);
        let system = System::new(&statement.bounds()).expect("short enough");
        let proof = system
            .prove(&statement, &witness)
            .expect("a true statement");
        assert_eq!(
            system.verify(&statement, &proof),
            Ok(()),
            "{columns} {rows}"
        );
        let ratio = proof.len() as f64 / system.schedule().bytes as f64;
        assert!((0.9..1.03).contains(&ratio), "{ratio} of the prediction");
    }
}

/// Witnesses at the edges: all energy in one coefficient, none at all, the same in all columns.
#[test]
fn no_honest_witness_fails_whatever_its_shape() {
    let (rows, norm_sq) = (3, 10_000u64);
    let mut one = Small::ZERO;
    one.0[63] = 100;
    let mut comb = Small::ZERO;
    comb.0.iter_mut().for_each(|c| *c = 7);
    let zero = Small::ZERO;
    for column in [
        [one.clone(), zero.clone(), zero.clone()],
        [zero.clone(), zero.clone(), zero],
        [comb.clone(), comb.clone(), comb],
    ] {
        for columns in [1, 20] {
            let (mut toy, _) = sample("edges", columns, rows, norm_sq);
            let witness: Vec<Small> = (0..columns).flat_map(|_| column.clone()).collect();
            for (t, h) in toy.t.iter_mut().zip(&toy.h) {
                let flat = column.iter().flat_map(|s| s.0);
                *t = h
                    .iter()
                    .zip(flat)
                    .map(|(h, c)| h * i64::from(c))
                    .sum::<i64>();
                *t = t.rem_euclid(MODULUS as i64);
            }
            let statement = statement(&toy, norm_sq);
            let system = System::new(&statement.bounds()).expect("short enough");
            let proof = system
                .prove(&statement, &witness)
                .expect("a true statement");
            assert_eq!(system.verify(&statement, &proof), Ok(()));
        }
    }
}

#[test]
fn false_witnesses_are_refused_by_name() {
    let (columns, rows, norm_sq) = (6, 4, 50_000);
    let (toy, witness) = sample("false", columns, rows, norm_sq);
    let statement = statement(&toy, norm_sq);
    let system = System::new(&statement.bounds()).expect("short enough");
    let refused = |witness: &[Small]| match system.prove(&statement, witness) {
        Err(ProveError::Witness(invalid)) => invalid,
        other => panic!("not refused: {other:?}"),
    };
    let shape = Invalid::Shape {
        elements: 23,
        expected: 24,
    };
    assert_eq!(refused(&witness[1..]), shape);
    let mut long = witness.clone();
    long[4 * 3].0[0] = 300;
    assert!(matches!(
        refused(&long),
        Invalid::Column {
            column: 3,
            max: 50_000,
            ..
        }
    ));
    let mut wrong = witness.clone();
    wrong[0].0[0] -= wrong[0].0[0].signum();
    assert_eq!(refused(&wrong), Invalid::Form { form: 0 });
}

#[test]
fn statements_beyond_the_limits_are_refused_by_name() {
    struct Other(usize, u64);
    impl Forms for Other {
        fn count(&self) -> usize {
            self.0
        }
        fn modulus(&self) -> u64 {
            self.1
        }
        fn draw<'a>(&'a self, _: &Seed) -> Box<dyn DrawnForms + 'a> {
            panic!("a statement that is refused draws nothing")
        }
    }
    let refuse = |forms: &Other, columns| {
        DachshundJoint::new(columns, 2, 100, Profile::Core128, forms, Vec::new()).err()
    };
    assert_eq!(refuse(&Other(3, 12_289), 1), None);
    let forms = FORMS_MAX + 1;
    assert_eq!(
        refuse(&Other(0, 3), 1),
        Some(StatementError::Forms { forms: 0 })
    );
    assert_eq!(
        refuse(&Other(forms, 3), 1),
        Some(StatementError::Forms { forms })
    );
    for modulus in [12_288, 1 << 15, (1 << 15) + 1] {
        let expected = Some(StatementError::FormModulus { modulus });
        assert_eq!(refuse(&Other(3, modulus), 1), expected);
    }
    let expected = Some(StatementError::Columns {
        columns: 0,
        max: COLUMNS_MAX,
    });
    assert_eq!(refuse(&Other(3, 12_289), 0), expected);
}

/// A change here is a change of the format and of its version.
#[test]
fn proofs_are_frozen() {
    let (toy, witness) = sample("known", 2, 2, 4000);
    let statement = statement(&toy, 4000);
    let system = System::new(&statement.bounds()).expect("short enough");
    let proof = system
        .prove(&statement, &witness)
        .expect("a true statement");
    let mut transcript = crate::transcript::Transcript::new("known answers");
    transcript.absorb("proof", &proof);
    let digest: String = (transcript.state().iter())
        .map(|byte| format!("{byte:02x}"))
        .collect();
    assert_eq!(
        digest,
        "b939818ce4f32afc445c64881f8c43ba26d80bee669bfed794ff89c9d14c1549"
    );
    for backend in KERNELS.available() {
        let other = System::on(&statement.bounds(), backend).expect("short enough");
        assert_eq!(
            other.prove(&statement, &witness),
            Ok(proof.clone()),
            "{backend}"
        );
    }
}

/// Every byte of a proof counts, and so does everything public.
#[test]
fn changed_proofs_and_statements_are_rejected() {
    let (toy, witness) = sample("changes", 3, 2, 4000);
    let truth = statement(&toy, 4000);
    let system = System::new(&truth.bounds()).expect("short enough");
    let proof = system.prove(&truth, &witness).expect("a true statement");
    assert_eq!(
        proof,
        system.prove(&truth, &witness).expect("the same again")
    );
    let step = proof.len() / 40;
    for index in (0..proof.len()).step_by(step).chain([proof.len() - 1]) {
        let mut changed = proof.clone();
        changed[index] ^= 1 << (index % 8);
        assert!(system.verify(&truth, &changed).is_err(), "byte {index}");
    }
    assert!(system.verify(&truth, &proof[..proof.len() - 1]).is_err());
    let other = DachshundJoint::new(3, 2, 4000, Profile::Core128, &toy, b"another".to_vec());
    assert!(system.verify(&other.expect("legal"), &proof).is_err());
    let mut false_toy = sample("changes", 3, 2, 4000).0;
    false_toy.t[1] = (false_toy.t[1] + 1) % MODULUS as i64;
    let false_statement = statement(&false_toy, 4000);
    let verdict = system.verify(&false_statement, &proof);
    assert_eq!(verdict, Err(Reject::Equations));
}

/// The joint front end reduces to the relation of one level, and so does every level behind it.
#[test]
fn every_level_satisfies_its_relation_by_definition() {
    for (columns, levels) in [(1, 1), (3, 1), (100, 2)] {
        let (toy, witness) = sample("oracle", columns, 4, NORM_SQ);
        let statement = statement(&toy, NORM_SQ);
        let system = System::new(&statement.bounds()).expect("short enough");
        let checked = crate::tests::oracle::check_levels(&system, &statement, &witness[..]);
        assert_eq!(checked, levels, "{columns} columns");
    }
}

pub(crate) struct Liar<F> {
    pub(crate) lie: F,
    pub(crate) forces: bool,
}

impl<F: FnMut(Step<'_>)> Tamper for Liar<F> {
    fn at(&mut self, level: usize, step: Step<'_>) {
        if level == 1 {
            (self.lie)(step);
        }
    }

    fn forces(&self, level: usize) -> bool {
        self.forces && level == 1
    }
}

/// A statement with padding behind `S1` and `Y`.
struct Bench {
    toy: Toy,
    witness: Vec<Small>,
    layout: Layout,
}

const NORM_SQ: u64 = 30_000;

impl Bench {
    fn new(name: &str) -> Self {
        let (columns, rows) = (6, 4);
        let (toy, witness) = sample(name, columns, rows, NORM_SQ);
        let layout = Layout::new(columns, rows, NORM_SQ).expect("within limits");
        Self {
            toy,
            witness,
            layout,
        }
    }

    /// The lie breaks this check and no other.
    fn breaks_only(&self, check: Reject, what: &str, forces: bool, lie: impl FnMut(Step<'_>)) {
        let statement = statement(&self.toy, NORM_SQ);
        let system = System::new(&statement.bounds()).expect("short enough");
        let mut liar = Liar { lie, forces };
        let proof = system.prove_with(&statement, &self.witness, &mut liar);
        let proof = proof.expect("the lie stays within the sizes");
        let verdict = system.verify(&statement, &proof);
        assert_eq!(verdict, Err(check.clone()), "{what}");
        let weak = system.verify_weakly(&statement, &proof, check);
        assert_eq!(weak, Ok(()), "{what}, weakly");
    }
}

/// The first vectors, changed before they are committed to.
#[test]
fn columns_that_do_not_satisfy_the_statement_are_false_equations() {
    let bench = Bench::new("columns");
    let layout = bench.layout;
    // The products are those of the honest columns: a norm that is not exact.
    for row in [0, layout.rows, layout.long_rows() - 1] {
        bench.breaks_only(Reject::Equations, "norm", false, |step| {
            if let Step::Witness(s) = step {
                s[layout.long_row(row) + 2].0[5] += 1;
            }
        });
    }
    // A constant term that hides a norm that is too large: the sums agree, the column does not.
    bench.breaks_only(Reject::Equations, "constant term", false, |step| {
        if let Step::Witness(s) = step {
            let slack = layout.long_row(layout.rows) + 1;
            let root = s[slack].0[0];
            assert!(root > 1, "the column has slack");
            s[slack].0[0] = 0;
            let mut product = i64::from(root) * i64::from(root);
            for digit in 0..PRODUCT_DIGITS {
                let low = ((product + 256) & 511) - 256;
                s[layout.digit_row(digit) + 1].0[0] -= low as i16;
                product = (product - low) >> 9;
            }
        }
    });
}

/// Errors of two columns that cancel in a sum with equal weights.
#[test]
fn errors_of_forms_do_not_cancel() {
    let mut bench = Bench::new("forms");
    let t = &mut bench.toy.t;
    t[0] = (t[0] + 1) % MODULUS as i64;
    t[4] = (t[4] + MODULUS as i64 - 1) % MODULUS as i64;
    bench.breaks_only(Reject::Equations, "targets", false, |_| {});
    let bench = Bench::new("forms");
    bench.breaks_only(Reject::Equations, "a quotient", false, |step| {
        if let Step::Quotients(v) = step {
            v[1] += 1;
        }
    });
    // A multiple of Q / q would wrap around: its range is checked. Without the check the
    // equation modulo Q would still be false, since no integer is Q / q.
    let statement = statement(&bench.toy, NORM_SQ);
    let system = System::new(&statement.bounds()).expect("short enough");
    let mut liar = Liar {
        lie: |step: Step<'_>| {
            if let Step::Quotients(v) = step {
                v[2] += (crate::ring::Q / MODULUS) as i64;
            }
        },
        forces: false,
    };
    let proof = system.prove_with(&statement, &bench.witness, &mut liar);
    let verdict = system.verify(&statement, &proof.expect("a proof"));
    assert_eq!(verdict, Err(Reject::FormRange { form: 2 }));
}

#[test]
fn the_second_part_is_bound_to_the_first() {
    let bench = Bench::new("second");
    let layout = bench.layout;
    let first = layout.first_pieces() * layout.rank();
    let y = layout.image_start() - first;
    let padding = y + 2 * layout.image_elements();
    assert!(first + padding < layout.elements(), "Y has padding");
    for (what, index) in [
        ("a conjugate", 3),
        (
            "a conjugate of slack",
            layout.conjugate_row(layout.rows) - first,
        ),
        ("a lower digit", y + 1),
        ("an upper digit", y + layout.image_elements()),
        ("padding", padding),
    ] {
        bench.breaks_only(Reject::Equations, what, false, |step| {
            if let Step::Second(s) = step {
                s[index].0[9] += 1;
            }
        });
    }
}

/// Challenges of a prover's own choice: nothing on the wire could carry them, and `S2` made with
/// them is another vector. The second column is too long, which a challenge of zero would hide.
#[test]
fn a_prover_does_not_choose_the_challenges() {
    let bench = Bench::new("choice");
    let layout = bench.layout;
    let first = layout.first_pieces() * layout.rank();
    for (what, from) in [("zero", None), ("that of another column", Some(0))] {
        bench.breaks_only(Reject::Equations, what, false, |step| match step {
            Step::Witness(s) if from.is_none() => s[layout.long_row(1) + 2].0[7] += 40,
            Step::Second(s) => {
                for row in 0..layout.long_rows() {
                    let place = layout.conjugate_row(row) - first;
                    s[place + 2] = from.map_or(Small::ZERO, |from| s[place + from].clone());
                }
            }
            _ => {}
        });
    }
}

#[test]
fn wrong_messages_are_false_equations() {
    let bench = Bench::new("messages");
    let one = Rq::constant(1);
    for kind in 0..6 {
        bench.breaks_only(
            Reject::Equations,
            &format!("lie {kind}"),
            false,
            |step| match (kind, step) {
                (0, Step::First(u)) | (1, Step::Outer(u)) => u[0].add(&one),
                (2, Step::Commitments(t, _)) => t[0].add(&one),
                (3, Step::Commitments(_, g)) => g[1].add(&one),
                (4, Step::Projection(image)) => image[200] += 1,
                (5, Step::Lifts(lifts)) => lifts[2].add(&Rq::from_integers(&[1; DEGREE])),
                _ => {}
            },
        );
    }
}

/// Rows behind the products are in no equation: only the projections see that they are long.
#[test]
fn long_vectors_are_rejected_by_their_projection() {
    let bench = Bench::new("long");
    let layout = bench.layout;
    let free = layout.digit_row(PRODUCT_DIGITS);
    assert!(free < layout.conjugate_row(0), "S1 has padding");
    // Three times the bound of the squared norm of S0 and S1, in one element.
    let each = ((3 * layout.first_norm_sq() / DEGREE as u128).isqrt() + 1) as i16;
    let check = Reject::ProjectionLong { level: 1 };
    bench.breaks_only(check, "a long row", true, |step| {
        if let Step::Witness(s) = step {
            s[free].0 = [each; DEGREE];
        }
    });
}
