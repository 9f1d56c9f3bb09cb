use super::{Cell, LEVELS_MAX, Layout, LayoutError, Unit};
use proptest::prelude::*;

fn shape(validators: u32, committee_max: Option<u32>) -> (u16, u16) {
    let layout = Layout::default_for(validators, committee_max).unwrap();
    (layout.committees(), layout.subcommittees())
}

#[test]
fn cells_partition_the_positions() {
    let shapes = [(1, 1), (1, 2), (3, 7), (32, 64), (64, 32), (512, 128)];
    for n in [1, 5, 2047, 2048, 2049, 392_036, 1_000_007] {
        for (c, s) in shapes {
            let layout = Layout::new(n, c, s).unwrap();
            let mut next = 0;
            for cell in layout.cells() {
                let range = layout.cell_range(cell);
                assert_eq!(range.start, next);
                next = range.end;
                let len = range.end - range.start;
                assert_eq!(len, layout.cell_len(cell));
                assert!(len <= layout.cell_len_max() && len + 1 >= layout.cell_len_max());
                let inside = layout.cell_in_committee(cell);
                let committee = layout.committee_range(cell.committee);
                assert_eq!(committee.start + inside.start, range.start);
                assert!(inside.end <= layout.committee_len(cell.committee));
                for position in [range.start, range.end.saturating_sub(1)] {
                    if range.contains(&position) {
                        assert_eq!(layout.cell_of(position), cell);
                    }
                }
            }
            assert_eq!(next, n);
            for committee in 0..c {
                let range = layout.committee_range(committee);
                let (n, c, i) = (u64::from(n), u64::from(c), u64::from(committee));
                assert_eq!(u64::from(range.start), n * i / c);
                assert_eq!(u64::from(range.end), n * (i + 1) / c);
                assert!(range.end - range.start <= layout.committee_len_max());
            }
        }
    }
}

#[test]
fn defaults_follow_the_number_of_validators() {
    assert_eq!(shape(1 << 20, None), (32, 64));
    assert_eq!(shape(1 << 20, Some(20_000)), (64, 32));
    assert_eq!(shape(1 << 20, Some(1 << 15)), (32, 64));
    assert_eq!(shape(1_000, None), (1, 2));
    assert_eq!(shape(1, None), (1, 1));
    assert_eq!(shape(1 << 22, None), (128, 64));
}

#[test]
fn values_outside_the_bounds_are_named() {
    let max = super::VALIDATORS_MAX;
    assert_eq!(
        Layout::new(0, 1, 1),
        Err(LayoutError::Validators { value: 0, max })
    );
    assert_eq!(
        Layout::new(max + 1, 1, 1),
        Err(LayoutError::Validators {
            value: max + 1,
            max
        })
    );
    assert!(Layout::default_for(max + 1, None).is_err());
    assert!(Layout::new(1, 0, 1).is_err());
    assert!(Layout::new(1, 2049, 1).is_err());
    assert!(Layout::new(1, 1, 0).is_err());
    assert!(Layout::new(1, 1, 257).is_err());
    assert_eq!(
        Layout::new(1, 512, 256).map_err(|e| e.to_string()),
        Err("committees x subcommittees = 131072, must be at most 65536".to_owned())
    );
    assert!(Layout::default_for(1_000, Some(0)).is_err());
    assert_eq!(
        Layout::default_for(4_000, Some(1)),
        Err(LayoutError::Committees {
            value: 4_096,
            max: 2_048
        })
    );
}

#[test]
fn empty_cells_are_skipped_by_cell_of() {
    let layout = Layout::new(5, 4, 4).unwrap();
    let filled = layout.cells().filter(|&c| layout.cell_len(c) == 1).count();
    assert_eq!(filled, 5);
    assert_eq!(
        layout.cell_of(4),
        Cell {
            committee: 3,
            subcommittee: 3
        }
    );
}

#[test]
fn one_level_has_cells_that_are_committees() {
    let layout = Layout::with_fan_out(1_000, 3, &[]).unwrap();
    assert_eq!((layout.levels(), layout.subcommittees()), (1, 1));
    assert_ne!(layout, Layout::new(1_000, 3, 1).unwrap(), "that has two");
    for unit in layout.units(1) {
        assert_eq!(unit, layout.committee(unit.committee));
        assert_eq!(layout.parent(unit), None);
    }
}

#[test]
fn too_many_levels_and_empty_groups_are_named() {
    let max = LEVELS_MAX;
    assert_eq!(
        Layout::with_fan_out(9, 1, &[1; 4]),
        Err(LayoutError::Levels { value: 5, max })
    );
    let error = Layout::with_fan_out(9, 1, &[4, 0]).unwrap_err();
    assert_eq!(error.to_string(), "subcommittees = 0, must be 1 to 256");
    let error = Layout::with_fan_out(9, 1, &[u16::MAX; 3]).unwrap_err();
    assert!(error.to_string().ends_with("must be 1 to 256"), "{error}");
}

proptest! {
    /// Units of each level are contiguous, each is the union of its parts, and a position is in
    /// exactly one.
    #[test]
    fn units_nest_and_tile(
        n in 1u32..5_000,
        committees in 1u16..9,
        fan_out in proptest::collection::vec(1u16..7, 0..4),
        at in any::<prop::sample::Index>(),
    ) {
        let layout = Layout::with_fan_out(n, committees, &fan_out);
        prop_assume!(layout.is_ok());
        let layout = layout.unwrap();
        prop_assert_eq!(layout.fan_out(), fan_out);
        let position = at.index(n as usize) as u32;
        for level in 1..=layout.levels() {
            let mut next = 0;
            for unit in layout.units(level) {
                let range = layout.unit_range(unit);
                prop_assert!(layout.has_unit(unit));
                prop_assert_eq!(range.start, next);
                next = range.end;
                let len = layout.unit_len(unit);
                let max = layout.unit_len_max(level);
                prop_assert!(len <= max && len + 1 >= max);
                prop_assert_eq!(layout.unit_at(level, position) == unit, range.contains(&position));
                let parts: Vec<Unit> = layout.parts(unit).collect();
                prop_assert_eq!(parts.is_empty(), level == 1);
                prop_assert!(parts.iter().all(|part| layout.parent(*part) == Some(unit)));
                if let (Some(first), Some(last)) = (parts.first(), parts.last()) {
                    prop_assert_eq!(layout.unit_range(*first).start, range.start);
                    prop_assert_eq!(layout.unit_range(*last).end, range.end);
                }
                prop_assert_eq!(layout.parent(unit).is_none(), level == layout.levels());
            }
            prop_assert_eq!(next, n);
        }
    }
}
