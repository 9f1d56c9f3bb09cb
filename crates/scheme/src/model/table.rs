//! Cost tables: the cost of each operation of a scheme, and the sizes of its outputs.

use super::error::{SCHEMA, TableError};
use super::rows::{self, Row, interpolate};
use crate::{Abilities, Cost, Form, Layer, Op, Overlap, Security};
use alphorn_types::MULTIPLICITY_LIMIT;
use serde::{Deserialize, Serialize};

/// Source of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FigureKind {
    /// Measured by us on the named machine.
    Measured,
    /// Computed from a model.
    Modelled,
    /// Published by others.
    Cited,
}

impl FigureKind {
    /// Its name in files.
    pub fn name(self) -> &'static str {
        match self {
            FigureKind::Measured => "measured",
            FigureKind::Modelled => "modelled",
            FigureKind::Cited => "cited",
        }
    }
}

/// Time and memory of a scheme operation; [`Op`] defines n and m.
pub type OpCost = Row<Op>;

/// Size of evidence for one number of signers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EvidenceBytes {
    /// The layer.
    pub layer: Layer,
    /// Number of signers.
    pub n: u64,
    /// Bytes.
    pub bytes: u64,
}

/// Sizes of a scheme's objects in bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TableSizes {
    /// Public key.
    pub public_key: u64,
    /// Signature of a vote.
    pub signature: u64,
    /// Duty signature.
    pub duty_signature: u64,
    /// Evidence by layer and number of signers.
    pub evidence: Vec<EvidenceBytes>,
}

/// Evidence of merged collections, if its cost differs from that of a collection with as many signers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Merged {
    /// Maximum size of the evidence in bytes, whatever was merged.
    pub bytes: u64,
    /// Nanoseconds of one core to verify it, including the signatures in its message.
    pub verify_ns: u64,
}

/// Costs and sizes of a scheme on a host: charged by the simulator and swept by `explore`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CostTable {
    /// Version of this format.
    pub schema: u32,
    /// Name of the scheme.
    pub scheme: String,
    /// Description of the machine, kernel and commit.
    pub machine: String,
    /// Source of the figures.
    pub kind: FigureKind,
    /// The abilities of the scheme.
    pub abilities: Abilities,
    /// Sizes on the wire.
    pub sizes: TableSizes,
    /// Properties of merged collections; absent if they are like others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub merged: Option<Merged>,
    /// Times, ascending in (op, n, m).
    pub ops: Vec<OpCost>,
}

/// Bytes that the model needs for its tags, so none of its objects is shorter.
// A byte for the form and 32 for the tag.
const OBJECT_BYTES_MIN: u64 = 33;
/// Maximum size of an object in a table.
const OBJECT_BYTES_MAX: u64 = 16 << 20;

// Its text already includes the cause. The cause is no source, or an error chain would print it twice.
impl From<serde_json::Error> for TableError {
    fn from(error: serde_json::Error) -> Self {
        TableError::Json(error)
    }
}

impl CostTable {
    /// A made-up table of round figures, for examples and tests: signatures of 96 bytes, evidence that counts
    /// multiplicities, a microsecond per item. None of its figures is a measurement.
    pub fn example() -> Self {
        let row = |op| {
            [1, 1000].map(|n| OpCost {
                op,
                n,
                m: 0,
                ns: n * 1000,
                memory_bytes: n * 128,
            })
        };
        let evidence = |layer| EvidenceBytes {
            layer,
            n: 1,
            bytes: 96,
        };
        CostTable {
            schema: SCHEMA,
            scheme: "example".into(),
            machine: "none: round figures".into(),
            kind: FigureKind::Modelled,
            abilities: Abilities {
                unique: true,
                one_time: false,
                overlap: [Overlap::Counted { max: 15 }; 2],
                layers: [Form::Point; 2],
                committee_max: None,
                bundle_max: None,
                security: Security {
                    classical_bits: 0,
                    quantum_bits: 0,
                    assumption: "none: anyone can compute any tag".into(),
                    proven: "nothing".into(),
                },
            },
            sizes: TableSizes {
                public_key: 48,
                signature: 96,
                duty_signature: 96,
                evidence: vec![evidence(Layer::Aggregate), evidence(Layer::Collection)],
            },
            merged: None,
            ops: Op::ALL.into_iter().flat_map(row).collect(),
        }
    }

    /// Reads and checks a table.
    ///
    /// # Errors
    /// [`TableError`].
    pub fn from_json(text: &str) -> Result<Self, TableError> {
        let table: CostTable = serde_json::from_str(text)?;
        table.check()?;
        Ok(table)
    }

    /// Checks version, order and bounds.
    ///
    /// # Errors
    /// [`TableError`].
    pub fn check(&self) -> Result<(), TableError> {
        rows::check(self.schema, &self.ops, self.sizes.evidence.len())?;
        let within = |what, value: u64, min| {
            let max = OBJECT_BYTES_MAX;
            match (min..=max).contains(&value) {
                true => Ok(()),
                false => Err(TableError::Size {
                    what,
                    value,
                    min,
                    max,
                }),
            }
        };
        let size = |what, value| within(what, value, OBJECT_BYTES_MIN);
        // Keys of the model are numbers: no tag needs to fit.
        within("public_key", self.sizes.public_key, 1)?;
        size("signature", self.sizes.signature)?;
        size("duty_signature", self.sizes.duty_signature)?;
        if let Some(merged) = self.merged {
            size("merged", merged.bytes)?;
        }
        for layer in [Layer::Aggregate, Layer::Collection] {
            if let Overlap::Counted { max } = self.abilities.overlap(layer)
                && !(1..=MULTIPLICITY_LIMIT).contains(&max)
            {
                return Err(TableError::Multiplicity { layer, max });
            }
            let mut points = self
                .sizes
                .evidence
                .iter()
                .filter(|point| point.layer == layer)
                .peekable();
            if points.peek().is_none() {
                return Err(TableError::NoEvidence(layer));
            }
            points.try_for_each(|point| size("evidence", point.bytes))?;
        }
        Ok(())
    }

