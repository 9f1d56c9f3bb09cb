//! The cost table that the simulator charges for coding: the same operations over a grid of sizes.

use super::clock::Times;
use super::ristretto::Bench;
use super::{Shape, rs};
use crate::machine::Machine;
use alphorn_exec::Backend;
use alphorn_rlnc::{Cut, Strategy};
use alphorn_scheme::model::{CodeCost, CodeOp, CodeTable, FigureKind, SCHEMA};
use anyhow::{Context, Result};

/// Payloads of the grid in bytes: a small block, a megabyte, the most that a slot may carry by default.
const PAYLOADS: [usize; 3] = [118_750, 1_000_000, 16_000_000];

/// Measures the grid with one kernel and writes it as JSON.
pub(super) fn table(backend: Backend, machine: &Machine, seed: u64) -> Result<String> {
    let mut ops = Vec::new();
    for bytes in PAYLOADS {
        ops.extend(rlnc(backend, bytes, seed)?);
        ops.extend(reed_solomon(bytes, seed)?);
    }
    ops.sort_by_key(|row| (row.op, row.n, row.m));
    let table = CodeTable {
        schema: SCHEMA,
        machine: machine.line(),
        kind: FigureKind::Measured,
        ops,
    };
    table.check().context("this program's own cost table")?;
    Ok(serde_json::to_string_pretty(&table)? + "\n")
}

/// One row; a code holds the payload, its chunks, and what it works on: about three times the bytes.
fn row(op: CodeOp, n: usize, bytes: usize, times: Times) -> CodeCost {
    CodeCost {
        op,
        n: n as u64,
        m: bytes as u64,
        ns: times.median_ns as u64,
        memory_bytes: 3 * bytes as u64,
    }
}

fn rlnc(backend: Backend, bytes: usize, seed: u64) -> Result<Vec<CodeCost>> {
    let shape = Shape::cut(bytes, Cut::auto(Strategy::Rlnc, bytes));
    let pieces = shape.pieces();
    let mut bench = Bench::new(backend, &shape, seed)?;
    let mut rows = vec![row(CodeOp::RlncCommit, pieces, bytes, bench.propose())];
    for count in [1, 10, 64] {
        let times = bench.verify(count, None).0;
        rows.push(row(CodeOp::RlncVerify, count, bytes, times));
    }
    let (recode, decode) = bench.recode_and_decode();
    rows.push(row(
        CodeOp::RlncRecode,
        usize::from(shape.cut.chunks),
        bytes,
        recode,
    ));
    rows.push(row(CodeOp::RlncDecode, pieces, bytes, decode));
    Ok(rows)
}

fn reed_solomon(bytes: usize, seed: u64) -> Result<Vec<CodeCost>> {
    let shape = Shape::cut(bytes, Cut::auto(Strategy::Rlnc, bytes));
    let data = usize::from(Cut::auto(Strategy::Rs, bytes).chunks);
    let (ops, _) = rs::ops(&shape, seed)?;
    let named = |name: &str| {
        ops.iter()
            .find(|op| op.name == name)
            .map(|op| op.times)
            .context("an operation of Reed-Solomon is missing")
    };
    Ok(vec![
        row(CodeOp::RsEncode, data, bytes, named("rs_encode")?),
        row(CodeOp::RsVerify, 1, bytes, named("rs_verify")?),
        row(CodeOp::RsDecode, data, bytes, named("rs_decode_checked")?),
    ])
}
