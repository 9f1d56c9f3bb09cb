use super::*;
use crate::proof::Preset;
use alphorn_stark::KERNELS;
use alphorn_types::Support;
use std::sync::LazyLock;

/// Slots of the battery's small world.
const SLOTS: Range<u64> = 0..8;
/// Maximum number of validators that it requires.
const VALIDATORS: u32 = 32;

static PUBLIC: LazyLock<Registry> = LazyLock::new(|| keys(VALIDATORS).1);

fn keys(validators: u32) -> (Signers, Registry) {
    let exec = Exec::new(KERNELS.measured(), None);
    Signers::interop(Set::Compact, validators, SLOTS, exec).unwrap()
}

/// The compact set, with the first layer that is proved, if any.
struct Compact(Option<Layer>);

fn scheme(proved_from: Option<Layer>) -> Xmss {
    let backend = KERNELS.measured();
    let proofs = Proofs::new(Set::Compact, Preset::FAST);
    match proved_from {
        None => Xmss::new(Set::Compact, backend),
        Some(Layer::Aggregate) => Xmss::with_proofs_of_cells(proofs, backend),
        Some(Layer::Collection) => Xmss::with_proofs(proofs, backend),
    }
}

impl alphorn_scheme::battery::Fixture for Compact {
    type S = Xmss;

    fn scheme(&self) -> Xmss {
        scheme(self.0)
    }

    fn registry(&self, validators: u32) -> Registry {
        assert!(validators <= VALIDATORS, "the fixture has fewer keys");
        let n = validators as usize;
        let keys = |purpose| {
            let key = |i| *PUBLIC.key(purpose, Validator(i as u32)).unwrap();
            (0..n).map(key).collect()
        };
        Registry::new(keys(Purpose::Vote), keys(Purpose::Duty))
    }

    fn signers(&self, validators: u32) -> Signers {
        keys(validators).0
    }
}

alphorn_scheme::battery!(compact_lists, Compact(None));
alphorn_scheme::battery!(compact_proofs, Compact(Some(Layer::Collection)));
alphorn_scheme::battery!(compact_proofs_of_cells, Compact(Some(Layer::Aggregate)));

#[test]
fn committees_above_the_maximum_are_refused() {
    let validators = COMMITTEE_MAX + 1;
    let layout = alphorn_types::Layout::new(validators, 1, 1).unwrap();
    let members = (0..validators).collect();
    let assignment = Assignment::new(alphorn_types::Epoch(0), layout, members).unwrap();
    let keys = vec![*PUBLIC.key(Purpose::Vote, Validator(0)).unwrap(); validators as usize];
    let registry = Arc::new(Registry::new(keys.clone(), keys));
    let scheme = Xmss::new(Set::Compact, Backend::Portable);
    let refused = scheme.keys(&registry, &Arc::new(assignment), &mut Ctx::single(&mut ()));
    let expected = SchemeError::CommitteeSize {
        size: COMMITTEE_MAX + 1,
        max: COMMITTEE_MAX,
    };
    assert_eq!(refused.err(), Some(expected));
}

/// The keys of a layout with members in order, and lists of votes of its cells at slot 3.
struct Small {
    scheme: Xmss,
    keys: EpochKeys,
    parts: Vec<Part>,
    statement: Statement,
}

const MESSAGE: [u8; 32] = [4; 32];

fn small(proved_from: Layer) -> Small {
    let scheme = scheme(Some(proved_from));
    let layout = alphorn_types::Layout::new(12, 1, 3).unwrap();
    let members = (0..12).collect();
    let assignment = Arc::new(Assignment::new(alphorn_types::Epoch(0), layout, members).unwrap());
    let (signers, registry) = keys(12);
    let mut scratch = ();
    let mut ctx = Ctx::single(&mut scratch);
    let keys = scheme
        .keys(&Arc::new(registry), &assignment, &mut ctx)
        .unwrap();
    let exec = Exec::new(KERNELS.measured(), None);
    let vote = |validator: u32| -> Bytes {
        let key = signers.key(Validator(validator), Purpose::Vote).unwrap();
        key.sign_index(3, &MESSAGE, exec).unwrap().to_bytes().into()
    };
    let statement = Statement {
        layer: Layer::Collection,
        first: 0,
        len: 12,
        slot: Slot(3),
        message: MESSAGE,
    };
    let parts = (0..3u32).map(|cell| {
        let offset = 4 * cell;
        let cell = Statement {
            layer: Layer::Aggregate,
            first: offset,
            len: 4,
            ..statement
        };
        let votes: Vec<_> = (1..4).map(|i| (i, vote(offset + i))).collect();
        let evidence = scheme.aggregate(&keys, &cell, &votes, &mut Ctx::single(&mut ()));
        Part {
            offset,
            layer: Layer::Aggregate,
            evidence: evidence.unwrap(),
        }
    });
    let parts = parts.collect();
    Small {
        scheme,
        keys,
        parts,
        statement,
    }
}

