//! Frozen answers: parameters, challenges and whole proofs. A kernel, a thread or another machine
//! must not change a byte; a change here is a change of the format and of its version.

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

/// Those of Falcon-512.
#[test]
fn schedules_are_frozen() {
    let digests = [(100, 0), (600, 1), (10_000, 2)].map(|(columns, blocks)| {
        let profile = Profile::Core128;
        let bounds = Columns::bounds_for(columns, 512, 34_034_726, profile, blocks);
        let schedule = Schedule::derive(&bounds.expect("within limits"));
        digest(&schedule.expect("short enough").encode())
    });
    assert_eq!(
        digests,
        [
            "3e7b221410ac387080dc05fc6dfaf987bb2408b6ff6d058939f0b2f1f785a3f1",
            "dd3713ed8cb06df203aee9af983b60fd1c40e17eee71aae42f61618e7cd86d2c",
            "65e8ca161134959c567f05309645949fe95c588f4271b6d57313adacd373a59b",
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

/// Of one piece of rows and of several, of families of forms, and with a block projection behind the first level.
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
            "547f9440a3725f93928d1264864d02b93925ae4b6c951b24b26af77d7c0eb87b",
            "dfb243431a92dbf13594582c6496d8d329b38380a026e1123ab128447f548519",
            "82c98b45d93e3c69578d53ce499ecb8b55520b40610ba96a8ba28d0aca33369b",
            "93c957b1ae51bdb925b488affdf94866fb70fb3f6d6ca64ce03fdf153adb2a6b",
        ]
    );
}
