//! Kernels that exist and cannot run here, and what the processor lacks.

use crate::calibration::Kernel;
use serde::Serialize;

/// Instruction sets of the measured kernels beside the portable ones. The crates look for them
/// themselves; a test holds this list against what they find.
const NEEDS: [(&str, &str, &[&str]); 5] = [
    ("bls", "avx512", &["avx512f", "avx512ifma"]),
    ("labrador", "avx2", &["avx2"]),
    (
        "labrador",
        "avx512",
        &[
            "bmi2",
            "avx2",
            "avx512f",
            "avx512bw",
            "avx512dq",
            "avx512vl",
            "avx512vnni",
        ],
    ),
    ("stark", "avx2", &["avx2"]),
    (
        "stark",
        "avx512",
        &["avx512f", "avx512bw", "avx512dq", "avx512vl", "avx512ifma"],
    ),
];

/// A kernel that cannot run here.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(super) struct Lacking {
    #[serde(rename = "crate")]
    krate: &'static str,
    level: &'static str,
    /// Instruction sets that the processor does not have.
    missing: Vec<&'static str>,
}

impl Lacking {
    /// Every kernel that a processor with these instruction sets cannot run.
    pub(super) fn with(features: &[&str]) -> Vec<Lacking> {
        let lacking = |(krate, level, needs): (_, _, &'static [&'static str])| Lacking {
            krate,
            level,
            missing: needs
                .iter()
                .copied()
                .filter(|name| !features.contains(name))
                .collect(),
        };
        let all = NEEDS.into_iter().map(lacking);
        all.filter(|lacking| !lacking.missing.is_empty()).collect()
    }

    /// A row of the table: a faster kernel is there, what is missing is the processor.
    pub(super) fn row(&self) -> Vec<String> {
        vec![
            Kernel::title(self.krate, self.level),
            format!("cannot run here: no {}", self.missing.join(", ")),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::features;

    #[test]
    fn kernels_are_lacking_exactly_where_their_crates_do_not_offer_them() {
        let bls = alphorn_bls::Backend::available();
        let labrador = alphorn_labrador::Backend::available();
        let stark = alphorn_stark::Backend::available();
        let offered: Vec<(&str, &str)> = bls
            .iter()
            .map(|kernel| ("bls", kernel.name()))
            .chain(labrador.iter().map(|kernel| ("labrador", kernel.name())))
            .chain(stark.iter().map(|kernel| ("stark", kernel.name())))
            .filter(|(_, level)| *level != "portable")
            .collect();
        let lacking = Lacking::with(&features());
        let known: Vec<(&str, &str)> = NEEDS
            .iter()
            .map(|(krate, level, _)| (*krate, *level))
            .filter(|known| !lacking.iter().any(|l| (l.krate, l.level) == *known))
            .collect();
        assert_eq!(offered, known);
    }

    #[test]
    fn a_missing_instruction_set_is_named() {
        let cascade_lake = [
            "bmi2",
            "avx2",
            "avx512f",
            "avx512bw",
            "avx512dq",
            "avx512vl",
            "avx512vnni",
        ];
        let rows: Vec<Vec<String>> = Lacking::with(&cascade_lake)
            .iter()
            .map(Lacking::row)
            .collect();
        assert_eq!(
            rows,
            [
                ["bls kernel avx512", "cannot run here: no avx512ifma"],
                ["stark kernel avx512", "cannot run here: no avx512ifma"],
            ]
        );
        assert_eq!(Lacking::with(&[]).len(), NEEDS.len());
    }
}
