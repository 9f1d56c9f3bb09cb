use super::*;

/// Creates a statement of three columns, its system and a proof.
macro_rules! proven {
    ($name:literal, $sample:ident, $statement:ident, $system:ident, $proof:ident) => {
        let $sample = Sample::new($name, 3, DEGREE, 40_000);
        let relation = $sample.relation();
        let $statement = statement(&$sample, &relation, 0);
        let $system = System::on(&$statement.bounds(), KERNELS.measured()).expect("short enough");
        let $proof = ($system.prove(&$statement, &$sample.witness)).expect("a true statement");
    };
}

/// With as many parts as requested, the last of them shorter, and with more than there are pieces.
#[test]
fn proofs_verify_in_any_number_of_parts() {
    let sample = Sample::new("many parts", 391, DEGREE, 40_000);
    let relation = sample.relation();
    let mut shorter = 0;
    for parts in [1, 2, 3, 100] {
        let projections = Projections {
            block_levels: 0,
            parts,
        };
        let profile = Profile::Core128;
        let statement = Columns::new(40_000, profile, projections, &relation, Vec::new());
        let statement = statement.expect("within limits");
        let system = System::on(&statement.bounds(), KERNELS.measured()).expect("short enough");
        let schedule = system.schedule();
        let levels = schedule.levels[1..]
            .iter()
            .map(|level| (level.cut, level.parts));
        for (cut, parts) in levels.chain([(schedule.tail.cut, schedule.tail.parts)]) {
            shorter += usize::from(!cut.pieces.is_multiple_of(parts.pieces));
        }
        let proof = system.prove(&statement, &sample.witness);
        let verdict = system.verify(&statement, &proof.expect("a true statement"));
        assert_eq!(verdict, Ok(()), "{parts}");
    }
    assert!(shorter > 0, "a part that is shorter");
}

#[test]
fn proofs_of_each_profile_verify() {
    let sample = Sample::new("profiles", 20, DEGREE, 40_000);
    let relation = sample.relation();
    for profile in Profile::ALL {
        let statement = Columns::new(
            40_000,
            profile,
            Projections::SMALLEST,
            &relation,
            Vec::new(),
        );
        let statement = statement.expect("within limits");
        let system = System::on(&statement.bounds(), KERNELS.measured()).expect("short enough");
        let proof = system.prove(&statement, &sample.witness);
        let verdict = system.verify(&statement, &proof.expect("a true statement"));
        assert_eq!(verdict, Ok(()), "{profile:?}");
    }
}

#[test]
fn no_byte_of_a_proof_can_change() {
    proven!("mutations", sample, statement, system, proof);
    let header = 0..crate::HEADER_BYTES;
    // Every byte in soak tests.
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
    proven!("lengths", sample, statement, system, proof);
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
        field: "u0",
    };
    assert_eq!(system.verify(&statement, &residue), Err(expected));
}

/// The statements with another context, another target and another norm are also true.
#[test]
fn a_proof_belongs_to_one_statement() {
    proven!("statements", sample, statement, system, proof);
    assert_eq!(system.verify(&statement, &proof), Ok(()));
    let mut other = Sample::new("statements", 3, DEGREE, 40_000);
    other.witness[5].0[0] += 1;
    other.aim();
    let (relation, moved) = (sample.relation(), other.relation());
    for (norm_sq, relation, witness, context) in [
        (40_000, &relation, &sample.witness, "another context"),
        (40_000, &moved, &other.witness, "context"),
        (40_001, &relation, &sample.witness, "context"),
    ] {
        let context = context.as_bytes().to_vec();
        let statement = Columns::new(norm_sq, Profile::Core128, projections(0), relation, context);
        let statement = statement.expect("within limits");
        let system = System::on(&statement.bounds(), KERNELS.measured()).expect("short enough");
        assert_eq!(statement.check(witness, Exec::serial()), Ok(()));
        assert!(system.verify(&statement, &proof).is_err(), "{norm_sq}");
    }
}
