//! One to four levels of evidence, end to end: layouts, phases and publishers are data.

use crate::net::{Kind, LISTS, LISTS_THEN_PROOF, MERGED_PROOFS, Net, PROOFS, SUMS};
use crate::slots::complete_on;
use alphorn_proto::horn::{Preset, Publish};
use alphorn_proto::wire::{Aggregate, Topic, no_references};
use alphorn_types::{Layout, Unit};
use std::collections::{BTreeMap, BTreeSet};

const LEVELS: [&[u16]; 4] = [&[], &[3], &[2, 3], &[2, 1, 2]];

fn layout(fan_out: &[u16]) -> Layout {
    Layout::with_fan_out(100, 2, fan_out).unwrap()
}

/// The units of which evidence was published, by level, and where.
fn published(net: &Net) -> BTreeMap<u8, BTreeSet<(Unit, Topic)>> {
    let format = net.nodes[0].horn.format();
    let mut units: BTreeMap<u8, BTreeSet<(Unit, Topic)>> = BTreeMap::new();
    for sent in &net.sent {
        if matches!(sent.topic, Topic::Aggregate { .. } | Topic::Collection) {
            let unit = Aggregate::decode(&sent.data, format, &no_references)
                .unwrap()
                .unit;
            units
                .entry(unit.level)
                .or_default()
                .insert((unit, sent.topic));
        }
    }
    units
}

#[test]
fn every_number_of_levels_completes_in_every_form() {
    for kind in [SUMS, LISTS, LISTS_THEN_PROOF, PROOFS, MERGED_PROOFS] {
        for fan_out in LEVELS {
            for publish in [Publish::All, Publish::Staged] {
                let layout = layout(fan_out);
                let net = complete_on(kind, layout, 4, 3, |config| {
                    config
                        .levels
                        .iter_mut()
                        .for_each(|level| level.publish = publish);
                });
                // Evidence of every unit, where those who combine it are.
                let published = published(&net);
                assert_eq!(published.len(), usize::from(layout.levels()));
                for (level, units) in published {
                    let all = layout.units(level);
                    let all = all.map(|unit| (unit, Topic::of(&layout, unit)));
                    assert_eq!(units, all.collect(), "{kind:?} {fan_out:?} level {level}");
                }
            }
        }
    }
}

/// Sums of sums count higher, and leave room for it below.
#[test]
fn sums_are_packed_above_the_second_level() {
    for (fan_out, multiplicity) in [(&[2, 3][..], 7), (&[2, 3], 15), (&[2, 1, 2], 15)] {
        let layout = layout(fan_out);
        let net = complete_on(SUMS, layout, 4, 3, |config| {
            config.multiplicity_max = multiplicity;
        });
        let format = net.nodes[0].horn.format();
        let mut highest = BTreeMap::new();
        for sent in &net.sent {
            if !matches!(sent.topic, Topic::Aggregate { .. } | Topic::Collection) {
                continue;
            }
            let aggregate = Aggregate::decode(&sent.data, format, &no_references).unwrap();
            let most = aggregate.evidence.support.max_multiplicity();
            let highest: &mut u8 = highest.entry(aggregate.unit.level).or_default();
            *highest = most.max(*highest);
        }
        assert_eq!(highest[&1], 1);
        assert!(highest[&2] <= 3, "{highest:?}");
        assert!(highest.values().all(|most| *most <= multiplicity));
    }
}

/// A machine needs what its validators may have to combine, and nothing of other units.
#[test]
fn topics_are_those_of_the_units_of_local_validators() {
    for fan_out in LEVELS {
        let layout = layout(fan_out);
        let net = complete_on(SUMS, layout, 100, 1, |_| ());
        let topics = net.nodes[7].horn.topics(alphorn_types::Epoch(0)).unwrap();
        // Blocks, collections, the cell and its units above.
        assert_eq!(topics.len(), 2 + usize::from(layout.levels()));
        let net = complete_on(SUMS, layout, 1, 1, |_| ());
        let topics = net.nodes[0].horn.topics(alphorn_types::Epoch(0)).unwrap();
        let units = (1..=layout.levels()).map(|level| layout.units(level).count());
        // Evidence of a committee goes to all.
        assert_eq!(topics.len(), 2 + units.sum::<usize>());
    }
}

/// The presets with few validators: what they say of levels, publishers and phases is run.
#[test]
fn presets_complete() {
    for preset in Preset::ALL {
        let kind: Kind = match preset.name {
            "horn-pq" => MERGED_PROOFS,
            _ => SUMS,
        };
        let layout = Layout::with_fan_out(256, 2, preset.fan_out).unwrap();
        let net = complete_on(kind, layout, 3, 3, |config| {
            config.timing = preset.timing;
            for (level, &publishers) in config.levels.iter_mut().zip(preset.publishers) {
                level.publishers = publishers;
                level.publish = preset.publish;
            }
        });
        assert_eq!(
            published(&net).len(),
            preset.publishers.len(),
            "{}",
            preset.name
        );
    }
}
