//! Whole proofs of each front end over toy relations, and provers that lie at each step.

use super::chihuahua::Layout as Square;
use super::layout::{Layout, PRODUCT_DIGITS};
use super::*;
use crate::adversary::Step;
use crate::joint::tests::{Liar, MODULUS, Toy, sample};
use crate::kernel::KERNELS;
use crate::ring::{DEGREE, Small, norm_sq};
use crate::sis::Profile;
use crate::tests::oracle::check_levels;
use crate::transcript::Seed;
use crate::{FrontEnd, Invalid, ProveError, Reject, StatementError, System};

const NORM_SQ: u64 = 30_000;

/// Elements of a polynomial of the toy relation: degree 128.
const EXTENSION: usize = 2;

/// Coefficient by coefficient, `t = s_1 + h s_2` in `Z[Y]/(Y^n + 1)` modulo `q`, centred.
fn target(first: &[i64], second: &[i64], factor: &[i64]) -> Vec<i16> {
    let n = first.len();
    let q = MODULUS as i64;
    (0..n)
        .map(|k| {
            let product: i64 = (0..n)
                .map(|j| match j <= k {
                    true => factor[k - j] * second[j],
                    false => -factor[n + k - j] * second[j],
                })
                .sum();
            let residue = (first[k] + product).rem_euclid(q);
            (residue - if residue > q / 2 { q } else { 0 }) as i16
        })
        .collect()
}

/// A relation and columns of about three quarters of the norm that satisfy it.
fn products(name: &str, columns: usize) -> (Products, Vec<Small>) {
    let mut stream = Seed::of_name(name).stream();
    let width = EXTENSION * DEGREE;
    let mut numbers = |bound: i64| -> Vec<i64> {
        let elements = (0..EXTENSION).map(|_| stream.element().centred());
        elements.flatten().map(|c| c % (bound + 1)).collect()
    };
    let (mut factors, mut targets, mut witness) = (Vec::new(), Vec::new(), Vec::new());
    let bound = (NORM_SQ as f64 * 2.2 / (2 * width) as f64).sqrt() as i64;
    for _ in 0..columns {
        let (first, second, factor) = (numbers(bound), numbers(bound), numbers(6144));
        targets.extend(target(&first, &second, &factor));
        factors.extend(factor.iter().map(|&c| c as i16));
        let flat: Vec<i16> = first.iter().chain(&second).map(|&c| c as i16).collect();
        witness.extend(flat.as_chunks().0.iter().map(|&c| Small(c)));
    }
    let products = Products::new(EXTENSION, MODULUS, &factors, &targets);
    (products.expect("well formed"), witness)
}

fn bits(toy: &Toy, norm_sq: u64) -> Dachshund<'_> {
    let (columns, rows) = (toy.t.len(), toy.rows());
    let relation = Relation::Forms(toy);
    let context = b"context".to_vec();
    Dachshund::new(columns, rows, norm_sq, Profile::Core128, relation, context)
        .expect("within limits")
}

fn quotients(products: &Products) -> Dachshund<'_> {
    let relation = Relation::Products(products);
    let (columns, rows) = (products.columns(), 2 * EXTENSION);
    let context = b"context".to_vec();
    Dachshund::new(columns, rows, NORM_SQ, Profile::Core128, relation, context)
        .expect("within limits")
}

fn chihuahua(products: &Products) -> Chihuahua<'_> {
    let context = b"context".to_vec();
    Chihuahua::new(NORM_SQ, Profile::Core128, products, context).expect("within limits")
}

fn system(front_end: &impl FrontEnd) -> System {
    System::on(&front_end.bounds(), KERNELS.measured()).expect("short enough")
}

