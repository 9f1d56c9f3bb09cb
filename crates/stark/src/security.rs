//! Soundness of the proofs: the error of each step, in bits, computed from the sizes.
//!
//! The proof is a chain of random challenges. The table has one row for each kind of challenge with the
//! probability that it turns some false claim into a true one, in bits: −log2 of it. A cheating prover must be
//! lucky with one challenge of its choice, so the smallest row counts if challenges come from a random oracle,
//! which the prover may query again and again (round-by-round soundness; Canetti et al., STOC 2019). The sum of
//! all errors bounds the interactive protocol.
//!
//! All further assumptions are listed in [`ASSUMPTIONS`].

use crate::logup::Cube;
use crate::merge;
use crate::poseidon::Kind;
use crate::relation::{Part, Relation};
use crate::whir::Preset;

/// log2 of the size of the field of challenges, p^5.
pub(crate) const FIELD_BITS: f64 = 154.943_423_437_246_3;

/// Bits required of each row: 120, plus two as a margin for our own accounting of them.
pub const TARGET_BITS: f64 = 122.0;

/// Bits of security against collisions of eight elements of F_p, by the birthday bound.
const DIGEST_BITS: f64 = FIELD_BITS * 8.0 / 5.0 / 2.0;

/// The assumptions of the table.
pub const ASSUMPTIONS: [&str; 9] = [
    "Poseidon2 of width 16 over KoalaBear (8 full, 20 partial rounds, Plonky3's instance) is a \
     collision-resistant compression of 124 bits, and a random oracle for challenges: all that a proof \
     itself hashes. Attacks that skip full rounds by the structure of its matrix (ePrint 2026/306) \
     reach further than its designers counted on, and others left it for Poseidon1 for that reason; \
     none is known that reaches all of its rounds, and the margin is not ours to state",
    "Poseidon1 of width 16 (8 full, 20 partial rounds), and of width 24 (8 full, 23 partial rounds) \
     where a set has it, are as strong as the signatures need them: a proof hashes nothing with them. \
     Attacks reach far into the partial rounds of width 24 (ePrint 2026/1692)",
    "Fiat-Shamir: challenges are hashes. Circuits that compute the transcript's own hash can break it \
     (Khovratovich, Rothblum, Soukhanov 2025); here the circuit is fixed, the cells are committed \
     before the first challenge, and the circuit of signatures computes another hash. This is a \
     reason, not a proof; the circuits of merges do compute the transcript's hash",
    "merges: that whoever proves a tree of proofs knows the signatures below is heuristic, as for all \
     recursion with a hash that circuits compute: extraction costs more with each level, and the \
     levels are at most eight",
    "the hash chains and trees are as strong as their set says; the compact set claims about 124 bits \
     classically and 62 against quantum search, without a complete proof",
    "quantum attackers halve the bits of hashes by generic search; no structural attack is known",
    "no zero knowledge: a proof may show cells",
    "mutual correlated agreement of Reed-Solomon codes up to the Johnson bound with the counts used \
     here (Ben-Sasson, Carmon, Habock, Kopparty, Saraf, ePrint 2025/2055; Habock, ePrint 2025/2110); \
     no bound beyond it is used",
    "the interleaved variant of WHIR and its composition with the arguments have a round-by-round \
     argument in the lecture, and no complete written proof; grinding counts as classical work",
];

/// A kind of challenge.
#[derive(Clone, Debug, PartialEq)]
pub struct Term {
    /// Name of the challenge.
    pub name: &'static str,
    /// How often it occurs in one proof.
    pub rounds: usize,
    /// −log2 of the probability that one challenge hides a false claim.
    pub bits: f64,
}

/// All kinds of challenges in a proof.
#[derive(Clone, Debug, PartialEq)]
pub struct Table {
    /// The terms.
    pub terms: Vec<Term>,
}

impl Table {
    /// The minimum bits of all terms: round-by-round soundness.
    pub fn least_bits(&self) -> f64 {
        let bits = self.terms.iter().map(|term| term.bits);
        bits.fold(f64::INFINITY, f64::min)
    }

    /// The bits of the sum of all errors except collisions: the interactive protocol.
    pub fn sum_bits(&self) -> f64 {
        let questions = self.terms.iter().filter(|term| term.rounds > 0);
        let errors = questions.map(|term| term.rounds as f64 * (-term.bits).exp2());
        -errors.sum::<f64>().log2()
    }
}

