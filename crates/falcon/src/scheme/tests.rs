//! The battery of schemes, and what is Falcon's own.

use super::*;
use alphorn_labrador::KERNELS;
use std::sync::LazyLock;

/// Most validators that the battery asks for.
const VALIDATORS: u32 = 32;

static PUBLIC: LazyLock<[Registry; 3]> = LazyLock::new(|| {
    Flavour::ALL.map(|flavour| Signers::interop(flavour, VALIDATORS, Exec::serial()).1)
});
static SCHEMES: LazyLock<[Falcon; 2]> = LazyLock::new(|| {
    [Collections::Lists, Collections::Proofs].map(|c| Falcon::new(c, KERNELS.measured()))
});

fn key_of(flavour: Flavour, validator: u32) -> &'static PublicKey {
    let keys = &PUBLIC[usize::from(flavour.id())];
    keys.key(Validator(validator)).expect("one of the few")
}

fn key(validator: u32) -> &'static PublicKey {
    key_of(Flavour::default(), validator)
}

struct Fixed(Flavour, Collections);

impl alphorn_scheme::battery::Fixture for Fixed {
    type S = Falcon;

    fn scheme(&self) -> Falcon {
        // The aggregators are shared: no flavour changes them.
        let scheme = SCHEMES[usize::from(self.1 == Collections::Proofs)].clone();
        scheme.with_flavour(self.0)
    }

    fn registry(&self, validators: u32) -> Registry {
        assert!(validators <= VALIDATORS, "the fixture has fewer keys");
        let key = |v| key_of(self.0, v).clone();
        Registry::new((0..validators).map(key).collect())
    }

    fn signers(&self, validators: u32) -> Signers {
        Signers::interop(self.0, validators, Exec::serial()).0
    }
}

alphorn_scheme::battery!(lists, Fixed(Flavour::FnDsa, Collections::Lists));
alphorn_scheme::battery!(proofs, Fixed(Flavour::FnDsa, Collections::Proofs));
alphorn_scheme::battery!(slot_lists, Fixed(Flavour::Slot, Collections::Lists));
alphorn_scheme::battery!(slot_proofs, Fixed(Flavour::Slot, Collections::Proofs));

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

#[test]
fn keys_of_another_flavour_are_refused() {
    let (registry, assignment) = world(4, 1);
    for flavour in [Flavour::Original, Flavour::Slot] {
        let scheme = SCHEMES[0].clone().with_flavour(flavour);
        let refused = scheme.keys(&registry, &assignment, &mut Ctx::single(&mut ()));
        let refused = refused.err().expect("keys of the draft");
        assert!(refused.to_string().contains("another flavour"), "{refused}");
        let signers = Signers::interop(Flavour::FnDsa, 1, Exec::serial()).0;
        let item = SignItem::new(Validator(0), Role::Vote, [1; 32]);
        let permits = vec![Reservation::issue(Slot(1), &item)];
        let mut scratch = ();
        let mut ctx = Ctx::single(&mut scratch);
        let signed = scheme.sign(&signers, Slot(1), &[item], permits, &mut ctx);
        assert_eq!(signed.err(), Some(SchemeError::UnknownSigner(0)));
    }
}

/// What a collection takes: the salts go, and nothing comes instead.
#[test]
fn collections_without_salts_are_shorter_by_the_salts() {
    let bytes = |flavour, n| {
        let scheme = SCHEMES[1].clone().with_flavour(flavour);
        match scheme.evidence_length(Layer::Collection, n) {
            EvidenceLength::Max(bytes) => bytes,
            other => panic!("a length of {other:?}"),
        }
    };
    for n in [1, 512, 10_000, 16_384] {
        let salts = n as usize * crate::SALT_BYTES;
        assert_eq!(bytes(Flavour::FnDsa, n) - bytes(Flavour::Slot, n), salts);
    }
    assert!(bytes(Flavour::Slot, 16_384) <= 100_000);
}

/// A permit that is lost, of something else, or given out before gives no signature without salts.
#[test]
fn a_lost_or_a_doubled_permit_gives_no_signature() {
    let item = SignItem::new(Validator(0), Role::Vote, [1; 32]);
    let other = SignItem::new(Validator(0), Role::Vote, [2; 32]);
    let duty = SignItem::new(Validator(0), Role::Aggregate, [1; 32]);
    let sign = |flavour, permits| {
        let scheme = SCHEMES[0].clone().with_flavour(flavour);
        let signers = Signers::interop(flavour, 1, Exec::serial()).0;
        let mut scratch = ();
        let mut ctx = Ctx::single(&mut scratch);
        let signed = scheme.sign(&signers, Slot(1), &[item], permits, &mut ctx);
        signed.map(|signatures| signatures.iter().next().map(<[u8]>::to_vec))
    };
    let refused = Err(SchemeError::WrongReservation(0));
    for flavour in Flavour::ALL {
        assert_eq!(sign(flavour, vec![]), refused, "lost");
        for wrong in [
            Reservation::issue(Slot(2), &item),
            Reservation::issue(Slot(1), &other),
            Reservation::issue(Slot(1), &duty),
        ] {
            assert_eq!(sign(flavour, vec![wrong]), refused);
        }
        let first = sign(flavour, vec![Reservation::issue(Slot(1), &item)]);
        assert!(first.is_ok());
        // A store of XMSS keys gives the last slot out again, since there the signature is the same.
        let again = sign(flavour, vec![Reservation::issue_again(Slot(1), &item)]);
        match flavour {
            Flavour::Slot => assert_eq!(again, refused, "doubled"),
            _ => assert_eq!(again, first),
        }
    }
}