fn proves(front_end: &impl FrontEnd<Witness = [Small]>, witness: &[Small], what: &str) {
    let system = system(front_end);
    let proof = system.prove(front_end, witness);
    let proof = proof.unwrap_or_else(|error| panic!("{what}: {error}"));
    assert_eq!(system.verify(front_end, &proof), Ok(()), "{what}");
    let ratio = proof.len() as f64 / system.schedule().bytes as f64;
    assert!(
        (0.9..1.03).contains(&ratio),
        "{what}: {ratio} of the prediction"
    );
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
        proves(&bits(&toy, norm_sq), &witness, "bits");
    }
    for columns in [1, 5, 20] {
        let (products, witness) = products("shapes", columns);
        proves(&quotients(&products), &witness, "quotients");
        proves(&chihuahua(&products), &witness, "four squares");
    }
}

/// Every front end reduces to the relation of one level.
#[test]
fn every_level_satisfies_its_relation_by_definition() {
    let (toy, witness) = sample("oracle", 3, 4, NORM_SQ);
    let front_end = bits(&toy, NORM_SQ);
    assert!(check_levels(&system(&front_end), &front_end, &witness[..]) > 0);
    let (products, witness) = products("oracle", 3);
    let front_end = quotients(&products);
    assert!(check_levels(&system(&front_end), &front_end, &witness[..]) > 0);
    let front_end = chihuahua(&products);
    assert!(check_levels(&system(&front_end), &front_end, &witness[..]) > 0);
}

#[test]
fn changed_proofs_and_statements_are_rejected() {
    fn changes<F: FrontEnd<Witness = [Small]>>(truth: &F, other: &F, witness: &[Small]) {
        let system = system(truth);
        let proof = system.prove(truth, witness).expect("a true statement");
        let again = system.prove(truth, witness).expect("the same again");
        assert_eq!(proof, again);
        let step = proof.len() / 40;
        for index in (0..proof.len()).step_by(step).chain([proof.len() - 1]) {
            let mut changed = proof.clone();
            changed[index] ^= 1 << (index % 8);
            assert!(system.verify(truth, &changed).is_err(), "byte {index}");
        }
        assert!(system.verify(truth, &proof[..proof.len() - 1]).is_err());
        assert!(system.verify(other, &proof).is_err(), "another relation");
    }
    let (toy, witness) = sample("changes", 3, 2, NORM_SQ);
    let mut false_toy = sample("changes", 3, 2, NORM_SQ).0;
    false_toy.t[1] = (false_toy.t[1] + 1) % MODULUS as i64;
    changes(&bits(&toy, NORM_SQ), &bits(&false_toy, NORM_SQ), &witness);
    let (truth, witness) = products("changes", 3);
    let (other, _) = products("other", 3);
    changes(&quotients(&truth), &quotients(&other), &witness);
    changes(&chihuahua(&truth), &chihuahua(&other), &witness);
}

#[test]
fn false_witnesses_are_refused_by_name() {
    fn refused(front_end: &impl FrontEnd<Witness = [Small]>, witness: &[Small]) -> Invalid {
        match system(front_end).prove(front_end, witness) {
            Err(ProveError::Witness(invalid)) => invalid,
            other => panic!("not refused: {other:?}"),
        }
    }
    let (toy, witness) = sample("false", 3, 2, NORM_SQ);
    let mut wrong = witness.clone();
    wrong[0].0[0] -= wrong[0].0[0].signum();
    let statement = bits(&toy, NORM_SQ);
    assert_eq!(refused(&statement, &wrong), Invalid::Form { form: 0 });
    let (products, witness) = products("false", 3);
    let statements = [quotients(&products)];
    let shape = Invalid::Shape {
        elements: 11,
        expected: 12,
    };
    let mut wrong = witness.clone();
    wrong[5].0[0] -= wrong[5].0[0].signum();
    let mut long = witness.clone();
    long[9].0[0] = 300;
    let refusals = |refused: &dyn Fn(&[Small]) -> Invalid| {
        assert_eq!(refused(&witness[1..]), shape);
        assert_eq!(refused(&wrong), Invalid::Equation { equation: 1 });
        assert!(matches!(refused(&long), Invalid::Column { column: 2, .. }));
    };
    refusals(&|witness| refused(&statements[0], witness));
    refusals(&|witness| refused(&chihuahua(&products), witness));
}