#[test]
fn a_list_that_does_not_hold_is_named_before_anything_is_proved() {
    let Small {
        scheme,
        keys,
        mut parts,
        statement,
    } = small(Layer::Collection);
    let combine = |parts: &[Part], statement: &Statement| {
        scheme.combine(&keys, statement, parts, 1, &mut Ctx::single(&mut ()))
    };
    let honest = parts[2].evidence.bytes.to_vec();
    for (at, change) in [(honest.len() / 2, 1), (honest.len() - 1, 0xff)] {
        let mut bytes = honest.clone();
        bytes[at] ^= change;
        parts[2].evidence.bytes = bytes.into();
        let refused = combine(&parts, &statement);
        assert_eq!(refused, Err(SchemeError::Malformed(2)), "byte {at}");
    }
    let elsewhere = Statement {
        len: 13,
        ..statement
    };
    let refused = combine(&parts[..1], &elsewhere).unwrap_err();
    assert!(refused.to_string().contains("no unit"), "{refused}");
}

#[test]
fn proofs_merge_to_the_union_and_a_stop_is_obeyed() {
    let Small {
        scheme,
        keys,
        parts,
        statement,
    } = small(Layer::Collection);
    let combine =
        |parts: &[Part]| scheme.combine(&keys, &statement, parts, 1, &mut Ctx::single(&mut ()));
    let proved = |evidence: Evidence| Part {
        offset: 0,
        layer: Layer::Collection,
        evidence,
    };
    // Two proofs that overlap in a cell, and the list of the third cell.
    let first = proved(combine(&parts[..2]).unwrap());
    let second = proved(combine(&parts[1..2]).unwrap());
    let merged = combine(&[first.clone(), second, parts[2].clone()]).unwrap();
    assert_eq!(merged.support.signer_count(), 9);
    assert_eq!(merged.bytes[0], list::TAG_MERGE);
    let holds = |evidence: &Evidence| {
        let claim = Claim::Group {
            statement,
            evidence: evidence.clone(),
        };
        let prepared = scheme.prepare(&keys, &[claim], &[0; 32], &mut Ctx::single(&mut ()));
        scheme.check(&keys, &prepared, 0..1)
    };
    assert!(holds(&merged));
    let mut fewer = merged.clone();
    fewer.support = first.evidence.support.clone();
    assert!(!holds(&fewer));
    let mut broken = first;
    let mut bytes = broken.evidence.bytes.to_vec();
    bytes[90_000] ^= 1;
    broken.evidence.bytes = bytes.into();
    let refused = combine(&[proved(merged), broken]);
    assert_eq!(refused, Err(SchemeError::Malformed(1)));
    let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build();
    let stop = alphorn_exec::Stop::default();
    stop.stop();
    let pool = pool.unwrap();
    let mut scratch = ();
    let mut ctx = Ctx::pooled(&pool, stop, Arc::default(), &mut scratch);
    let stopped = scheme.combine(&keys, &statement, &parts, 1, &mut ctx);
    assert_eq!(stopped, Err(SchemeError::Stopped));
}

#[test]
fn proofs_of_cells_merge_and_a_merge_is_no_aggregate() {
    let Small {
        scheme,
        keys,
        parts,
        statement,
    } = small(Layer::Aggregate);
    assert!(parts.iter().all(|p| p.evidence.bytes[0] == list::TAG_PROOF));
    let combine =
        |parts: &[Part]| scheme.combine(&keys, &statement, parts, 1, &mut Ctx::single(&mut ()));
    let holds = |statement: Statement, evidence: &Evidence| {
        let claim = Claim::Group {
            statement,
            evidence: evidence.clone(),
        };
        let prepared = scheme.prepare(&keys, &[claim], &[0; 32], &mut Ctx::single(&mut ()));
        scheme.check(&keys, &prepared, 0..1)
    };
    // One proof is all the committee needs, and is returned unchanged.
    let alone = combine(&parts[1..2]).unwrap();
    assert_eq!(alone.bytes, parts[1].evidence.bytes);
    assert_eq!(
        alone.support.signers().iter_ones().collect::<Vec<_>>(),
        [5, 6, 7]
    );
    assert!(holds(statement, &alone));
    // Two proofs of the same cell, as sent by rival publishers.
    let merged = combine(&[parts[1].clone(), parts[1].clone()]).unwrap();
    assert_eq!(merged.bytes[0], list::TAG_MERGE);
    assert!(holds(statement, &merged));
    let cell = Statement {
        layer: Layer::Aggregate,
        first: 4,
        len: 4,
        ..statement
    };
    assert!(holds(cell, &parts[1].evidence));
    for tag in [list::TAG_MERGE, list::TAG_PROOF] {
        let mut bytes = merged.bytes.to_vec();
        bytes[0] = tag;
        let bytes: Bytes = bytes.into();
        let as_tagged = |support| Evidence {
            support,
            bytes: bytes.clone(),
        };
        let of_cell = as_tagged(parts[1].evidence.support.clone());
        assert!(!holds(cell, &of_cell), "tag {tag}");
        // Evidence of the whole committee has one tag.
        let of_all = as_tagged(merged.support.clone());
        assert_eq!(holds(statement, &of_all), tag == list::TAG_MERGE);
    }
    let elsewhere = Part {
        offset: 9,
        ..parts[1].clone()
    };
    let refused = combine(&[parts[0].clone(), elsewhere]);
    assert_eq!(refused, Err(SchemeError::Malformed(1)));
    let list = combine(&[]);
    assert_eq!(list, Err(SchemeError::Empty));
}

