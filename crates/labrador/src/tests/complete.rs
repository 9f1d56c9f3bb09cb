use super::*;
use crate::{Invalid, ProveError, Reject, StatementError, System};

fn system(statement: &Statement) -> System {
    System::new(&statement.bounds()).expect("short enough")
}

fn proven(name: &str) -> (Statement, System, Vec<u8>) {
    let (statement, witness) = sample(name, 2, 8, 4);
    let system = system(&statement);
    let proof = system.prove(&statement, &witness[..]);
    (statement, system, proof.expect("a true statement"))
}

#[test]
fn proofs_of_many_shapes_verify() {
    for (pieces, rank, bound) in [(1, 1, 1), (3, 17, 100), (2, 150, 7)] {
        let (statement, witness) = sample("shapes", pieces, rank, bound);
        let system = system(&statement);
        let proof = system
            .prove(&statement, &witness[..])
            .expect("a true statement");
        assert_eq!(
            system.verify(&statement, &proof),
            Ok(()),
            "{pieces} {rank} {bound}"
        );
        let predicted = system.schedule().bytes as f64;
        let ratio = proof.len() as f64 / predicted;
        assert!(
            (0.9..1.02).contains(&ratio),
            "{} of {predicted}",
            proof.len()
        );
    }
}

#[test]
fn linear_statements_send_no_quadratic_garbage() {
    let (pieces, rank) = (3, 20);
    let mut stream = Seed::of_name("linear").stream();
    let witness = short(&mut stream, pieces * rank, 6);
    let mut equation = random_equation(&mut stream, Kind::Ring, pieces, rank);
    equation.quadratic.clear();
    let equations = vec![satisfied(equation, rank, &witness)];
    let norm_sq = crate::ring::norm_sq(&witness);
    let statement = Statement::new(pieces, rank, norm_sq, Profile::Falcon, equations);
    let statement = statement.expect("well formed");
    let system = system(&statement);
    assert!(!system.schedule().tail.quadratic);
    let proof = system
        .prove(&statement, &witness[..])
        .expect("a true statement");
    assert_eq!(system.verify(&statement, &proof), Ok(()));
}

/// An exact norm: a vector, that the other one is its conjugate, and their product.
#[test]
fn exact_norms_are_constant_coefficients() {
    let rank = 12;
    let mut stream = Seed::of_name("norms").stream();
    let vector = short(&mut stream, rank, 50);
    let norm_sq = crate::ring::norm_sq(&vector);
    let conjugate = vector
        .iter()
        .map(|s| s.sigma().expect("not the least integer"));
    let witness: Vec<Small> = vector.iter().cloned().chain(conjugate).collect();
    let statement = |claimed: u128| {
        let norm = [product_of_two(claimed)].into_iter();
        let equations = norm.chain(Equation::conjugates(0, 1, rank)).collect();
        Statement::new(2, rank, 2 * norm_sq, Profile::Core128, equations).expect("well formed")
    };
    let truth = statement(norm_sq);
    let system = system(&truth);
    let proof = system
        .prove(&truth, &witness[..])
        .expect("a true statement");
    assert_eq!(system.verify(&truth, &proof), Ok(()));
    assert!(system.verify(&statement(norm_sq - 1), &proof).is_err());
    assert_eq!(
        system.prove(&statement(norm_sq - 1), &witness[..]),
        Err(ProveError::Witness(Invalid::Equation { equation: 0 }))
    );
}

/// Witnesses that an adversary chose within the norm: all energy in one coefficient, one element,
/// or one embedding of the ring in every element.
#[test]
fn no_honest_witness_fails_whatever_its_shape() {
    let (pieces, rank) = (2, 9);
    let cosine = |k: usize| (800.0 * (std::f64::consts::PI * k as f64 / 64.0).cos()) as i16;
    let mut lone = vec![Small::ZERO; pieces * rank];
    lone[3].0[7] = 30_000;
    let mut element = vec![Small::ZERO; pieces * rank];
    element[11].0 = [2000; 64];
    let embedding = vec![Small(std::array::from_fn(cosine)); pieces * rank];
    let zero = vec![Small::ZERO; pieces * rank];
    for witness in [lone, element, embedding, zero] {
        let mut stream = Seed::of_name("shapes").stream();
        let equation = random_equation(&mut stream, Kind::Constant, pieces, rank);
        let equations = vec![satisfied(equation, rank, &witness)];
        let norm_sq = crate::ring::norm_sq(&witness);
        let statement = Statement::new(pieces, rank, norm_sq, Profile::Core128, equations);
        let statement = statement.expect("well formed");
        let system = system(&statement);
        let proof = system
            .prove(&statement, &witness[..])
            .expect("a true statement");
        assert_eq!(system.verify(&statement, &proof), Ok(()));
    }
}