#[test]
fn relations_beyond_the_limits_are_refused_by_name() {
    let refuse = |extension, modulus, factors: &[i16], targets: &[i16]| {
        Products::new(extension, modulus, factors, targets).err()
    };
    let zeros = [0; 128];
    assert_eq!(refuse(2, MODULUS, &zeros, &zeros), None);
    let modulus = 12_288;
    let expected = StatementError::FormModulus { modulus };
    assert_eq!(refuse(2, modulus, &zeros, &zeros), Some(expected));
    let missing = |coefficients, degree| {
        Some(StatementError::Polynomials {
            coefficients,
            degree,
        })
    };
    assert_eq!(refuse(0, MODULUS, &zeros, &zeros), missing(128, 0));
    assert_eq!(refuse(2, MODULUS, &zeros[1..], &zeros), missing(127, 128));
    assert_eq!(refuse(2, MODULUS, &zeros, &zeros[..64]), missing(64, 128));
    let mut wide = zeros;
    wide[7] = 6145;
    let expected = StatementError::Residue {
        place: 135,
        modulus: MODULUS,
    };
    assert_eq!(refuse(2, MODULUS, &zeros, &wide), Some(expected));
    let max = super::chihuahua::COLUMNS_MAX;
    let columns = max + 1;
    let refused = Chihuahua::bounds_for(columns, 8, NORM_SQ, Profile::Core128);
    assert_eq!(
        refused.err(),
        Some(StatementError::Columns { columns, max })
    );
    let refused = Dachshund::bounds_for(0, 16, NORM_SQ, 0, Profile::Core128);
    assert_eq!(
        refused.err(),
        Some(StatementError::Columns {
            columns: 0,
            max: 20_480
        })
    );
    // Twenty thousand quotients leave no room below Q, ten thousand do.
    let falcon = |columns| Dachshund::bounds_for(columns, 16, 34_034_726, 8, Profile::Core128);
    assert!(falcon(10_000).is_ok());
    let columns = 20_000;
    assert_eq!(
        falcon(columns).err(),
        Some(StatementError::Wraps { columns })
    );
}