#[test]
fn evidence_of_a_group_leaves_room_for_merges_above_it() {
    let proofs = Proofs::new(Set::Compact, Preset::FAST);
    let most = |validators, fan_out: &[u16], level| {
        let layout = alphorn_types::Layout::with_fan_out(validators, 1, fan_out).unwrap();
        collection::merges_max(&proofs, &layout, level)
    };
    // Eight cells need two merge levels, as do eight groups; seven need one, and the two left over go one to
    // each level.
    assert_eq!(most(1 << 15, &[8, 8], 2), Some(2));
    assert_eq!(most(1 << 15, &[8, 8], 3), Some(4));
    assert_eq!(most(1 << 15, &[7, 7], 2), Some(2));
    assert_eq!(most(1 << 15, &[7, 7], 3), Some(4));
    // With lists, a group of 16,384 is 22 proofs.
    assert_eq!(most(1 << 15, &[2, 1], 2), Some(2));
    assert_eq!(most(1 << 15, &[64], 2), Some(4));
    assert_eq!(most(1 << 15, &[8, 8, 4], 4), None);
    // A group of three cells, whose publisher merged its merge once more than others can take.
    let mut small = small(Layer::Aggregate);
    let layout = alphorn_types::Layout::with_fan_out(12, 1, &[2, 4]).unwrap();
    let members = (0..12).collect();
    let assignment = Assignment::new(alphorn_types::Epoch(0), layout, members).unwrap();
    let mut scratch = ();
    let mut ctx = Ctx::single(&mut scratch);
    let registry = small.keys.registry.clone();
    let keys = small
        .scheme
        .keys(&registry, &Arc::new(assignment), &mut ctx);
    small.keys = keys.unwrap();
    let group = Statement {
        len: 6,
        ..small.statement
    };
    let holds = |evidence: &Evidence| {
        let claim = Claim::Group {
            statement: group,
            evidence: evidence.clone(),
        };
        let (scheme, keys) = (&small.scheme, &small.keys);
        let prepared = scheme.prepare(keys, &[claim], &[0; 32], &mut Ctx::single(&mut ()));
        scheme.check(keys, &prepared, 0..1)
    };
    let combine = |parts: &[Part]| {
        let scheme = &small.scheme;
        scheme.combine(&small.keys, &group, parts, 1, &mut Ctx::single(&mut ()))
    };
    let again = |evidence: &Evidence| Part {
        offset: 0,
        layer: Layer::Collection,
        evidence: evidence.clone(),
    };
    let level = |evidence: &Evidence| {
        let shape = proofs.merge_shape(&evidence.bytes[1..]).unwrap();
        shape.map_or(0, |shape| shape.level)
    };
    let first = combine(&[small.parts[0].clone(), small.parts[0].clone()]).unwrap();
    let second = combine(&[again(&first), again(&first)]).unwrap();
    assert_eq!((level(&first), level(&second)), (1, 2));
    assert!(holds(&first) && holds(&second));
    // A piece that does not fit is left out, and returned unchanged.
    let third = combine(&[again(&second), again(&second)]).unwrap();
    assert_eq!(third.bytes, second.bytes);
    // Its header alone is sufficient.
    let header = Evidence {
        bytes: second.bytes[..16].to_vec().into(),
        ..second.clone()
    };
    let low = small.parts[0].clone();
    let kept = combine(&[again(&header), low.clone()]).unwrap();
    assert_eq!(kept.bytes, low.evidence.bytes);
    let registry = &small.keys.committees[0];
    let mut signers = small.parts[0].evidence.support.place(12, 0).signers();
    let pieces = [(&signers, &*second.bytes), (&signers, &*second.bytes)];
    let exec = Exec::new(KERNELS.measured(), None);
    let higher = proofs.merge_evidence(exec, registry, 3, &MESSAGE, &pieces);
    signers = signers.extract(0..6);
    let higher = Evidence {
        support: Support::from_bits(signers).into(),
        bytes: higher.unwrap().into(),
    };
    assert_eq!(level(&higher), 3);
    assert!(!holds(&higher), "too high for a group");
    let whole = Claim::Group {
        statement: small.statement,
        evidence: Evidence {
            support: higher.support.place(12, 0).into(),
            bytes: higher.bytes.clone(),
        },
    };
    let (scheme, keys) = (&small.scheme, &small.keys);
    let prepared = scheme.prepare(keys, &[whole], &[0; 32], &mut Ctx::single(&mut ()));
    assert!(scheme.check(keys, &prepared, 0..1), "not for a committee");
}