    /// Interpolated cost of an operation; zero if the table has no row for it.
    pub fn cost(&self, op: Op, n: u64, m: u64) -> Cost {
        rows::cost(&self.ops, op, n, m)
    }

    /// Sets the verification time of a duty signature in the table: what a mesh verifies before forwarding a message.
    pub fn verifying(mut self, ns: u64) -> Self {
        self.ops.retain(|row| row.op != Op::DutyVerify);
        self.ops.push(OpCost {
            op: Op::DutyVerify,
            n: 1,
            m: 0,
            ns,
            memory_bytes: 0,
        });
        // Restores the order that `check` demands and interpolation relies on.
        self.ops.sort_by_key(|row| (row.op, row.n, row.m));
        self
    }

    /// Size of a merge of collections with `n` signers in total, in bytes.
    pub fn merged_bytes(&self, n: u64) -> u64 {
        match self.merged {
            Some(merged) => merged.bytes,
            None => self.evidence_bytes(Layer::Collection, n),
        }
    }

    /// Nanoseconds of one core to verify such a merge.
    pub fn merged_verify_ns(&self, n: u64) -> u64 {
        match self.merged {
            Some(merged) => merged.verify_ns,
            None => self.cost(Op::VerifyCollections, 1, n).ns,
        }
    }

    /// Cost of a bundle of `n` collections with `m` signers in total. If the table has no row for it, that of a merge
    /// of as many, and of its verification.
    pub fn bundle_cost(&self, op: Op, n: u64, m: u64) -> Cost {
        if self.ops.iter().any(|row| row.op == op) {
            return self.cost(op, n, m);
        }
        match op {
            Op::VerifyBundle => Cost {
                ns: self.merged_verify_ns(m),
                ..self.cost(Op::VerifyCollections, 1, m)
            },
            // All pieces are proofs: no raw signatures are among them.
            _ => self.cost(Op::Merge, n, 0),
        }
    }

    /// Size of evidence over `n` signers, in bytes.
    pub fn evidence_bytes(&self, layer: Layer, n: u64) -> u64 {
        let points = self
            .sizes
            .evidence
            .iter()
            .filter(|point| point.layer == layer);
        let mut line: Vec<(u64, u64)> = points.map(|point| (point.n, point.bytes)).collect();
        line.sort_unstable();
        // The line goes on beyond its last point and may leave the bounds there.
        interpolate(&line, n).clamp(OBJECT_BYTES_MIN, OBJECT_BYTES_MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_checked() {
        let good = CostTable::example();
        let text = serde_json::to_string(&good).unwrap();
        assert_eq!(CostTable::from_json(&text).unwrap(), good);
        let bad = |change: fn(&mut CostTable)| {
            let mut table = CostTable::example();
            change(&mut table);
            table.check().unwrap_err().to_string()
        };
        assert_eq!(
            bad(|t| t.schema = 2),
            "cost table has schema 2, this program reads 1"
        );
        assert!(bad(|t| t.ops.swap(0, 1)).contains("row 1"));
        assert!(bad(|t| t.ops[1] = t.ops[0]).contains("row 1"));
        assert!(bad(|t| t.sizes.evidence.truncate(1)).contains("Collection"));
        assert!(bad(|t| t.sizes.signature = 8).contains("signature = 8 bytes, allowed 33"));
        assert!(bad(|t| t.sizes.public_key = 0).contains("public_key = 0 bytes, allowed 1"));
        let mut short = CostTable::example();
        short.sizes.public_key = 32;
        assert!(short.check().is_ok(), "keys of 32 bytes");
        for max in [0, 16] {
            let mut table = CostTable::example();
            table.abilities.overlap[1] = Overlap::Counted { max };
            let error = table.check().unwrap_err().to_string();
            assert!(error.contains(&format!("Collection counts up to {max}")));
        }
        let merged = |bytes| {
            Some(Merged {
                bytes,
                verify_ns: 7,
            })
        };
        let mut own = CostTable::example();
        assert_eq!(
            own.merged_bytes(9),
            own.evidence_bytes(Layer::Collection, 9)
        );
        let verify_ns = own.cost(Op::VerifyCollections, 1, 9).ns;
        assert_eq!(own.merged_verify_ns(9), verify_ns);
        own.merged = merged(150_000);
        own.check().unwrap();
        assert_eq!((own.merged_bytes(9), own.merged_verify_ns(9)), (150_000, 7));
        let text = serde_json::to_string(&own).unwrap();
        assert_eq!(CostTable::from_json(&text).unwrap(), own);
        own.merged = merged(32);
        let error = own.check().unwrap_err().to_string();
        assert!(error.contains("merged = 32 bytes, allowed 33"), "{error}");
        assert!(bad(|t| t.ops.resize(5000, t.ops[0])).contains("at most 4096"));
        assert!(CostTable::from_json("{}").is_err());
        let text = serde_json::to_string(&good).unwrap();
        assert!(CostTable::from_json(&text.replacen("\"schema\"", "\"other\"", 1)).is_err());
    }
}
