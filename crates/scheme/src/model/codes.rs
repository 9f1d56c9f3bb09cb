//! Cost tables of codes: what a broadcast's coding work takes on a machine.
//!
//! A code has no keys, signatures or evidence, so its table is one of its own and not a part of a
//! [`CostTable`](super::CostTable); the form of a row, the order and the interpolation are the same.

use super::table::{FigureKind, ROWS_MAX, SCHEMA, TableError, bilinear};
use crate::Cost;
use serde::{Deserialize, Serialize};

/// Work of a code; m is always the bytes of the payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CodeOp {
    /// Commit to the source chunks of the random linear code; n = chunks.
    RlncCommit,
    /// Verify chunks of one broadcast in one batch; n = chunks.
    RlncVerify,
    /// Draw one combination; n = rows combined.
    RlncRecode,
    /// Solve for the payload and check it; n = chunks.
    RlncDecode,
    /// Cut, encode and hash the shards of Reed-Solomon; n = data shards.
    RsEncode,
    /// Verify shards; n = shards.
    RsVerify,
    /// Decode, encode again, and compare the root; n = data shards.
    RsDecode,
}

impl CodeOp {
    /// Every operation, in order.
    pub const ALL: [CodeOp; 7] = [
        CodeOp::RlncCommit,
        CodeOp::RlncVerify,
        CodeOp::RlncRecode,
        CodeOp::RlncDecode,
        CodeOp::RsEncode,
        CodeOp::RsVerify,
        CodeOp::RsDecode,
    ];

    /// The name in cost tables, traces and metrics.
    pub fn name(self) -> &'static str {
        match self {
            CodeOp::RlncCommit => "rlnc_commit",
            CodeOp::RlncVerify => "rlnc_verify",
            CodeOp::RlncRecode => "rlnc_recode",
            CodeOp::RlncDecode => "rlnc_decode",
            CodeOp::RsEncode => "rs_encode",
            CodeOp::RsVerify => "rs_verify",
            CodeOp::RsDecode => "rs_decode",
        }
    }
}

/// Time and memory of one operation at one size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CodeCost {
    /// The operation.
    pub op: CodeOp,
    /// Its first size, see [`CodeOp`].
    pub n: u64,
    /// Bytes of the payload.
    pub m: u64,
    /// Nanoseconds of one core.
    pub ns: u64,
    /// Peak working memory in bytes.
    pub memory_bytes: u64,
}

/// Costs of coding on a machine, as `bench broadcast --emit-costs` writes them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CodeTable {
    /// Version of this format.
    pub schema: u32,
    /// The machine, kernel and commit in words.
    pub machine: String,
    /// Where the figures come from.
    pub kind: FigureKind,
    /// Times, ascending in (op, n, m).
    pub ops: Vec<CodeCost>,
}

impl CodeTable {
    /// Reads and checks a table.
    ///
    /// # Errors
    /// [`TableError`] for bytes of another form, another version, too many rows or rows out of order.
    pub fn from_json(text: &str) -> Result<Self, TableError> {
        let table: CodeTable = serde_json::from_str(text)?;
        table.check()?;
        Ok(table)
    }

    /// Checks version, number and order of rows.
    ///
    /// # Errors
    /// [`TableError`].
    pub fn check(&self) -> Result<(), TableError> {
        if self.schema != SCHEMA {
            return Err(TableError::Schema(self.schema));
        }
        if self.ops.len() > ROWS_MAX {
            return Err(TableError::Rows(self.ops.len()));
        }
        let key = |row: &CodeCost| (row.op, row.n, row.m);
        let disorder = |pair: &[CodeCost]| key(&pair[0]) >= key(&pair[1]);
        match self.ops.windows(2).position(disorder) {
            Some(i) => Err(TableError::Order(i + 1)),
            None => Ok(()),
        }
    }

    /// Cost of an operation, interpolated as in [`CostTable::cost`](super::CostTable::cost); nothing
    /// where the table has no row of it.
    pub fn cost(&self, op: CodeOp, n: u64, m: u64) -> Cost {
        let rows = self.ops.iter().filter(|row| row.op == op);
        let points: Vec<(u64, u64, Cost)> = rows
            .map(|row| {
                let cost = Cost {
                    ns: row.ns,
                    memory_bytes: row.memory_bytes,
                };
                (row.n, row.m, cost)
            })
            .collect();
        bilinear(&points, n, m)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> CodeTable {
        let row = |op, n, m, ns| CodeCost {
            op,
            n,
            m,
            ns,
            memory_bytes: m,
        };
        CodeTable {
            schema: SCHEMA,
            machine: "none: round figures".into(),
            kind: FigureKind::Modelled,
            ops: vec![
                row(CodeOp::RlncVerify, 1, 1000, 100),
                row(CodeOp::RlncVerify, 1, 2000, 200),
                row(CodeOp::RlncVerify, 3, 1000, 120),
                row(CodeOp::RlncVerify, 3, 2000, 240),
                row(CodeOp::RsVerify, 1, 1000, 7),
            ],
        }
    }

    #[test]
    fn costs_lie_between_their_neighbours() {
        let table = table();
        assert_eq!(table.cost(CodeOp::RlncVerify, 1, 1500).ns, 150);
        assert_eq!(table.cost(CodeOp::RlncVerify, 2, 1500).ns, 165);
        assert_eq!(table.cost(CodeOp::RlncVerify, 2, 1500).memory_bytes, 1500);
        assert_eq!(table.cost(CodeOp::RsVerify, 9, 9).ns, 7);
        assert_eq!(table.cost(CodeOp::RsDecode, 9, 9), Cost::default());
    }

    #[test]
    fn tables_are_checked() {
        let good = table();
        let text = serde_json::to_string(&good).unwrap();
        assert_eq!(CodeTable::from_json(&text).unwrap(), good);
        let error = |change: fn(&mut CodeTable)| {
            let mut table = table();
            change(&mut table);
            table.check().unwrap_err().to_string()
        };
        assert!(error(|t| t.schema = 9).contains("schema 9"));
        assert!(error(|t| t.ops.swap(0, 3)).contains("row"));
        assert!(error(|t| t.ops.resize(ROWS_MAX + 1, t.ops[0])).contains("4097 rows"));
        assert!(CodeTable::from_json(&text.replacen("ops", "other", 1)).is_err());
    }

    #[test]
    fn names_are_those_of_the_format() {
        for op in CodeOp::ALL {
            let json = serde_json::to_value(op).unwrap();
            assert_eq!(json, op.name());
        }
    }
}
