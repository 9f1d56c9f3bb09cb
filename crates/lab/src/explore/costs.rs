//! Costs of the schemes: tables from files, or each scheme's own formula on this host's kernels.

use crate::error::{Error, Result};
use crate::input;
use crate::options::Common;
use crate::proof::{PresetName, proofs};
use alphorn_bls::Bls;
use alphorn_falcon::{Collections, Falcon, Flavour};
use alphorn_scheme::model::{
    CostTable, EvidenceBytes, FigureKind, Merged, OpCost, SCHEMA, TableSizes,
};
use alphorn_scheme::{Form, Layer, Op, Overlap, Scheme};
use alphorn_xmss::{Set, Xmss};
use anyhow::{Context, anyhow};
use std::path::Path;

/// Maximum size of a table file in bytes.
const FILE_BYTES_MAX: u64 = 4 << 20;

/// Items of a row, and pieces of a merge: both sides of its first step, as one merge takes seven.
const ITEMS: [u64; 9] = [1, 2, 7, 8, 16, 49, 64, 256, 4096];

/// Longest evidence that a table may specify. Longer lists are extrapolated linearly.
const EVIDENCE_BYTES_MAX: u64 = 16 << 20;

/// Signers of a row, per item or in total: both sides of the largest proof that merges.
const SIGNERS: [u64; 12] = [
    1, 128, 256, 512, 768, 769, 1024, 2048, 4096, 8192, 16_384, 32_768,
];

/// The costs of a scheme, in the forms that topologies use.
#[derive(Clone, Debug)]
pub(super) struct Costs {
    /// With evidence of cells as points or lists, or as given in a file.
    pub(super) table: CostTable,
    /// With evidence of cells as mergeable proofs, if the scheme supports that.
    pub(super) merging: Option<CostTable>,
}

impl Costs {
    /// Returns the form with levels, if there is one.
    pub(super) fn with_levels(&self) -> &CostTable {
        self.merging.as_ref().unwrap_or(&self.table)
    }
}

/// Whether evidence of cells is proofs that merge level by level.
pub(super) fn merges_cells(table: &CostTable) -> bool {
    let abilities = &table.abilities;
    abilities.form(Layer::Aggregate) == Form::Proof
        && abilities.overlap(Layer::Aggregate) == Overlap::Union
}

/// Reads a table from a file.
pub(super) fn from_file(path: &Path) -> Result<Costs> {
    let text = input::text(path, FILE_BYTES_MAX)?;
    Ok(Costs {
        table: CostTable::from_json(&text).with_context(|| path.display().to_string())?,
        merging: None,
    })
}

/// Returns the formula of a scheme by its name.
pub(super) fn own(name: &str, common: &Common) -> Result<Costs> {
    let mut merging = None;
    let table = match name {
        "bls" => {
            let kernel = common.kernel_of(&alphorn_bls::KERNELS)?;
            let scheme = Bls::new(kernel, alphorn_bls::Costs::measure(kernel));
            of(&scheme, kernel.name(), None)
        }
        "falcon" => {
            let kernel = common.kernel_of(&alphorn_labrador::KERNELS)?;
            // A validator signs once per slot and role, with Falcon as with XMSS, so no salt has to be
            // sent.
            let scheme = Falcon::new(Collections::Proofs, kernel).with_flavour(Flavour::Slot);
            of(&scheme, kernel.name(), None)
        }
        "xmss" => {
            let kernel = common.kernel_of(&alphorn_stark::KERNELS)?;
            let proofs = proofs(Set::Compact, PresetName::Fast);
            let of = |scheme: Xmss| of(&scheme, kernel.name(), scheme.merged());
            merging = Some(of(Xmss::with_proofs_of_cells(proofs, kernel)));
            of(Xmss::with_proofs(proofs, kernel))
        }
        other => {
            let known = "bls, falcon and xmss have formulas, others need --costs FILE";
            return Err(Error::Usage(anyhow!("--scheme {other}: {known}")));
        }
    };
    for table in [&table].into_iter().chain(&merging) {
        table.check().context("this program's own cost table")?;
    }
    Ok(Costs { table, merging })
}