/// The lie breaks this check and no other.
fn breaks_only(
    front_end: &impl FrontEnd<Witness = [Small]>,
    witness: &[Small],
    check: Reject,
    what: &str,
    lie: impl FnMut(Step<'_>),
) {
    let system = system(front_end);
    let mut liar = Liar { lie, forces: false };
    let proof = system.prove_with(front_end, witness, &mut liar);
    let proof = proof.expect("the lie stays within the sizes");
    let verdict = system.verify(front_end, &proof);
    assert_eq!(verdict, Err(check.clone()), "{what}");
    let weak = system.verify_weakly(front_end, &proof, check);
    assert_eq!(weak, Ok(()), "{what}, weakly");
}

/// The column and the bits of a column in the committed vectors.
fn column(layout: &Layout, s: &[Small], i: usize) -> (Vec<Small>, Small) {
    let rows = 0..layout.rows;
    let long = rows.map(|row| s[layout.long_row(row) + i].clone());
    (long.collect(), s[layout.bit_row(0) + i].clone())
}

/// Writes the digits that belong to a column and its bits, whatever their constant terms.
fn write_digits(layout: &Layout, s: &mut [Small], i: usize) {
    let (long, bits) = column(layout, s, i);
    let digits = layout.digits(&long, &bits).expect("small");
    for (digit, element) in digits.into_iter().enumerate() {
        s[layout.digit_row(digit) + i] = element;
    }
}

/// Norms with slack in binary: each lie leaves all other equations true.
#[test]
fn slack_that_is_not_binary_or_not_exact_is_a_false_equation() {
    let (toy, witness) = sample("binary", 6, 4, NORM_SQ);
    let layout = Layout::new(6, 4, NORM_SQ, 0).expect("within limits");
    let statement = bits(&toy, NORM_SQ);
    let breaks = |what: &str, lie: &dyn Fn(&mut [Small])| {
        breaks_only(&statement, &witness, Reject::Equations, what, |step| {
            if let Step::Witness(s) = step {
                lie(s);
            }
        });
    };
    let place = layout.bit_row(0) + 2;
    breaks("a smaller slack", &|s| {
        let k = s[place].0.iter().position(|&e| e == 1).expect("a one");
        s[place].0[k] = 0;
        write_digits(&layout, s, 2);
    });
    breaks("a two for the bit above", &|s| {
        let pair = s[place].0.windows(2).position(|pair| pair == [0, 1]);
        let k = pair.expect("a one above a zero");
        s[place].0[k..k + 2].copy_from_slice(&[2, 0]);
        write_digits(&layout, s, 2);
    });
    breaks("minus one, and one behind the bits", &|s| {
        s[place].0[60] = -1;
        s[place].0[61] = 1;
        write_digits(&layout, s, 2);
    });
    for digit in 0..=PRODUCT_DIGITS {
        breaks("another product", &|s| {
            s[layout.digit_row(digit) + 1].0[3] += 1;
        });
    }
    // A row of the piece of bits that no norm needs must be binary as well.
    breaks("a three in a free row", &|s| {
        s[layout.bit_row(1) + 4].0[5] = 3;
    });
}

#[test]
fn twins_that_are_not_conjugates_are_false_equations() {
    let (toy, witness) = sample("twins", 6, 4, NORM_SQ);
    let layout = Layout::new(6, 4, NORM_SQ, 0).expect("within limits");
    let statement = bits(&toy, NORM_SQ);
    // A row of the columns, that of the bits.
    for row in [1, 4] {
        let place = layout.twin_row(row) - layout.twin_row(0) + 3;
        breaks_only(&statement, &witness, Reject::Equations, "a twin", |step| {
            if let Step::Second(second) = step {
                second[place].0[63] += 1;
            }
        });
    }
}

#[test]
fn quotients_of_forms_are_bound_and_bounded() {
    let (mut toy, witness) = sample("forms", 6, 4, NORM_SQ);
    let statement = bits(&toy, NORM_SQ);
    for form in [0, 2] {
        breaks_only(
            &statement,
            &witness,
            Reject::Equations,
            "a quotient",
            |step| {
                if let Step::Quotients(v) = step {
                    v[form] += 1;
                }
            },
        );
    }
    let system = system(&statement);
    let mut liar = Liar {
        lie: |step: Step<'_>| {
            if let Step::Quotients(v) = step {
                v[1] = 1 << 38;
            }
        },
        forces: false,
    };
    let proof = system.prove_with(&statement, &witness[..], &mut liar);
    let verdict = system.verify(&statement, &proof.expect("within the sizes"));
    assert_eq!(verdict, Err(Reject::FormRange { form: 1 }));
    // Errors of two columns that cancel in a sum with equal weights.
    toy.t[0] = (toy.t[0] + 1) % MODULUS as i64;
    toy.t[4] = (toy.t[4] + MODULUS as i64 - 1) % MODULUS as i64;
    let statement = bits(&toy, NORM_SQ);
    breaks_only(&statement, &witness, Reject::Equations, "targets", |_| {});
}

