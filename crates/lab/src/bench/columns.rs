//! Supports of a slot for measurements: random or recorded, independent or correlated.

use crate::participation::{Participation, Record};
use alphorn_bls::{Columns, CommitteeJob, G1Affine, KeyTable};
use alphorn_exec::Backend;
use alphorn_types::Layout;
use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use serde::Serialize;

/// The size of the network that is measured.
#[derive(clap::Args, Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Shape {
    /// Number of validators, as 1048576 or 2^20
    #[arg(long, default_value = "2^20", value_parser = crate::options::validators)]
    pub(crate) validators: u32,
    /// Committees
    #[arg(long, default_value_t = 32, value_parser = clap::value_parser!(u16).range(1..=512))]
    pub(crate) committees: u16,
    /// Collections of each committee
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u16).range(1..=64))]
    pub(crate) collections: u16,
    /// Greatest multiplicity: 1 is a bitfield, 15 is uint4
    #[arg(long, default_value = "1", value_parser = ["1", "3", "7", "15"])]
    pub(crate) multiplicity: String,
    /// Collections of a committee share the offline validators; each misses this share more
    #[arg(long, value_name = "SHARE", value_parser = crate::options::share)]
    pub(crate) corr: Option<f64>,
}

impl Default for Shape {
    /// What the options are where nothing is asked for.
    fn default() -> Self {
        Shape {
            validators: 1 << 20,
            committees: 32,
            collections: 16,
            multiplicity: "1".to_owned(),
            corr: None,
        }
    }
}

impl Shape {
    /// Binary planes of a support.
    pub(crate) fn planes(&self) -> usize {
        match self.multiplicity.as_str() {
            "1" => 1,
            "3" => 2,
            "7" => 3,
            _ => 4,
        }
    }

    /// Committees over the validators.
    pub(crate) fn layout(&self) -> anyhow::Result<Layout> {
        Ok(Layout::new(self.validators, self.committees, 1)?)
    }
}

/// The table of keys in committee order.
///
/// # Errors
/// If a key is the identity.
pub(crate) fn table_of(
    keys: Vec<G1Affine>,
    layout: &Layout,
    kernel: Backend,
) -> anyhow::Result<KeyTable> {
    let sizes: Vec<usize> = (0..layout.committees())
        .map(|c| layout.committee_len(c) as usize)
        .collect();
    Ok(KeyTable::new(kernel, keys, &sizes)?)
}

/// Words of the planes of every collection of every committee.
pub(crate) struct Supports {
    /// `words[committee][collection][plane]`.
    words: Vec<Vec<Vec<Vec<u64>>>>,
}

impl Supports {
    /// Draws the supports of a slot.
    ///
    /// # Errors
    /// If a record cannot be read or has another size than the layout.
    pub(crate) fn draw(
        shape: &Shape,
        layout: &Layout,
        participation: &Participation,
        seed: u64,
    ) -> anyhow::Result<Self> {
        let record = match participation {
            Participation::Share(_) => None,
            Participation::File(path) => Some(Record::read(path, None)?),
        };
        if let Some(record) = &record {
            anyhow::ensure!(
                record.validators == layout.validators(),
                "{} has {} validators: say --validators {}",
                record.name,
                record.validators,
                record.validators
            );
        }
        let mut rng = ChaCha20Rng::seed_from_u64(seed);
        let mut word = |len: usize, base: usize, share: f64| -> u64 {
            let threshold = (share * (1u64 << 32) as f64) as u64;
            (0..64usize.min(len - base)).fold(0, |word, bit| {
                let set = u64::from(rng.next_u32()) < threshold;
                word | u64::from(set) << bit
            })
        };
        let words = (0..layout.committees()).map(|c| {
            let range = layout.committee_range(c);
            let len = range.len();
            let mut plane = |share: f64| -> Vec<u64> {
                (0..len.div_ceil(64))
                    .map(|i| word(len, i * 64, share))
                    .collect()
            };
            let online = match (&record, participation) {
                (Some(record), _) => {
                    let bits = record
                        .bits
                        .extract(range.start as usize..range.end as usize);
                    Some(bits.words().to_vec())
                }
                (None, Participation::Share(share)) => shape.corr.map(|_| plane(*share)),
                (None, Participation::File(_)) => None,
            };
            let share = match participation {
                Participation::Share(share) => *share,
                Participation::File(_) => 1.0,
            };
            let collection = |_| {
                (0..shape.planes())
                    .map(|_| match &online {
                        None => plane(share),
                        Some(online) => {
                            let kept = plane(1.0 - shape.corr.unwrap_or(0.0));
                            online.iter().zip(kept).map(|(a, b)| a & b).collect()
                        }
                    })
                    .collect()
            };
            (0..shape.collections).map(collection).collect()
        });
        Ok(Supports {
            words: words.collect(),
        })
    }

    /// The planes of a collection, as the sums take them.
    pub(crate) fn planes(&self, committee: usize, collection: usize) -> Vec<&[u64]> {
        self.words[committee][collection]
            .iter()
            .map(Vec::as_slice)
            .collect()
    }

    /// Every (committee, planes), in order.
    pub(crate) fn all(&self) -> Vec<(usize, Vec<&[u64]>)> {
        let committee = |c: usize| (0..self.words[c].len()).map(move |k| (c, self.planes(c, k)));
        (0..self.words.len()).flat_map(committee).collect()
    }

    /// Set bits over all planes.
    pub(crate) fn ones(&self) -> u64 {
        let planes = self.words.iter().flatten().flatten().flatten();
        planes.map(|word| u64::from(word.count_ones())).sum()
    }
}

/// Groups collections by committee for the sums.
pub(crate) fn with_jobs<T>(
    all: &[(usize, Vec<&[u64]>)],
    committees: usize,
    f: impl FnOnce(&[CommitteeJob<'_>]) -> T,
) -> T {
    let columns: Vec<Vec<Columns<'_>>> = (0..committees)
        .map(|c| {
            all.iter()
                .filter(|(of, _)| *of == c)
                .map(|(_, planes)| Columns { planes })
                .collect()
        })
        .collect();
    let jobs: Vec<CommitteeJob<'_>> = columns
        .iter()
        .enumerate()
        .map(|(committee, collections)| CommitteeJob {
            committee,
            collections,
            bases: &[],
        })
        .collect();
    f(&jobs)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        shape: Shape,
    }

    #[test]
    fn the_default_is_that_of_the_options() {
        let shape = Cli::try_parse_from(["bench"]).unwrap().shape;
        assert_eq!(shape, Shape::default());
    }
}
