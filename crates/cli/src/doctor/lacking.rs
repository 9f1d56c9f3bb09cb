//! Kernels that exist but cannot run here, and what the processor lacks.

use crate::calibration::{ALL, Kernel};
use alphorn_exec::InstructionSet;
use serde::Serialize;

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
    /// Returns every kernel that a processor with these instruction sets cannot run.
    pub(super) fn with(features: &[&str]) -> Vec<Lacking> {
        let lacking = |of: &'static str, set: &InstructionSet| Lacking {
            krate: of,
            level: set.name(),
            missing: (set.needs().iter().copied())
                .filter(|name| !features.contains(name))
                .collect(),
        };
        let sets = ALL
            .into_iter()
            .flat_map(|k| k.sets.iter().map(|set| (k.of, set)));
        let all = sets.map(|(of, set)| lacking(of, set));
        all.filter(|lacking| !lacking.missing.is_empty()).collect()
    }

    /// Formats a row of the table: a faster kernel exists, but the processor does not support it.
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
        let lacking = Lacking::with(&features());
        for kernels in ALL {
            for set in kernels.sets {
                let lacks = |l: &Lacking| (l.krate, l.level) == (kernels.of, set.name());
                assert_eq!(
                    lacking.iter().any(lacks),
                    kernels.parse(set.name()).is_err()
                );
            }
        }
    }

    #[test]
    fn a_missing_instruction_set_is_named() {
        let cascade_lake = [
            "bmi1",
            "bmi2",
            "avx2",
            "fma",
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
                ["rlnc kernel avx512", "cannot run here: no avx512ifma"],
            ]
        );
        assert_eq!(Lacking::with(&[]).len(), 10);
    }
}
