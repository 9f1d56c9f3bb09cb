//! Numbers of signatures as they are asked for, and how even the time of a signature is over them.

use super::Figures;
use serde_json::{Value, json};
use std::str::FromStr;

/// Keys of a registry: no proof takes as many signatures.
const SIZE_MAX: u32 = 1 << 15;

/// From here on the time of a signature should hardly depend on their number.
const EVEN_FROM: usize = 512;

/// How many times longer a signature may take at one number than at another.
const EVEN_MAX: f64 = 1.2;

/// A number, or numbers from one to another by steps: `512..1472:64`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Sizes(pub(super) Vec<u32>);

impl FromStr for Sizes {
    type Err = String;

    fn from_str(text: &str) -> Result<Sizes, String> {
        let number = |text: &str| match text.parse() {
            Ok(size) if (1..=SIZE_MAX).contains(&size) => Ok(size),
            _ => Err(format!("{text:?} is no number from 1 to {SIZE_MAX}")),
        };
        let Some((first, rest)) = text.split_once("..") else {
            return Ok(Sizes(vec![number(text)?]));
        };
        let (last, step) = rest.split_once(':').unwrap_or((rest, "64"));
        let (first, last, step) = (number(first)?, number(last)?, number(step)?);
        match first <= last {
            true => Ok(Sizes((first..=last).step_by(step as usize).collect())),
            false => Err(format!("{first}..{last} is empty")),
        }
    }
}

/// The least and the greatest time of a signature among cases that differ in their number alone.
pub(super) struct Evenness<'a> {
    least: &'a Figures,
    most: &'a Figures,
}

/// The evenness of each preset, kernel and number of threads with two numbers at least.
pub(super) fn evenness(cases: &[Figures]) -> Vec<Evenness<'_>> {
    let same = |a: &Figures, b: &Figures| {
        let (a, b) = (a.point, b.point);
        (a.proofs.preset().id, a.kernel, a.threads) == (b.proofs.preset().id, b.kernel, b.threads)
    };
    let mut all: Vec<Evenness<'_>> = Vec::new();
    for case in cases.iter().filter(|c| c.point.signatures >= EVEN_FROM) {
        match all.iter_mut().find(|even| same(even.least, case)) {
            None => all.push(Evenness {
                least: case,
                most: case,
            }),
            Some(even) if case.each_s() < even.least.each_s() => even.least = case,
            Some(even) if case.each_s() > even.most.each_s() => even.most = case,
            Some(_) => {}
        }
    }
    all.retain(|even| even.least.point.signatures != even.most.point.signatures);
    all
}

impl Evenness<'_> {
    fn ratio(&self) -> f64 {
        self.most.each_s() / self.least.each_s()
    }

    /// One line.
    pub(super) fn printed(&self) -> String {
        let point = self.least.point;
        format!(
            "time of a signature, {}, {}, {} threads: {:.2} ms at {} to {:.2} ms at {}, {:.2} times \
             (target {EVEN_MAX}{})",
            point.proofs.preset().name,
            point.kernel,
            point.threads,
            self.least.each_s() * 1e3,
            point.signatures,
            self.most.each_s() * 1e3,
            self.most.point.signatures,
            self.ratio(),
            if self.ratio() <= EVEN_MAX {
                ""
            } else {
                ": missed"
            },
        )
    }

    pub(super) fn json(&self) -> Value {
        let point = self.least.point;
        json!({
            "preset": point.proofs.preset().name,
            "kernel": point.kernel.name(),
            "threads": point.threads,
            "least_at": point.signatures,
            "most_at": self.most.point.signatures,
            "ratio": self.ratio(),
            "limit": EVEN_MAX,
            "reached": self.ratio() <= EVEN_MAX,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_numbers() {
        let sizes = |text: &str| text.parse::<Sizes>().map(|sizes| sizes.0);
        assert_eq!(sizes("7"), Ok(vec![7]));
        assert_eq!(sizes("512..700"), Ok(vec![512, 576, 640]));
        assert_eq!(sizes("1..3:1"), Ok(vec![1, 2, 3]));
        for wrong in [
            "", "0", "32769", "x", "3..2", "1..", "1..9:0", "..3", "1..4:x",
        ] {
            assert!(sizes(wrong).is_err(), "{wrong:?}");
        }
    }
}
