//! Frozen answers: parameters, challenges and whole proofs. A kernel, a thread or another host must not
//! change a byte; a change here is a change of the format and of its version.

use super::*;
use crate::schedule::Schedule;
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

/// The schedules of Falcon-512.
#[test]
fn schedules_are_frozen() {
    let digests = [(100, 0), (600, 1), (10_000, 2)].map(|(columns, blocks)| {
        let profile = Profile::Core128;
        let bounds = Columns::bounds_for(columns, 512, 34_034_726, profile, projections(blocks));
        let schedule = Schedule::derive(&bounds.expect("within limits"));
        digest(&schedule.expect("short enough").encode())
    });
    assert_eq!(
        digests,
        [
            "eeacae71ecf15500155939d3f0dbc5d91e710c951aaf780d8f5143a322cf6f67",
            "4c9639cbf04240c13cee7dd00804c9e0c5beb991089cbec56e8c3a208dcf9556",
            "bc5cb6b19160af7d5ed2cc83272e3bacbb08b8ff0f4639ad4c4c2b1fc84bf10f",
        ]
    );
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

/// Proofs with one piece of rows and with several, with families of forms, and with a block projection after the
/// first level.
#[test]
fn proofs_are_frozen() {
    let digests =
        [(3, 128, 0), (40, 64, 0), (400, 64, 1), (1540, 64, 0)].map(|(columns, degree, blocks)| {
            let sample = Sample::new("known", columns, degree, 40_000);
            let relation = sample.relation();
            let statement = statement(&sample, &relation, blocks);
            let bounds = statement.bounds();
            let system = System::on(&bounds, KERNELS.measured()).expect("short enough");
            let proof = system.prove(&statement, &sample.witness);
            digest(&proof.expect("a true statement"))
        });
    assert_eq!(
        digests,
        [
            "08938644a1dc56fc7b0d570fa812c3a2efc59b482d6e4ba07d72e4a93613b35b",
            "dd2861bfe3f051be3a303f3b287db59a738d9368df2bc5a4108cddf0dd59c661",
            "32e364798f4c9ed86e6743b1d5631b617fdb4d3217d37955eeeb410b1fdb423c",
            "33777d2a8937ff6618b4d85ea011038aef0bd22f967c5908196f78fe0967d569",
        ]
    );
}
