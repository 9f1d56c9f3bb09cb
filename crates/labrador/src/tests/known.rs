//! Frozen answers: parameters, challenges and a whole proof. A kernel, a thread or another machine
//! must not change a byte; a change here is a change of the format and of its version.

use super::*;
use crate::System;
use crate::schedule::{PublicBounds, Schedule};
use crate::transcript::Transcript;

fn digest(data: &[u8]) -> String {
    let mut transcript = Transcript::new("known answers");
    transcript.absorb("data", data);
    transcript
        .state()
        .iter()
        .map(|b| format!("{b:02x}"))
        .collect()
}

#[test]
fn schedules_are_frozen() {
    let expected = [
        (
            2,
            8,
            1 << 12,
            "89316842da84d3b0d744c6237b00ab73d067c5c36e9653671d56196e1934fa47",
        ),
        (
            38,
            10_000,
            1 << 38,
            "13762c718b0b33fdee298d59198809bc3b3fc18082e3c74d220ce35d1b85851b",
        ),
    ];
    for (pieces, rank, norm_sq, known) in expected {
        let bounds = PublicBounds {
            pieces,
            rank,
            norm_sq,
            extracted_norm_sq: None,
            openings: 1,
            quadratic: true,
            profile: Profile::Core128,
        };
        let schedule = Schedule::derive(&bounds).expect("short enough");
        assert_eq!(digest(&schedule.encode()), known, "{pieces} x {rank}");
    }
}

#[test]
fn challenges_are_frozen() {
    let coefficients: Vec<u8> = (0..20)
        .map(|i| crate::challenge::challenge(&Seed::of_name(&format!("known {i}"))))
        .flat_map(|c| c.0.map(|x| x as u8))
        .collect();
    assert_eq!(
        digest(&coefficients),
        "80875e10dab7fce7508bd03e6d218fb83a376d59e947a0c1f17c067c37e14a86"
    );
}

#[test]
fn proofs_are_frozen() {
    let (statement, witness) = sample("known", 2, 8, 4);
    let system = System::new(&statement.bounds()).expect("short enough");
    let proof = system
        .prove(&statement, &witness[..])
        .expect("a true statement");
    assert_eq!(
        digest(&proof),
        "ca2a0b40e445a4d33bbde960abe4bcc66095fa2fe8ab76a600887ab90a95d410"
    );
}
