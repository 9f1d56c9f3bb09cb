//! The number of elements in each part of a succinct proof.

use super::reduce::UNION_DEGREE;
use crate::extension::DEGREE;
use crate::hash::DIGEST;
use crate::poseidon_gkr;
use crate::relation::Relation;
use crate::whir::Preset;

/// A part of a proof and its elements of F_p.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartSize {
    /// Name of the part.
    pub name: &'static str,
    /// Maximum number of elements, 31 bits each.
    pub elements: usize,
}

/// Number of extension elements for bus, registry and sums of outputs, for permutations, and for the union.
pub(super) fn argued(relation: &Relation) -> (usize, usize, usize) {
    let shape = &relation.shape;
    // The number of used groups does not matter, because the shape is fixed.
    let parts = relation.parts(0);
    let bus = shape.bus().sent() + relation.registry_width + 1 + parts.len();
    let permutations = parts.iter().map(|part| poseidon_gkr::sent(&part.units));
    let union = 1 + UNION_DEGREE * shape.column_log2() + 2;
    (bus, permutations.sum(), union)
}

/// The parts of a proof of this many groups in transcript order, with parts of one kind merged. Their sum is
/// [`super::succinct_elements`].
pub fn succinct_parts(relation: &Relation, preset: &Preset, groups: usize) -> Vec<PartSize> {
    let shape = &relation.shape;
    let (bus, permutations, union) = argued(relation);
    let (mut commitments, mut rounds, mut rows, mut paths, mut work) = (0, 0, 0, 0, 0);
    for (number, oracle) in preset.oracles.iter().enumerate() {
        let width = match number {
            0 => relation.slices(groups),
            _ => DEGREE << oracle.slices_log2,
        };
        // Each commitment comes with an out-of-domain sample.
        commitments += (DIGEST << oracle.cap_log2()) + DEGREE;
        rounds += oracle.slices_log2 * 2 * DEGREE;
        work += 2 * oracle.slices_log2 + 2;
        rows += oracle.queries * width;
        paths += DIGEST * oracle.nodes_max();
    }
    let last_log2 = preset.last_log2(shape.slice_log2());
    let last = (DEGREE << last_log2) + last_log2 * 2 * DEGREE;
    let part = |name, elements| PartSize { name, elements };
    vec![
        part("roots and samples of oracles", commitments),
        part("bus", DEGREE * bus),
        part("permutations", DEGREE * permutations),
        part("union", DEGREE * union),
        part("rounds of the opening", rounds),
        part("proof of work", work),
        part("opened rows", rows),
        part("paths of rows", paths),
        part("last polynomial", last),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chains::{Chains, Parameters};
    use crate::proof::{Statements, succinct_elements};

    #[test]
    fn parts_are_all_of_a_proof() {
        let chains = Chains::new(Parameters::COMPACT);
        let relation = chains.relation();
        for preset in [Preset::FAST, Preset::SMALL] {
            for groups in [0, 1, 16, 23] {
                let parts = succinct_parts(relation, &preset, groups);
                let sum: usize = parts.iter().map(|part| part.elements).sum();
                let all = succinct_elements(relation, &preset, groups);
                assert_eq!(sum, all, "{}, {groups} groups", preset.name);
            }
        }
    }
}
