use super::*;
use crate::horn::local::Local;
use crate::horn::state::Serving;
use alphorn_scheme::model::{CostTable, Model};
use alphorn_types::{Bitfield, Time, Unit, Validator};

fn model(overlap: Overlap, form: Form, unique: bool) -> Model {
    let mut table = CostTable::example();
    table.abilities.overlap = [overlap; 2];
    table.abilities.layers = [form; 2];
    table.abilities.unique = unique;
    Model::new(table).unwrap()
}

fn sums() -> Model {
    model(Overlap::Counted { max: 15 }, Form::Point, true)
}

fn layout() -> Layout {
    Layout::new(1000, 2, 4).unwrap()
}

fn refused(scheme: &Model, change: impl Fn(&mut Config)) -> String {
    let info = SchemeInfo::of(scheme, &layout());
    let mut config = Config::new(layout(), &info);
    change(&mut config);
    config.validate(&info).unwrap_err().to_string()
}

#[test]
fn defaults_follow_the_abilities_and_are_legal() {
    for (overlap, form, unique, cover, m, selection, publish) in [
        (
            Overlap::Counted { max: 15 },
            Form::Point,
            true,
            Cover::Quorum,
            3,
            Selection::Lottery,
            Publish::All,
        ),
        (
            Overlap::Counted { max: 1 },
            Form::Point,
            true,
            Cover::Best1,
            1,
            Selection::Lottery,
            Publish::All,
        ),
        (
            Overlap::Union,
            Form::List,
            false,
            Cover::Union,
            1,
            Selection::Rank,
            Publish::All,
        ),
        (
            Overlap::None,
            Form::Proof,
            false,
            Cover::Best1,
            1,
            Selection::Rank,
            Publish::Staged,
        ),
    ] {
        let info = SchemeInfo::of(&model(overlap, form, unique), &layout());
        let config = Config::new(layout(), &info);
        assert_eq!(config.validate(&info), Ok(()));
        let top = config.level(2);
        assert_eq!((top.cover, config.multiplicity_max), (cover, m));
        assert_eq!((config.selection, top.publish), (selection, publish));
    }
}

#[test]
fn numbers_out_of_range_are_named_with_their_bounds() {
    let sums = sums();
    for (text, change) in [
        (
            "publishers of level 1 = 0, must be 1 to 64",
            (|c| c.levels[0].publishers = 0) as fn(&mut Config),
        ),
        ("publishers of level 2 = 65, must be 1 to 64", |c| {
            c.levels[1].publishers = 65
        }),
        ("taken_max of level 1 = 65, must be 1 to 64", |c| {
            c.levels[0].taken_max = 65
        }),
        ("epoch_slots = 0, must be 1 to 4096", |c| c.epoch_slots = 0),
        (
            "stage_gain_ppm of level 2 = 1000001, must be 0 to 1000000",
            |c| c.levels[1].stage_gain_ppm = PPM + 1,
        ),
        ("spread_ms of level 2 = 60001, must be 0 to 60000", |c| {
            c.levels[1].spread_ms = STAGE_MS_MAX + 1
        }),
        (
            "spread_ms of level 2 = 10001, must be at most the 10000 ms of its phase, collect",
            |c| c.levels[1].spread_ms = 10_001,
        ),
        (
            "spread_ms of level 1 = 4001, must be at most the 4000 ms of its phase, aggregate",
            |c| c.levels[0].spread_ms = 4_001,
        ),
        ("stage_ms of level 1 = 60001, must be 0 to 60000", |c| {
            c.levels[0].stage_ms = STAGE_MS_MAX + 1
        }),
        ("collections_per_block_max = 2049, must be 1 to 2048", |c| {
            c.collections_per_block_max = 2049
        }),
        ("vote_data_per_slot_max = 0, must be 1 to 64", |c| {
            c.vote_data_per_slot_max = 0
        }),
        (
            "block_bytes_max = 16777217, must be 1024 to 16777216",
            |c| c.block_bytes_max += 1,
        ),
    ] {
        assert_eq!(refused(&sums, change), text);
    }
}