#[test]
fn no_byte_of_a_proof_can_change() {
    let (statement, system, proof) = proven("mutations");
    let header = 0..crate::HEADER_BYTES;
    // Every byte when soaking.
    let step = if cfg!(feature = "soak") {
        1
    } else {
        proof.len() / 200
    };
    let sampled = (0..proof.len()).step_by(step);
    for position in header.chain(sampled).chain([proof.len() - 1]) {
        let mut changed = proof.clone();
        changed[position] ^= 1 << (position % 8);
        assert!(
            system.verify(&statement, &changed).is_err(),
            "byte {position}"
        );
    }
}

#[test]
fn proofs_end_where_their_fields_end() {
    let (statement, system, proof) = proven("lengths");
    let mut longer = proof.clone();
    longer.push(0);
    for bytes in [&proof[..proof.len() - 1], &proof[..3], &[], &longer] {
        let expected = Reject::Length { bytes: bytes.len() };
        assert_eq!(system.verify(&statement, bytes), Err(expected));
    }
    let huge = vec![0; crate::PROOF_BYTES_MAX + 1];
    let expected = Reject::Length { bytes: huge.len() };
    assert_eq!(system.verify(&statement, &huge), Err(expected));
    let mut version = proof.clone();
    version[4] += 1;
    assert_eq!(
        system.verify(&statement, &version),
        Err(Reject::Header { offset: 4 })
    );
    let mut residue = proof;
    residue[crate::HEADER_BYTES..][..6].fill(0xff);
    let expected = Reject::NonCanonical {
        level: 1,
        field: "u1",
    };
    assert_eq!(system.verify(&statement, &residue), Err(expected));
}

#[test]
fn a_proof_belongs_to_one_statement() {
    let (statement, system, proof) = proven("statements");
    let (_, witness) = sample("statements", 2, 8, 4);
    let mut stream = Seed::of_name("another").stream();
    let rebuilt = |equations: Vec<Equation>| {
        let norm_sq = crate::ring::norm_sq(&witness);
        Statement::new(2, 8, norm_sq, Profile::Core128, equations).expect("well formed")
    };
    let equation = satisfied(random_equation(&mut stream, Kind::Ring, 2, 8), 8, &witness);
    let true_too = rebuilt(vec![equation]);
    assert_eq!(true_too.check(&witness), Ok(()));
    assert_eq!(system.verify(&statement, &proof), Ok(()));
    assert!(system.verify(&true_too, &proof).is_err());
}

#[test]
fn false_witnesses_are_named() {
    let (statement, witness) = sample("false", 2, 10, 4);
    let norm_sq = crate::ring::norm_sq(&witness);
    let mut moved = witness.clone();
    moved.swap(0, 1);
    assert_eq!(
        statement.check(&moved),
        Err(Invalid::Equation { equation: 0 })
    );
    let mut long = witness.clone();
    long[0] = Small([5; 64]);
    assert!(matches!(statement.check(&long), Err(Invalid::Norm { max, .. }) if max == norm_sq));
    let expected = Invalid::Shape {
        elements: 19,
        expected: 20,
    };
    assert_eq!(statement.check(&witness[1..]), Err(expected));
}

#[test]
fn malformed_statements_are_named() {
    let mut stream = Seed::of_name("malformed").stream();
    let equation = random_equation(&mut stream, Kind::Ring, 3, 5);
    let build = |pieces, rank, equations| {
        Statement::new(pieces, rank, 9, Profile::Core128, equations).err()
    };
    let one = vec![equation.clone()];
    assert_eq!(build(3, 5, one.clone()), None);
    assert!(matches!(
        build(0, 5, one.clone()),
        Some(StatementError::Piece { pieces: 0, .. })
    ));
    let expected = StatementError::Rank {
        equation: 0,
        end: 5,
        rank: 4,
    };
    assert_eq!(build(3, 4, one), Some(expected));
    let many = vec![
        Equation {
            quadratic: vec![],
            linear: vec![],
            ..equation
        };
        crate::principal::EQUATIONS_MAX + 1
    ];
    assert!(matches!(
        build(3, 5, many),
        Some(StatementError::Equations { .. })
    ));
}