#[test]
#[should_panic(expected = "do not merge")]
fn proofs_that_do_not_merge_prove_no_cells() {
    let proofs = Proofs::new(Set::Compact, Preset::SMALL);
    Xmss::with_proofs_of_cells(proofs, Backend::Portable);
}

/// Merges are accepted whatever the preset, so evidence is only as secure as the weaker of proof and merge.
#[test]
fn the_bits_are_the_least_of_proofs_and_merges() {
    let sets = Set::ALL
        .into_iter()
        .flat_map(|set| [Preset::FAST, Preset::SMALL].map(|preset| (set, preset)));
    for (set, preset) in sets {
        let proofs = Proofs::new(set, preset);
        let bits = [Some(proofs.security()), proofs.merge_security()]
            .map(|table| table.unwrap().least_bits());
        let least = bits[0].min(bits[1]);
        let security = Xmss::with_proofs(proofs, Backend::Portable).security();
        let said = format!("{least:.1} bits in its weakest round");
        assert!(security.proven.contains(&said), "{set}: {bits:?}");
        assert!(f64::from(security.classical_bits) <= least, "{set}");
    }
}

#[test]
fn costs_of_proofs_have_the_steps_of_their_filling() {
    let [lists, proofs, cells] =
        [None, Some(Layer::Collection), Some(Layer::Aggregate)].map(scheme);
    let collect = |m| proofs.cost(Op::Collect, 1, m).ns - lists.cost(Op::Collect, 1, m).ns;
    assert_eq!(collect(1), collect(63));
    assert!(collect(65) > collect(64) + 50_000_000, "a group");
    assert!(collect(1473) > collect(1472) + 200_000_000, "a proof");
    // A merge has its own cost, whatever was proved before; additional signatures are proved first.
    let merge = |n, m| proofs.cost(Op::Merge, n, m).ns;
    assert!(merge(2, 0) < merge(4, 0) && merge(4, 0) < merge(7, 0));
    let second_level = merge(8, 0) - merge(7, 0);
    assert!(
        second_level > merge(2, 0),
        "eight are two merges and one of both"
    );
    assert!(merge(2, 500) > merge(3, 0) + collect(500), "raw signatures");
    let merged = proofs.merged().unwrap();
    assert!(merged.verify_ns > proofs.cost(Op::VerifyCollections, 1, 700).ns);
    assert!(merged.bytes < 250_000 && lists.merged().is_none());
    let verify = |n, m| proofs.cost(Op::VerifyCollections, n, m).ns;
    assert!(verify(1, 20_000) > 10 * verify(1, 1000));
    assert!(verify(1, 1000) < lists.cost(Op::VerifyCollections, 1, 1000).ns);
    let abilities = proofs.abilities();
    assert_eq!(abilities.overlap, [Overlap::Union, Overlap::Union]);
    assert_eq!(abilities.security.classical_bits, 122);
    assert_eq!(cells.abilities().layers, [Form::Proof; 2]);
    let cell = |n| cells.cost(Op::Aggregate, n, 0).ns;
    assert!(cell(65) > cell(64) + 50_000_000, "a group");
    let merge = |n| cells.cost(Op::Collect, n, 0).ns;
    assert!(merge(8) > merge(7) + 2_000_000_000, "two more merges");
    // A merge takes the same time to verify whatever was merged, and longer than a proof of a cell.
    for op in [Op::VerifyAggregates, Op::VerifyCollections] {
        let verify = |n, m| cells.cost(op, n, m).ns;
        assert!(verify(1, 769) > verify(1, 768) + 10_000_000, "{op}");
        assert_eq!(verify(1, 769), verify(1, 32_768));
        assert_eq!(verify(7, 7 * 512), 7 * verify(1, 512));
    }
}
