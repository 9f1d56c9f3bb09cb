//! The battery of schemes, and what is Falcon's own.

use super::*;
use alphorn_labrador::KERNELS;
use std::sync::LazyLock;

/// Most validators that the battery asks for.
const VALIDATORS: u32 = 32;

static PUBLIC: LazyLock<Registry> =
    LazyLock::new(|| Signers::interop(VALIDATORS, Exec::serial()).1);
static SCHEMES: LazyLock<[Falcon; 2]> = LazyLock::new(|| {
    [Collections::Lists, Collections::Proofs].map(|c| Falcon::new(c, KERNELS.measured()))
});

fn key(validator: u32) -> &'static PublicKey {
    PUBLIC.key(Validator(validator)).expect("one of the few")
}

struct Fixed(Collections);

impl alphorn_scheme::battery::Fixture for Fixed {
    type S = Falcon;

    fn scheme(&self) -> Falcon {
        SCHEMES[usize::from(self.0 == Collections::Proofs)].clone()
    }

    fn registry(&self, validators: u32) -> Registry {
        assert!(validators <= VALIDATORS, "the fixture has fewer keys");
        Registry::new((0..validators).map(|v| key(v).clone()).collect())
    }

    fn signers(&self, validators: u32) -> Signers {
        Signers::interop(validators, Exec::serial()).0
    }
}

alphorn_scheme::battery!(lists, Fixed(Collections::Lists));
alphorn_scheme::battery!(proofs, Fixed(Collections::Proofs));

fn world(validators: u32, committees: u16) -> (Arc<Registry>, Arc<Assignment>) {
    let layout = alphorn_types::Layout::new(validators, committees, 1).expect("a layout");
    let members = (0..validators).collect();
    let assignment = Assignment::new(alphorn_types::Epoch(0), layout, members);
    let keys = vec![key(0).clone(); validators as usize];
    let assignment = assignment.expect("a permutation");
    (Arc::new(Registry::new(keys)), Arc::new(assignment))
}

#[test]
fn committees_above_the_maximum_are_refused() {
    let (registry, assignment) = world(COMMITTEE_MAX + 1, 1);
    let refused = SCHEMES[0].keys(&registry, &assignment, &mut Ctx::single(&mut ()));
    let expected = SchemeError::CommitteeSize {
        size: COMMITTEE_MAX + 1,
        max: COMMITTEE_MAX,
    };
    assert_eq!(refused.err(), Some(expected));
}

#[test]
fn proofs_do_not_merge_and_say_why() {
    let (registry, assignment) = world(4, 1);
    let scheme = &SCHEMES[1];
    let mut scratch = ();
    let mut ctx = Ctx::single(&mut scratch);
    let keys = scheme
        .keys(&registry, &assignment, &mut ctx)
        .expect("legal");
    let statement = Statement {
        layer: Layer::Collection,
        first: 0,
        len: 4,
        slot: Slot(1),
        message: [1; 32],
    };
    let support = Support::from_multiplicities(&[1, 0, 0, 0]).expect("one signer");
    let part = Part {
        offset: 0,
        layer: Layer::Collection,
        evidence: Evidence {
            support: Arc::new(support),
            bytes: vec![list::TAG_PROOF; 100].into(),
        },
    };
    let merged = scheme.combine(&keys, &statement, &[part.clone(), part], 1, &mut ctx);
    let Err(SchemeError::Unsupported { scheme, what }) = merged else {
        panic!("proofs merged: {merged:?}");
    };
    assert_eq!(scheme, "falcon");
    assert!(what.starts_with("merge proofs"), "{what}");
}
