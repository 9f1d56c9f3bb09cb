//! Cost tables of codes: the cost of a broadcast's coding work on a host.
//!
//! A code has no keys, signatures or evidence, so it has a separate table that is not part of a
//! [`CostTable`](super::CostTable). The row format, order and interpolation are the same.

use super::error::TableError;
use super::rows::{self, Row};
use super::table::FigureKind;
use crate::Cost;
use serde::{Deserialize, Serialize};

/// Work of a code; m is always the payload size in bytes. Costs that depend on the length of a chunk whose number is
/// not n (verification, combinations) are those of the cut of `Cut::auto`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CodeOp {
    /// Commit to the source chunks of the random linear code; n = chunks.
    RlncCommit,
    /// Verify chunks of one broadcast in one batch; n = chunks.
    RlncVerify,
    /// Draw one combination; n = rows combined, of as many chunks as the cut has, or of n if n is larger.
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

    /// Name in cost tables, traces and metrics.
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

    /// Whether n counts the items processed. Otherwise it is the number of pieces that the payload is cut into, and
    /// more of them may be cheaper.
    fn counts(self) -> bool {
        matches!(
            self,
            CodeOp::RlncVerify | CodeOp::RlncRecode | CodeOp::RsVerify
        )
    }
}

/// Time and memory of a code operation; [`CodeOp`] defines n and m.
pub type CodeCost = Row<CodeOp>;

impl CodeCost {
    /// Whether the work of this row is part of, or equal to, that of the other one.
    pub fn is_part_of(&self, other: &CodeCost) -> bool {
        let n = match self.op.counts() {
            true => self.n <= other.n,
            false => self.n == other.n,
        };
        self.op == other.op && n && self.m <= other.m
    }
}

/// Costs of coding on a host, as written by `bench broadcast --emit-costs`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CodeTable {
    /// Version of this format.
    pub schema: u32,
    /// Description of the machine, kernel and commit.
    pub machine: String,
    /// Source of the figures.
    pub kind: FigureKind,
    /// Times, ascending in (op, n, m).
    pub ops: Vec<CodeCost>,
}

impl CodeTable {
    /// Reads and checks a table.
    ///
    /// # Errors
    /// [`TableError`] for bytes in another format, another version, too many rows or rows out of order.
    pub fn from_json(text: &str) -> Result<Self, TableError> {
        let table: CodeTable = serde_json::from_str(text)?;
        table.check()?;
        Ok(table)
    }

    /// Checks the version, number and order of rows, that each operation has a row for every combination of its n and
    /// m, and that no work costs less than a part of it.
    ///
    /// # Errors
    /// [`TableError`].
    pub fn check(&self) -> Result<(), TableError> {
        rows::check(self.schema, &self.ops, 0)?;
        for op in CodeOp::ALL {
            let rows: Vec<&CodeCost> = self.ops.iter().filter(|row| row.op == op).collect();
            // Rows ascend in (n, m), as checked above, so those of one n are adjacent.
            let sizes = |group: &[&CodeCost]| group.iter().map(|row| row.m).collect::<Vec<u64>>();
            let groups: Vec<Vec<u64>> = rows.chunk_by(|a, b| a.n == b.n).map(sizes).collect();
            if groups.is_empty() || groups.windows(2).any(|pair| pair[0] != pair[1]) {
                return Err(TableError::Product(op.name()));
            }
            // Quadratic, but a table has at most 4096 rows.
            let takes_less = |row: &&CodeCost| {
                let dearer =
                    |part: &&CodeCost| part.ns > row.ns || part.memory_bytes > row.memory_bytes;
                rows.iter().any(|part| part.is_part_of(row) && dearer(part))
            };
            if let Some(CodeCost { n, m, .. }) = rows.iter().copied().find(takes_less) {
                let (op, n, m) = (op.name(), *n, *m);
                return Err(TableError::Falls { op, n, m });
            }
        }
        Ok(())
    }

    /// Cost of an operation, interpolated as in [`CostTable::cost`](super::CostTable::cost).
    pub fn cost(&self, op: CodeOp, n: u64, m: u64) -> Cost {
        rows::cost(&self.ops, op, n, m)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::SCHEMA;
    use crate::model::error::ROWS_MAX;

    /// A nanosecond for ten bytes, times one plus a fifth for each item processed.
    fn table() -> CodeTable {
        let row = |op, n, m| CodeCost {
            op,
            n,
            m,
            ns: m / 10 + (n - 1) * m / 50,
            memory_bytes: m,
        };
        let rows = |op| [(1, 1000), (1, 2000), (3, 1000), (3, 2000)].map(|(n, m)| row(op, n, m));
        CodeTable {
            schema: SCHEMA,
            machine: "none: round figures".into(),
            kind: FigureKind::Modelled,
            ops: CodeOp::ALL.into_iter().flat_map(rows).collect(),
        }
    }

    #[test]
    fn costs_lie_between_their_neighbours() {
        let table = table();
        assert_eq!(table.cost(CodeOp::RlncVerify, 1, 1500).ns, 150);
        assert_eq!(table.cost(CodeOp::RlncVerify, 2, 1500).ns, 180);
        assert_eq!(table.cost(CodeOp::RlncVerify, 2, 1500).memory_bytes, 1500);
        assert_eq!(table.cost(CodeOp::RsVerify, 5, 1000).ns, 180);
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

    /// Lines through a corner that has no row led to 0, and so did an operation without any.
    #[test]
    fn an_operation_has_each_n_with_each_m() {
        for at in 0..table().ops.len() {
            let mut holed = table();
            let op = holed.ops.remove(at).op.name();
            let error = holed.check().unwrap_err().to_string();
            assert!(error.contains(&format!("rows of {op} are not")), "{error}");
        }
        let mut without = table();
        without.ops.retain(|row| row.op != CodeOp::RsDecode);
        let error = without.check().unwrap_err().to_string();
        assert!(error.contains("rows of rs_decode are not"), "{error}");
    }

    #[test]
    fn no_work_takes_less_than_a_part_of_it() {
        for op in CodeOp::ALL {
            let changed = |n: u64, m: u64, ns: u64| {
                let mut table = table();
                let mut rows = table.ops.iter_mut();
                let row = rows.find(|row| (row.op, row.n, row.m) == (op, n, m));
                row.unwrap().ns = ns;
                table.check().map_err(|error| error.to_string())
            };
            let name = op.name();
            let falls = |n, m| {
                Err(format!(
                    "cost table: {name} of n = {n}, m = {m} takes less than a part of it"
                ))
            };
            assert_eq!(changed(1, 2000, 99), falls(1, 2000));
            // More chunks of the same payload may take less, more chunks to verify cannot.
            let fewer = if op.counts() { falls(3, 1000) } else { Ok(()) };
            assert_eq!(changed(3, 1000, 90), fewer);
        }
    }

    #[test]
    fn names_are_those_of_the_format() {
        for op in CodeOp::ALL {
            let json = serde_json::to_value(op).unwrap();
            assert_eq!(json, op.name());
        }
    }
}
