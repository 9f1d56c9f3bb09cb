//! Proof vectors: the contents of the fields, and bytes with one defect each.

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::*;
use crate::columns::layout::COEFFICIENT_BITS;
use crate::projection::{LIFTS, ROWS};
use crate::schedule::{Level, Schedule, Tail};
use crate::wire::{HEADER_BYTES, MAGIC, Receiver, transcript};

#[path = "../../../../../vectors/formats/writer.rs"]
mod writer;
use writer::{Vectors, with};

const NORM_SQ: u64 = 34_034_726;

/// Inputs of a decoder: the numbers of `alphorn lattice params --json` that decide lengths and codes.
fn given(signatures: usize, schedule: &Schedule) -> Value {
    let variances = |all: Vec<u128>| all.iter().map(u128::to_string).collect::<Vec<_>>();
    let level = |level: &Level| {
        json!({
            "blocks": level.images.is_some(), "kappa1": level.kappa_outer,
            "parts": level.images_sent(),
            "projection_variances": variances(level.projection_variances()),
        })
    };
    let tail = |tail: &Tail| {
        json!({
            "r": tail.cut.pieces, "n": tail.cut.rank, "kappa": tail.kappa,
            "parts": tail.parts.count,
            "projection_variances": variances(vec![tail.projection_variance()]),
            "z_variance": tail.z_variance.to_string(),
        })
    };
    let levels = schedule.levels.iter().map(level);
    let levels: Vec<Value> = levels.chain([tail(&schedule.tail)]).collect();
    json!({"n": signatures, "profile": schedule.profile.name(), "levels": levels})
}

/// Reads the fields of a proof without judging them.
struct Fields<'a> {
    receiver: Receiver<'a>,
    says: Vec<Value>,
}

impl Fields<'_> {
    /// Records the digest of eight-byte numbers.
    fn note(&mut self, field: &str, numbers: impl IntoIterator<Item = i64>) {
        let mut hash = Sha256::new();
        let mut count = 0;
        for x in numbers {
            hash.update(x.to_le_bytes());
            count += 1;
        }
        let digest = hex::encode(hash.finalize());
        self.says.push(json!([field, count, digest]));
    }

    fn byte(&mut self, field: &'static str) -> Result<(), Reject> {
        let byte = self.receiver.byte(field)?;
        self.note(field, [i64::from(byte)]);
        Ok(())
    }

    /// Reads `count` residues. Elements are read as residues too.
    fn residues(&mut self, field: &'static str, count: usize) -> Result<(), Reject> {
        let residues = self.receiver.residues(field, count)?;
        self.note(field, residues.iter().map(|&x| x as i64));
        Ok(())
    }

    fn gaussian(
        &mut self,
        field: &'static str,
        count: usize,
        variance: u128,
    ) -> Result<(), Reject> {
        let numbers = self.receiver.gaussian(field, count, variance)?;
        self.note(field, numbers);
        Ok(())
    }

    fn projections(&mut self, images: usize, variances: &[u128]) -> Result<(), Reject> {
        for &variance in variances {
            self.byte("projection nonce")?;
            self.gaussian("projection", images * ROWS, variance)?;
        }
        Ok(())
    }

    fn lifts(&mut self) -> Result<(), Reject> {
        self.residues("lifts", LIFTS * (DEGREE - 1))
    }

    fn sumcheck(&mut self, columns: usize) -> Result<(), Reject> {
        let bits = 5 + columns.next_power_of_two().ilog2() as usize;
        for round in 0..COEFFICIENT_BITS + bits {
            let elements = if round < COEFFICIENT_BITS { 2 } else { 3 };
            self.residues("round", 3 * elements)?;
        }
        self.residues("value", 3)
    }

    fn all(mut self, columns: usize, schedule: &Schedule) -> Result<Vec<Value>, Reject> {
        for (i, level) in schedule.levels.iter().enumerate() {
            let outer = level.kappa_outer * DEGREE;
            if level.images.is_some() {
                self.residues("u0", outer)?;
                self.byte("blocks nonce")?;
            }
            self.residues("u1", outer)?;
            self.projections(level.images_sent(), &level.projection_variances())?;
            if i == 0 {
                self.sumcheck(columns)?;
            }
            self.lifts()?;
            self.residues("u2", outer)?;
            self.byte("challenge nonce")?;
        }
        let tail = &schedule.tail;
        self.residues("t", tail.kappa * tail.cut.pieces * DEGREE)?;
        self.projections(tail.parts.count, &[tail.projection_variance()])?;
        self.lifts()?;
        self.byte("challenge nonce")?;
        self.residues("h", (2 * tail.cut.pieces - 1) * DEGREE)?;
        self.gaussian("z", tail.cut.rank * DEGREE, tail.z_variance)?;
        self.receiver.finish()?;
        Ok(self.says)
    }
}

fn read(columns: usize, schedule: &Schedule, bytes: &[u8]) -> Result<Vec<Value>, Reject> {
    let start = transcript(Columns::ID, schedule);
    let receiver = Receiver::new(start, Columns::ID, schedule, bytes)?;
    let says = Vec::new();
    Fields { receiver, says }.all(columns, schedule)
}

fn class(error: &Reject) -> &'static str {
    match error {
        Reject::Length { .. } => "length",
        Reject::Header { .. } => "tag",
        Reject::NonCanonical { .. } => "canonical",
        other => panic!("{other} is no error of a format"),
    }
}

/// A statement as small as those of few signatures, and one in which all levels have pieces of their
/// own and the second has a block projection.
#[test]
fn formats_are_those_of_the_vectors() {
    let mut out = Vectors::default();
    for (columns, blocks) in [(3, 0), (512, 1)] {
        let sample = Sample::new("formats of proofs", columns, 512, NORM_SQ);
        let relation = sample.relation();
        let statement = statement(&sample, &relation, blocks);
        let system = System::on(&statement.bounds(), KERNELS.measured()).expect("short enough");
        let proof = (system.prove(&statement, &sample.witness)).expect("a true statement");
        assert_eq!(system.verify(&statement, &proof), Ok(()));
        let schedule = system.schedule();
        let given_name = format!("{columns} signatures");
        out.given
            .insert(given_name.clone(), given(columns, schedule));
        let given = Value::from(given_name);
        let title = format!("proof.{columns}");
        let fields = read(columns, schedule, &proof).expect("a proof");
        let says = json!({"front_end": Columns::ID, "fields": fields});
        out.valid(&title, "lattice_proof", &given, &proof, says);
        if blocks > 0 {
            continue;
        }
        let last = proof.len() - 1;
        assert!(proof[last] < 128, "a bit behind the last number");
        for (what, wrong) in [
            ("a byte more", [&proof[..], &[0]].concat()),
            ("cut off", proof[..1000].to_vec()),
            ("another version", with(&proof, 4, &[MAGIC[4] - 1])),
            ("another front end", with(&proof, 5, &[4])),
            (
                "a coefficient that is Q",
                with(&proof, HEADER_BYTES, &[0xc5, 255, 255, 255, 255, 255]),
            ),
            (
                "a bit behind the last number",
                with(&proof, last, &[proof[last] | 128]),
            ),
        ] {
            let error = read(columns, schedule, &wrong).expect_err(what);
            let refused = system.verify(&statement, &wrong).expect_err(what);
            assert_eq!(class(&refused), class(&error), "{what}");
            let title = format!("{title}: {what}");
            out.refused(&title, "lattice_proof", &given, &wrong, class(&error));
        }
    }
    out.check("lattice.json");
}