/// Evaluates the formula of a scheme at the sizes that occur in a network, interpolated linearly; also
/// the costs of its merges where they differ from other collections.
fn of<S: Scheme>(scheme: &S, kernel: &str, merged: Option<Merged>) -> CostTable {
    let sizes = scheme.sizes();
    // The longest evidence of a merging scheme consists of unmerged proofs, but what is made is one merge.
    let merges = scheme.abilities().form(Layer::Aggregate) == Form::Proof;
    let most = merged
        .filter(|_| merges)
        .map_or(u64::MAX, |merged| merged.bytes);
    let evidence = |layer| {
        let point = move |n| EvidenceBytes {
            layer,
            n,
            bytes: most.min(scheme.evidence_length(layer, n as u32).max_bytes() as u64),
        };
        let points = SIGNERS.into_iter().map(point);
        points.filter(|point| point.bytes <= EVIDENCE_BYTES_MAX)
    };
    let mut ops = Vec::new();
    for op in Op::ALL {
        for n in ITEMS {
            let seconds: Vec<u64> = match op {
                Op::Collect => SIGNERS.to_vec(),
                // Pieces alone, and with raw signatures among them.
                Op::Merge => [&[0], &SIGNERS[..]].concat(),
                Op::VerifyAggregates | Op::VerifyCollections => SIGNERS.map(|m| n * m).to_vec(),
                _ => vec![0],
            };
            ops.extend(seconds.into_iter().map(|m| {
                let cost = scheme.cost(op, n, m);
                OpCost {
                    op,
                    n,
                    m,
                    ns: cost.ns,
                    memory_bytes: cost.memory_bytes,
                }
            }));
        }
    }
    ops.sort_by_key(|row| (row.op, row.n, row.m));
    CostTable {
        schema: SCHEMA,
        scheme: scheme.name().to_owned(),
        machine: format!("the scheme's own formula, kernel {kernel}"),
        kind: FigureKind::Modelled,
        abilities: scheme.abilities(),
        sizes: TableSizes {
            public_key: sizes.public_key_bytes as u64,
            signature: sizes.signature_bytes as u64,
            duty_signature: sizes.duty_signature_bytes as u64,
            evidence: [Layer::Aggregate, Layer::Collection]
                .into_iter()
                .flat_map(evidence)
                .collect(),
        },
        merged,
        ops,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formulas_are_tables_that_say_what_the_schemes_say() {
        let stark = alphorn_exec::Backend::Portable;
        for set in [Set::Compact, Set::Prod] {
            of(&Xmss::new(set, stark), "portable", None)
                .check()
                .unwrap();
        }
        let bls = alphorn_exec::Backend::Portable;
        let bls = Bls::new(bls, alphorn_bls::Costs::measure(bls));
        of(&bls, "portable", None).check().unwrap();
        let kernel = alphorn_exec::Backend::Portable;
        let scheme = Falcon::new(Collections::Proofs, kernel);
        let table = of(&scheme, "portable", None);
        table.check().unwrap();
        for (op, n, m) in [
            (Op::Sign, 256, 0),
            (Op::Collect, 16, 2048),
            (Op::VerifyCollections, 16, 16 * 2048),
        ] {
            assert_eq!(table.cost(op, n, m).ns, scheme.cost(op, n, m).ns, "{op}");
        }
        let proofs = proofs(Set::Compact, PresetName::Fast);
        for scheme in [
            Xmss::with_proofs(proofs, stark),
            Xmss::with_proofs_of_cells(proofs, stark),
        ] {
            let merges = of(&scheme, "portable", scheme.merged());
            merges.check().unwrap();
            let cells = scheme.abilities().form(Layer::Aggregate) == Form::Proof;
            assert_eq!(merges_cells(&merges), cells);
            for pieces in [2, 7, 8] {
                for op in [Op::Merge, Op::Collect]
                    .into_iter()
                    .take(1 + usize::from(cells))
                {
                    let ns = merges.cost(op, pieces, 0).ns;
                    assert_eq!(ns, scheme.cost(op, pieces, 0).ns, "{op} of {pieces}");
                }
            }
            if cells {
                // As short as the bundle of a block, at every level, and never a list of proofs.
                let bytes = [Layer::Aggregate, Layer::Collection]
                    .map(|layer| [2048, 32_768].map(|n| merges.evidence_bytes(layer, n)));
                assert_eq!(bytes, [[merges.merged_bytes(0); 2]; 2]);
            }
            let one_proof = merges.evidence_bytes(Layer::Collection, 1024);
            assert!(
                merges.merged_bytes(16_384) <= one_proof,
                "a merge does not grow"
            );
        }
        let text = serde_json::to_string(&table).unwrap();
        assert_eq!(CostTable::from_json(&text).unwrap(), table);
    }
}