#[test]
fn what_the_scheme_cannot_do_is_refused() {
    let lists = model(Overlap::Union, Form::List, false);
    let proofs = model(Overlap::None, Form::Proof, false);
    assert!(refused(&lists, |c| c.selection = Selection::Lottery).contains("use rank"));
    assert_eq!(
        refused(&lists, |c| c.multiplicity_max = 3),
        "multiplicity_max = 3, the scheme takes at most 1"
    );
    assert!(refused(&lists, |c| c.levels[1].cover = Cover::Quorum).ends_with("use union"));
    assert!(refused(&proofs, |c| c.levels[1].cover = Cover::Union).ends_with("use best1"));
    let few = model(Overlap::Counted { max: 3 }, Form::Point, true);
    assert!(refused(&few, |c| c.multiplicity_max = 7).contains("at most 3"));
    assert!(refused(&sums(), |c| c.multiplicity_max = 2).contains("1, 3, 7 or 15"));
    assert!(refused(&sums(), |c| c.multiplicity_max = 1).contains("must be 3, 7 or 15"));
}

#[test]
fn committees_and_messages_that_cannot_fit_are_refused() {
    let mut table = CostTable::example();
    table.abilities.committee_max = Some(100);
    let small = Model::new(table).unwrap();
    assert!(refused(&small, |_| ()).contains("use 10 committees or more"));
    let mut table = CostTable::example();
    table.abilities.overlap = [Overlap::Union; 2];
    table.abilities.layers = [Form::List; 2];
    table.abilities.unique = false;
    table.sizes.signature = 100_000;
    let bulky = Model::new(table).unwrap();
    let text = refused(&bulky, |_| ());
    assert!(text.starts_with("vote of at least"), "{text}");
    let mut table = CostTable::example();
    table.abilities.overlap = [Overlap::Union; 2];
    table.abilities.layers = [Form::List; 2];
    table.abilities.unique = false;
    table.sizes.signature = 8_000;
    let lists = Model::new(table).unwrap();
    let large = Layout::new(8_000, 1, 32).unwrap();
    let info = SchemeInfo::of(&lists, &large);
    let error = Config::new(large, &info).validate(&info).unwrap_err();
    assert!(
        matches!(
            error,
            ConfigError::MessageSize {
                kind: Kind::Collection,
                ..
            }
        ),
        "{error}"
    );
}

#[test]
fn local_sets_must_fit_the_layout() {
    let layout = layout();
    let mut local = Local::observer(&layout);
    assert_eq!(local.check(&layout), Ok(()));
    local.voters.set(7);
    assert_eq!(local.check(&layout), Err(ConfigError::LocalVoter(7)));
    local.voters = Bitfield::new(3);
    let error = local.check(&layout).unwrap_err();
    assert_eq!(error.to_string(), "voters: 3 bits for 1000 validators");
}

#[test]
fn choices_parse_as_they_are_written() {
    for selection in [Selection::Lottery, Selection::Rank] {
        assert_eq!(selection.to_string().parse(), Ok(selection));
    }
    for publish in [Publish::All, Publish::Staged] {
        assert_eq!(publish.to_string().parse(), Ok(publish));
    }
    for rule in [SubsetRule::Global, SubsetRule::Both, SubsetRule::Off] {
        assert_eq!(rule.to_string().parse(), Ok(rule));
    }
    for policy in Policy::ALL {
        assert_eq!(policy.to_string().parse(), Ok(policy));
    }
    assert_eq!(
        "x".parse::<Publish>().unwrap_err().to_string(),
        "must be one of all, staged"
    );
}

#[test]
fn levels_that_do_not_fit_the_layout_are_named() {
    assert_eq!(
        refused(&sums(), |c| c.timing = Timing::TODAY),
        "timing of 1 levels, the layout has 2"
    );
    let text = refused(&sums(), |c| c.levels.truncate(1));
    assert_eq!(text, "settings of 1 levels, the layout has 2");
    let deep = Layout::with_fan_out(1_000, 2, &[2, 2]).unwrap();
    let info = SchemeInfo::of(&sums(), &deep);
    let mut config = Config::new(deep, &info);
    assert_eq!(config.validate(&info), Ok(()));
    // With multiplicities up to 3 there is no room for rivals that share signers.
    config.levels[2].cover = Cover::Quorum;
    let text = config.validate(&info).unwrap_err().to_string();
    assert!(text.starts_with("cover of level 3 = quorum") && text.ends_with("use best1 or greedy"));
    config.multiplicity_max = 7;
    assert_eq!(config.validate(&info), Ok(()));
}

