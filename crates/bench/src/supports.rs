//! Supports of a slot for measurements: random or recorded.

use alphorn_bls::{Columns, CommitteeJob};
use alphorn_lab::draw::{Draw, Source};
use alphorn_lab::participation::{Participation, Record};
use alphorn_types::Layout;
use serde::Serialize;

/// The size of the network that is measured.
#[derive(clap::Args, Clone, Debug, Serialize)]
pub(super) struct Shape {
    /// Number of validators, such as 1048576 or 2^20
    #[arg(long, default_value = "2^20", value_parser = alphorn_lab::options::validators)]
    pub(super) validators: u32,
    /// Number of committees
    #[arg(long, default_value_t = 32, value_parser = clap::value_parser!(u16).range(1..=512))]
    pub(super) committees: u16,
    /// Number of collections per committee
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u16).range(1..=64))]
    pub(super) collections: u16,
    /// Maximum multiplicity: 1 is a bitfield, 15 is uint4
    #[arg(long, default_value = "1", value_parser = ["1", "3", "7", "15"])]
    pub(super) multiplicity: String,
}

impl Shape {
    /// Returns the committees over the validators.
    pub(super) fn layout(&self) -> anyhow::Result<Layout> {
        Ok(Layout::new(self.validators, self.committees, 1)?)
    }

    /// Returns the number of collections of all committees.
    pub(super) fn all_collections(&self) -> usize {
        usize::from(self.committees) * usize::from(self.collections)
    }
}

/// A collection: its committee, and the planes of its support as the sums take them.
pub(super) type Planes<'s> = (usize, Vec<&'s [u64]>);

/// Words of the planes of every collection of every committee: `[committee][collection][plane]`.
pub(super) struct Supports(Vec<Vec<Vec<Vec<u64>>>>);

impl Supports {
    /// Draws the supports of a slot.
    ///
    /// # Errors
    /// If a record cannot be read or has another size than the layout.
    pub(super) fn draw(
        shape: &Shape,
        layout: &Layout,
        participation: &Participation,
        seed: u64,
    ) -> anyhow::Result<Self> {
        let planes = match shape.multiplicity.as_str() {
            "1" => 1,
            "3" => 2,
            "7" => 3,
            _ => 4,
        };
        let source = match participation {
            Participation::Share(share) => Source::Share(*share),
            Participation::File(path) => {
                let record = Record::read(path, None)?;
                anyhow::ensure!(
                    record.validators == layout.validators(),
                    "{} has {} validators: say --validators {}",
                    record.name,
                    record.validators,
                    record.validators
                );
                Source::Recorded(record.bits)
            }
        };
        let mut draw = Draw::new(seed, 0);
        let mut plane = |range| source.online(range, &mut draw).words().to_vec();
        let words = (0..layout.committees()).map(|c| {
            let range = layout.committee_range(c);
            let mut collection = |_| (0..planes).map(|_| plane(range.clone())).collect();
            (0..shape.collections).map(&mut collection).collect()
        });
        Ok(Supports(words.collect()))
    }

    /// Returns every (committee, planes), in order.
    pub(super) fn all(&self) -> Vec<Planes<'_>> {
        let numbered = self.0.iter().enumerate();
        let all = numbered.flat_map(|(c, of)| of.iter().map(move |planes| (c, planes)));
        all.map(|(c, planes)| (c, planes.iter().map(Vec::as_slice).collect()))
            .collect()
    }

    /// Returns the number of set bits over all planes.
    pub(super) fn ones(&self) -> u64 {
        let planes = self.0.iter().flatten().flatten().flatten();
        planes.map(|word| u64::from(word.count_ones())).sum()
    }
}

/// Groups collections by committee for the sums.
pub(super) fn with_jobs<T>(
    all: &[Planes<'_>],
    committees: usize,
    f: impl FnOnce(&[CommitteeJob<'_>]) -> T,
) -> T {
    let mut columns: Vec<Vec<Columns<'_>>> = vec![Vec::new(); committees];
    for (committee, planes) in all {
        columns[*committee].push(Columns { planes });
    }
    let numbered = columns.iter().enumerate();
    let job = |(committee, collections): (usize, _)| CommitteeJob {
        committee,
        collections,
        bases: &[],
    };
    f(&numbered
        .map(|(c, columns)| job((c, columns)))
        .collect::<Vec<_>>())
}