/// The term of a polynomial of some degree at a random point.
fn term(name: &'static str, rounds: usize, degree: usize) -> Term {
    Term {
        name,
        rounds,
        bits: FIELD_BITS - (degree as f64).log2(),
    }
}

/// The table of a relation over a preset's commitment: the terms of the arguments and of the opening.
///
/// An oracle of rate ρ has at most L = m/ρ codewords near it. Interleaving changes nothing: a word with rows of w
/// elements is a word of the code over the extension of degree w with the same points.
pub fn succinct_table(relation: &Relation, preset: &Preset) -> Table {
    let mut table = table(relation);
    let shape = relation.shape;
    let coordinates = shape.slices_log2 + shape.slice_log2();
    table
        .terms
        .extend(opening(preset, coordinates, claims(relation)));
    table
}

/// The terms of a preset's opening of this many claims on a vector with this many coordinates.
fn opening(preset: &Preset, coordinates: usize, claims: usize) -> Vec<Term> {
    let (mut terms, mut coordinates) = (Vec::new(), coordinates);
    let mut joined = claims;
    for oracle in preset.oracles {
        let slice_log2 = coordinates - oracle.slices_log2;
        let rows = (oracle.rows_log2 as f64).exp2();
        let rate = (slice_log2 as f64).exp2() / rows;
        let (m, root) = (oracle.proximity_m, rate.sqrt());
        let list = m / rate;
        let bits = |error: f64| FIELD_BITS - error.log2();
        let half = m + 0.5;
        let gamma = 1.0 - root * (1.0 + 0.5 / m);
        let per_row = (2.0 * half.powi(5) + 3.0 * half * gamma * rate) / (3.0 * rate * root);
        // Of p^5 challenges this many give words near the fold that come from no words near the oracle: section 9
        // of the lecture, point 3.
        let agreement = per_row * rows + half / root;
        let query = -(root * (1.0 + 0.5 / m)).log2() * oracle.queries as f64;
        let own = |name, rounds, bits| Term { name, rounds, bits };
        terms.extend([
            own(
                "oracle: sample out of domain",
                1,
                bits(list * list / 2.0 * coordinates as f64),
            ),
            own("oracle: joining claims", 1, bits(joined as f64 * list)),
            own(
                "oracle: folding, with work",
                oracle.slices_log2,
                bits(agreement) + f64::from(oracle.fold_bits),
            ),
            own(
                "oracle: queries, with work",
                1,
                query + f64::from(preset.query_bits),
            ),
        ]);
        // The next oracle has its own sample, and the rows of this one are claims on it.
        joined = oracle.queries + 1;
        coordinates = slice_log2;
    }
    // The polynomial sent last is not an oracle, so no codewords are near it.
    terms.extend([
        term("last polynomial: joining rows", 1, joined),
        term("last polynomial: rounds of sumcheck", coordinates, 2),
    ]);
    terms
}

/// The table of a merge of proofs of a relation over a preset's commitment: at most as secure as the proofs it
/// merges.
pub fn merge_table(relation: &Relation, preset: &Preset) -> Table {
    let sizes = merge::sizes(relation);
    let part = Part {
        rows: 0..0,
        units: sizes.units,
    };
    let mut terms = permutations(&part).to_vec();
    terms.extend([
        // Powers of σ, points of children and of lanes.
        term("inputs and outputs of circuits", 1, sizes.fixed),
        term("outputs of permutations: point", 1, sizes.outputs),
        term("claims on cubes and inputs: eta", 2, Kind::Narrow.cubes()),
        term("rows of circuits: point", 1, sizes.rows),
        term("rows of circuits: rounds of sumcheck", sizes.rows, 3),
        term("union: point and lambda", 1, sizes.column + sizes.children),
        term("union: rounds of sumcheck", sizes.column, 3),
        term(
            "words of bitfields: omega, mu",
            1,
            sizes.column + sizes.children,
        ),
        // For a leaf, whose circuit joins the registry's columns.
        term("registry: point of its columns", 1, sizes.key),
        term("wiring, registry: joining claims", 3, sizes.children + 1),
        term("wiring, registry: rounds of sumcheck", sizes.residual, 2),
        Term {
            name: "collisions of digests",
            rounds: 0,
            bits: DIGEST_BITS,
        },
    ]);
    terms.extend(opening(preset, sizes.coordinates, sizes.claims));
    Table { terms }
}