#[test]
fn blocks_of_one_evidence_need_a_scheme_that_makes_it() {
    assert!(refused(&sums(), |c| c.bundled = true).starts_with("bundled blocks need a scheme"));
    let bundles = bundling();
    let info = SchemeInfo::of(&bundles, &layout());
    let mut config = Config::new(layout(), &info);
    config.bundle(&info);
    assert_eq!(config.validate(&info), Ok(()));
    assert!(config.bundled && config.format(&info).bundle == info.bundle);
    let whole = config.block_bytes_bound(&info);
    assert_eq!(
        refused(&bundles, |c| c.bundled = true),
        "collections_per_block_max = 64, must be 1 to 49"
    );
    // Separate evidence in each entry is longer.
    config.bundled = false;
    assert!(whole < config.block_bytes_bound(&info));
    let text = refused(&bundles, |c| {
        (c.bundled, c.collections_per_block_max, c.block_bytes_max) = (true, 4, 1 << 10);
        c.filler_bytes = 512;
    });
    assert!(
        text.starts_with("block_bytes_max = 1024, must be"),
        "{text}"
    );
    // There is room for each committee.
    let wide = Layout::new(5_000, 50, 2).unwrap();
    let info = SchemeInfo::of(&bundles, &wide);
    let mut config = Config::new(wide, &info);
    config.bundle(&info);
    assert!(!config.bundled && config.inclusion_slots_min() == 1);
    // A scheme without this ability is left unchanged.
    let info = SchemeInfo::of(&sums(), &layout());
    let mut config = Config::new(layout(), &info);
    config.bundle(&info);
    assert!(!config.bundled && config.format(&info).bundle.is_none());
}

/// Proofs that merge, including those of a block.
fn bundling() -> Model {
    let proofs = model(Overlap::Union, Form::Proof, false);
    let mut table = proofs.table().clone();
    table.abilities.bundle_max = Some(49);
    table.merged = Some(alphorn_scheme::model::Merged {
        bytes: 700,
        verify_ns: 1,
    });
    Model::new(table).unwrap()
}

#[test]
fn presets_are_legal_with_the_schemes_that_they_are_for() {
    let proofs = bundling();
    for preset in Preset::ALL {
        assert_eq!(Preset::named(preset.name), Some(preset));
        let scheme = match preset.name {
            "horn-pq" => &proofs,
            _ => &sums(),
        };
        let layout = preset.layout(1 << 20).unwrap();
        let info = SchemeInfo::of(scheme, &layout);
        let config = preset.config(layout, &info);
        assert_eq!(config.validate(&info), Ok(()), "{}", preset.name);
        assert_eq!(config.levels.len(), preset.publishers.len());
        assert_eq!(config.levels.len(), preset.stage_ms.len());
        assert_eq!(config.bundled, preset.name == "horn-pq");
        assert_eq!(layout.levels(), preset.timing.levels());
    }
    assert_eq!(
        Preset::named("horn").unwrap().layout(1 << 20),
        Layout::default_for(1 << 20, None)
    );
    assert_eq!(Preset::named("Horn"), None);
}

/// The second of two committees gets its turn half the spread after the first, at the top level only.
#[test]
fn committees_publish_in_their_turn() {
    let info = SchemeInfo::of(&model(Overlap::Union, Form::Proof, false), &layout());
    let mut config = Config::new(layout(), &info);
    config.levels[1].spread_ms = 3_000;
    let start = Time::from_nanos(7);
    let turn = |level, committee, rank| {
        let serving = Serving {
            validator: Validator(0),
            unit: Unit::new(level, committee, 0),
            proof: None,
            rank,
        };
        config.turn(start, &serving).since_ns(start) / 1_000_000
    };
    assert_eq!(config.level(2).publish, Publish::Staged);
    let stage_ms = config.level(2).stage_ms;
    assert_eq!([turn(2, 0, 0), turn(2, 0, 2)], [0, 2 * stage_ms]);
    assert_eq!(
        [turn(2, 1, 0), turn(2, 1, 2)],
        [1_500, 1_500 + 2 * stage_ms]
    );
    assert_eq!(turn(1, 1, 0), 0);
}
