//! The cost table that the simulator charges for coding: the same operations over a grid of sizes.

use super::ristretto::Bench;
use super::{Shape, rs};
use crate::harness;
use alphorn_exec::Backend;
use alphorn_rlnc::{Cut, SHARD_BYTES_MAX, Strategy};
use alphorn_scheme::model::{CodeCost, CodeOp, CodeTable, FigureKind, SCHEMA};
use anyhow::{Context, Result};

/// Payload sizes of the grid in bytes: a small block, a megabyte, the maximum that a slot may carry by
/// default.
const PAYLOADS: [usize; 3] = [118_750, 1_000_000, 16_000_000];
/// Chunks of a generation, up to the maximum; those of the policy are included.
const CHUNKS: [u16; 4] = [8, 16, 32, 64];
/// Rows of a combination.
const ROWS: [u16; 4] = [1, 8, 32, 64];
/// Data shards, up to the maximum.
const SHARDS: [u16; 3] = [16, 64, 256];
/// Chunks or shards verified in one call.
const BATCHES: [usize; 3] = [1, 10, 64];

/// Measures the grid with one kernel and writes it as JSON.
pub(super) fn table(backend: Backend, bench: &harness::Bench) -> Result<String> {
    let mut ops = Vec::new();
    for bytes in PAYLOADS {
        ops.extend(rlnc(backend, bytes)?);
        ops.extend(reed_solomon(bytes)?);
    }
    ops.sort_by_key(|row| (row.op, row.n, row.m));
    level(&mut ops);
    let table = CodeTable {
        schema: SCHEMA,
        machine: bench.machine.line(),
        kind: FigureKind::Measured,
        ops,
    };
    table.check().context("this program's own cost table")?;
    Ok(serde_json::to_string_pretty(&table)? + "\n")
}

/// Makes times monotonic: no work takes less than a part of it, despite noise in nearly equal times.
fn level(ops: &mut [CodeCost]) {
    for at in 0..ops.len() {
        let (before, rest) = ops.split_at_mut(at);
        let row = &mut rest[0];
        let parts = before.iter().filter(|part| part.is_part_of(row));
        row.ns = parts.map(|part| part.ns).max().unwrap_or(0).max(row.ns);
    }
}

/// Builds one row. A code holds the payload, its chunks, and its working memory: about three times the
/// bytes.
fn row(op: CodeOp, n: usize, bytes: usize, ns: f64) -> CodeCost {
    CodeCost {
        op,
        n: n as u64,
        m: bytes as u64,
        ns: ns as u64,
        memory_bytes: 3 * bytes as u64,
    }
}

fn rlnc(backend: Backend, bytes: usize) -> Result<Vec<CodeCost>> {
    let auto = Cut::auto(Strategy::Rlnc, bytes).chunks;
    let mut rows = Vec::new();
    for chunks in CHUNKS {
        let mut bench = Bench::new(backend, &Shape::of_chunks(bytes, chunks))?;
        let mut add = |op, n, ns| rows.push(row(op, n, bytes, ns));
        add(CodeOp::RlncCommit, chunks.into(), bench.propose());
        add(CodeOp::RlncDecode, chunks.into(), bench.decode());
        // Chunks of the length that the policy cuts, or more of them if more are combined.
        for held in ROWS.into_iter().filter(|held| auto.max(*held) == chunks) {
            add(CodeOp::RlncRecode, held.into(), bench.recode(held));
        }
        if auto == chunks {
            for count in BATCHES {
                add(CodeOp::RlncVerify, count, bench.verify(count));
            }
        }
    }
    Ok(rows)
}

fn reed_solomon(bytes: usize) -> Result<Vec<CodeCost>> {
    let mut rows = Vec::new();
    for data in SHARDS {
        // If this is too few to carry the payload, the minimum number that can is used.
        let least = bytes.div_ceil(SHARD_BYTES_MAX as usize);
        let cut = Cut::rs(data.max(u16::try_from(least)?));
        let bench = rs::Bench::new(bytes, cut)?;
        rows.push(row(CodeOp::RsEncode, data.into(), bytes, bench.encode()));
        rows.push(row(CodeOp::RsDecode, data.into(), bytes, bench.decode()?));
    }
    let bench = rs::Bench::new(bytes, Cut::auto(Strategy::Rs, bytes))?;
    for count in BATCHES {
        rows.push(row(CodeOp::RsVerify, count, bytes, bench.verify(count)?));
    }
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn noise_is_levelled_and_cuts_are_not() {
        let row = |op, n, m, ns| CodeCost {
            op,
            n,
            m,
            ns,
            memory_bytes: 0,
        };
        let mut ops = [
            row(CodeOp::RlncCommit, 8, 10, 90),
            row(CodeOp::RlncCommit, 64, 10, 70),
            row(CodeOp::RlncVerify, 1, 10, 40),
            row(CodeOp::RlncVerify, 1, 20, 50),
            row(CodeOp::RlncVerify, 10, 10, 39),
            row(CodeOp::RlncVerify, 10, 20, 60),
        ];
        level(&mut ops);
        assert_eq!(ops.map(|row| row.ns), [90, 70, 40, 50, 40, 60]);
    }
}