/// Number of claims in a ledger plus the first sample: two of the bus, two of the union, three of the rows of each
/// width.
fn claims(relation: &Relation) -> usize {
    1 + 2 + 2 + 3 * relation.parts(0).len()
}

/// The table of the arguments of a relation, without the polynomial commitment.
pub(crate) fn table(relation: &Relation) -> Table {
    let shape = relation.shape;
    let Cube {
        groups_log2,
        within_log2,
    } = shape.bus();
    let layers = groups_log2 + within_log2;
    let fractions = 1 << layers;
    let parts = relation.parts(0);
    let mut terms = vec![
        // A tuple is a polynomial of degree `entries_max` in β, and any two distinct tuples must not coincide. A
        // sum of fractions is a polynomial with as many roots in α.
        term("tuples: alpha, beta", 1, fractions * relation.entries_max()),
        // λ joins numerator and denominator, µ two halves: both of degree 1.
        term("bus: joining claims", 2 * layers, 1),
        // The sum itself has the weight eq, one degree more than what is sent.
        term("bus: rounds of sumcheck", layers * (layers - 1) / 2, 3),
        term("wires: tau", 1, relation.wires.len() + 1),
    ];
    terms.extend(parts.iter().flat_map(permutations));
    // One η joins the cubes, and the inputs, of rows of each width.
    let joined = parts.iter().map(|part| part.units.kind);
    let joined = joined.map(|kind| kind.lanes().max(kind.cubes())).max();
    terms.extend([
        term(
            "claims on cubes and inputs: eta",
            1,
            joined.unwrap_or(1) - 1,
        ),
        term("union: point of the bitfield", 1, shape.column_log2()),
        term("union: rounds of sumcheck", shape.column_log2(), 3),
        Term {
            name: "collisions of digests",
            rounds: 0,
            bits: DIGEST_BITS,
        },
    ]);
    Table { terms }
}