#[test]
fn quotients_that_do_not_belong_to_the_products_are_false_equations() {
    let (products, witness) = products("quotients", 6);
    let layout = Layout::new(6, 2 * EXTENSION, NORM_SQ, EXTENSION).expect("within limits");
    for row in 0..EXTENSION {
        let place = layout.quotient_row(row) + 5;
        let lie = |step: Step<'_>| {
            if let Step::Witness(s) = step {
                s[place].0[0] += 1;
            }
        };
        breaks_only(&quotients(&products), &witness, Reject::Equations, "v", lie);
        let place = Square::new(6, EXTENSION, NORM_SQ)
            .expect("within limits")
            .quotient(5)
            + row;
        let lie = |step: Step<'_>| {
            if let Step::Witness(s) = step {
                s[place].0[0] += 1;
            }
        };
        breaks_only(&chihuahua(&products), &witness, Reject::Equations, "v", lie);
    }
    // s_1 and v in the wrong ratio: the equation holds modulo q alone.
    breaks_only(
        &chihuahua(&products),
        &witness,
        Reject::Equations,
        "s_1",
        |step| {
            if let Step::Witness(s) = step {
                let layout = Square::new(6, EXTENSION, NORM_SQ).expect("within limits");
                let (a, b) = layout.blocks(0, 3);
                s[a].0[0] += 1;
                s[b].0[0] += 1;
            }
        },
    );
}

#[test]
fn a_long_vector_is_rejected_by_its_projection() {
    let (products, witness) = products("long", 3);
    let layout = Layout::new(3, 2 * EXTENSION, NORM_SQ, EXTENSION).expect("within limits");
    // A row behind the quotients, which no equation names.
    let place = layout.quotient_row(EXTENSION);
    let statement = quotients(&products);
    let system = system(&statement);
    let mut liar = Liar {
        lie: |step: Step<'_>| {
            if let Step::Witness(s) = step {
                s[place].0 = [4000; DEGREE];
            }
        },
        forces: true,
    };
    let proof = system.prove_with(&statement, &witness[..], &mut liar);
    let verdict = system.verify(&statement, &proof.expect("forced"));
    assert_eq!(verdict, Err(Reject::ProjectionLong { level: 1 }));
}

/// A column without slack whose missing norm comes from a product of two other blocks: every
/// equation but that of the zeros holds.
#[test]
fn blocks_that_must_be_zero_do_not_carry_norms() {
    let (products, witness) = products("blocks", 6);
    let layout = Square::new(6, EXTENSION, NORM_SQ).expect("within limits");
    let statement = chihuahua(&products);
    let (part, column, other) = (2, 0, 5);
    breaks_only(&statement, &witness, Reject::Equations, "blocks", |step| {
        if let Step::Witness(s) = step {
            let (a, b) = layout.blocks(part, column);
            let missing = norm_sq(&s[a..a + 1]) as i64;
            s[a] = Small::ZERO;
            s[b] = Small::ZERO;
            let (piece_a, piece_b) = layout.pieces_of(part, column);
            let (own_a, own_b) = layout.pieces_of(part, other);
            assert!(
                piece_a != own_a && piece_b != own_b,
                "another row and column"
            );
            let offset = (other as isize - column as isize) * EXTENSION as isize + 1;
            let at = |place: usize| place.checked_add_signed(offset).expect("inside");
            // Factors of the norm in the places of another column: 1 and what is missing, in
            // numbers of 16 bits.
            let (high, low) = (missing / 100, missing % 100);
            s[at(a)].0[..2].copy_from_slice(&[100, 1]);
            let wide = &mut s[at(b)].0;
            wide[0] = high as i16;
            wide[63] = -low as i16;
        }
    });
}

#[test]
fn norms_and_conjugates_of_pieces_are_exact() {
    let (products, witness) = products("pieces", 6);
    let layout = Square::new(6, EXTENSION, NORM_SQ).expect("within limits");
    let statement = chihuahua(&products);
    for part in 0..3 {
        let (a, b) = layout.blocks(part, 4);
        for place in [a, b + 1] {
            breaks_only(
                &statement,
                &witness,
                Reject::Equations,
                "one of both",
                |step| {
                    if let Step::Witness(s) = step {
                        s[place].0[7] += 1;
                    }
                },
            );
        }
    }
    // Both halves, so that they stay conjugates: the norm is another one.
    let (a, b) = layout.blocks(2, 4);
    breaks_only(&statement, &witness, Reject::Equations, "norm", |step| {
        if let Step::Witness(s) = step {
            s[a].0[0] += 1;
            s[b].0[0] += 1;
        }
    });
}