/// The terms of the permutations of one width.
fn permutations(part: &Part) -> [Term; 6] {
    let (units, kind) = (&part.units, part.units.kind);
    let high = units.high_log2();
    let names = match kind {
        Kind::Narrow | Kind::Own => [
            "permutations: lanes of a state",
            "permutations: cubes of partial rounds",
            "permutations: skipped rows, last round",
            "permutations: skipped rows",
            "permutations: rounds of sumcheck",
            "permutations: last round, high coordinates",
        ],
        Kind::Wide => [
            "width 24: lanes of a state",
            "width 24: cubes of partial rounds",
            "width 24: skipped rows, last round",
            "width 24: skipped rows",
            "width 24: rounds of sumcheck",
            "width 24: last round, high coordinates",
        ],
    };
    [
        term(names[0], 8, kind.lanes() - 1),
        term(names[1], 1, kind.cubes()),
        term(names[2], 1, 60),
        term(names[3], 8, 45 + 15),
        term(names[4], 9 * (high + units.lanes_log2), 4),
        term(names[5], high, 4),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chains::lean::{LeanChains, LeanParameters};
    use crate::chains::{Chains, Parameters};
    use crate::field::P;
    use crate::proof::Statements;
    use crate::relation::Shape;

    #[test]
    fn the_compact_set_has_122_bits_in_each_round() {
        let chains = Chains::new(Parameters::COMPACT);
        let table = table(chains.relation());
        for term in &table.terms {
            println!(
                "{:45} {:4} x {:6.1} bits",
                term.name, term.rounds, term.bits
            );
            assert!(term.bits >= TARGET_BITS, "{}", term.name);
        }
        // 2^20 fractions of nine components: 154.94 − 23.17.
        assert!((table.terms[0].bits - 131.77).abs() < 0.01);
        assert!((table.least_bits() - 123.95).abs() < 0.01);
        assert!((table.sum_bits() - 131.77).abs() < 0.01);
    }

    #[test]
    fn the_lean_sets_have_122_bits_in_each_round() {
        for parameters in [LeanParameters::PROD, LeanParameters::TEST] {
            let chains = LeanChains::new(parameters);
            let relation = chains.relation();
            let terms = table(relation).terms;
            let wide = terms
                .iter()
                .filter(|term| term.name.starts_with("width 24"));
            assert_eq!(wide.count(), 6);
            // Registry tuples have an index and thirteen elements: 154.94 − 20 − 3.81.
            assert!((terms[0].bits - 131.14).abs() < 0.01);
            assert_eq!(claims(relation), 11);
            for preset in [Preset::FAST, Preset::SMALL] {
                for term in &succinct_table(relation, &preset).terms {
                    assert!(term.bits >= TARGET_BITS, "{}: {}", preset.name, term.name);
                }
            }
        }
    }

    #[test]
    fn presets_have_122_bits_in_each_round() {
        let chains = Chains::new(Parameters::COMPACT);
        assert_eq!(claims(chains.relation()), 8);
        // The figure that the lecture gives for all rows together.
        for (preset, sum) in [(Preset::FAST, 118.41), (Preset::SMALL, 118.28)] {
            let table = succinct_table(chains.relation(), &preset);
            for term in &table.terms {
                println!("{:6} {:45} {:6.1} bits", preset.name, term.name, term.bits);
                assert!(term.bits >= TARGET_BITS, "{}: {}", preset.name, term.name);
            }
            let bits = table.sum_bits();
            assert!((bits - sum).abs() < 0.01, "{}: {bits}", preset.name);
            // Coordinates of slices and rates: rows · rate is the length of a slice.
            let mut left = 24;
            for (oracle, slice_log2) in preset.oracles.iter().zip([16, 12, 8]) {
                left -= oracle.slices_log2;
                assert_eq!(left, slice_log2);
            }
            assert_eq!(preset.last_log2(16), 8);
        }
        // The first oracle of the fast preset, by the lecture's formulas: L²/2·n/p^5 with L = 20/ρ and
        // n = 24, and (√ρ·(1 + 1/40))^112.
        let table = succinct_table(chains.relation(), &Preset::FAST);
        let first: Vec<f64> = table.terms[14..18].iter().map(|term| term.bits).collect();
        for (bits, expected) in first
            .iter()
            .zip([138.7, 145.6, 112.74 + 10.0, 108.01 + 14.0])
        {
            assert!((bits - expected).abs() < 0.1, "{first:?}");
        }
        // Eight claims at 80 words near the first oracle, then a sample with 112 rows at 144 words, with 74 at
        // 512, and 44 rows in a polynomial of degree 45.
        let joined = |term: &&Term| term.name.contains("joining");
        let joined = table.terms.iter().filter(joined);
        let joined: Vec<f64> = joined.map(|term| term.bits).collect();
        for (bits, expected) in joined[1..].iter().zip([145.62, 140.95, 139.71, 149.45]) {
            assert!((bits - expected).abs() < 0.01, "{joined:?}");
        }
        assert_eq!(joined.len(), 5);
    }

    #[test]
    fn merges_have_122_bits_in_each_round() {
        let chains = Chains::new(Parameters::COMPACT);
        let table = merge_table(chains.relation(), &Preset::MERGE);
        for term in &table.terms {
            println!(
                "{:45} {:3} x {:6.1} bits",
                term.name, term.rounds, term.bits
            );
            assert!(term.bits >= TARGET_BITS, "{}: {}", term.name, term.bits);
        }
        assert!((table.sum_bits() - 118.49).abs() < 0.01);
        let oracles = table
            .terms
            .iter()
            .filter(|term| term.name.starts_with("oracle"));
        assert_eq!(oracles.count(), 12);
        assert_eq!(merge::sizes(chains.relation()).claims, 24);
    }

    #[test]
    fn the_wide_shape_has_122_bits_in_each_round() {
        let chains = Chains::new(Parameters::COMPACT_WIDE);
        let relation = chains.relation();
        assert_eq!(relation.groups_max(), 177);
        let table = succinct_table(relation, &Preset::WIDE);
        for term in &table.terms {
            assert!(term.bits >= TARGET_BITS, "{}: {}", term.name, term.bits);
        }
        // 2^23 fractions of nine components: 154.94 − 26.17.
        assert!((table.terms[0].bits - 128.77).abs() < 0.01);
        assert_eq!(Preset::WIDE.oracles[0].slices_log2, Shape::WIDE.slices_log2);
    }

    #[test]
    fn the_field_has_its_size() {
        assert!((FIELD_BITS - 5.0 * f64::from(P).log2()).abs() < 1e-9);
        let longer = Table {
            terms: vec![term("a", 1, 2), term("b", 2, 1)],
        };
        assert!((longer.sum_bits() - (FIELD_BITS - 2.0)).abs() < 1e-9);
        assert!((longer.least_bits() - (FIELD_BITS - 1.0)).abs() < 1e-9);
    }
}
