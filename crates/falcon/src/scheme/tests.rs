//! The battery of scheme tests, and tests specific to Falcon.

use alphorn_types::Validator;

use super::*;
use crate::aggregate::AggregateError;
use crate::budget::{errors, log2_sum};
use crate::codec::{encode_key, encode_signature};
use crate::plain::verify;
use crate::ring::Polys;
use crate::{DEGREE, MODULUS, Parameters, Preset, SALT_BYTES};
use alphorn_labrador::KERNELS;
use std::sync::{Barrier, LazyLock};

/// Maximum number of validators that the battery requests.
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
        // The aggregators are shared: they do not depend on the flavour.
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
    let keys = vec![key(0).clone(); validators as usize];
    let registry = Registry::new(keys);
    (Arc::new(registry), assignment(validators, committees))
}

fn assignment(validators: u32, committees: u16) -> Arc<Assignment> {
    let layout = alphorn_types::Layout::new(validators, committees, 1).expect("a layout");
    let members = (0..validators).collect();
    let assignment = Assignment::new(alphorn_types::Epoch(0), layout, members);
    Arc::new(assignment.expect("a permutation"))
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

/// The size of a collection: the salts disappear, and nothing replaces them.
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

/// A permit that is lost, for something else, or given out before yields no signature without salts.
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
        // A store of XMSS keys gives the last slot out again, since its signature is the same.
        let again = sign(flavour, vec![Reservation::issue_again(Slot(1), &item)]);
        match flavour {
            Flavour::Slot => assert_eq!(again, refused, "doubled"),
            _ => assert_eq!(again, first),
        }
    }
}

/// A salt follows from the key, the message and the secret of the signers. Two nodes with one key, or one that
/// was restarted, do not sign with the same salt, and a secret makes every signature different.
#[test]
fn salts_differ_where_secrets_do() {
    let items = [(Role::Vote, [1; 32]), (Role::Block, [1; 32])];
    let items = items.map(|(role, message)| SignItem::new(Validator(0), role, message));
    let sign = |flavour, slot, secret: Option<[u8; 32]>| {
        let scheme = SCHEMES[0].clone().with_flavour(flavour);
        let signers = Signers::interop(flavour, 1, Exec::serial()).0;
        let signers = match secret {
            Some(secret) => signers.with_secret(secret),
            None => signers,
        };
        let permits = items.map(|item| Reservation::issue(Slot(slot), &item));
        let mut scratch = ();
        let mut ctx = Ctx::single(&mut scratch);
        let signed = scheme.sign(&signers, Slot(slot), &items, permits.into(), &mut ctx);
        let signed: Vec<Vec<u8>> = signed.expect("a key").iter().map(<[u8]>::to_vec).collect();
        signed
    };
    for flavour in [Flavour::FnDsa, Flavour::Original] {
        let all = [
            (1, None),
            (1, Some([1; 32])),
            (1, Some([2; 32])),
            (2, Some([1; 32])),
        ];
        let signed = all.map(|(slot, secret)| sign(flavour, slot, secret));
        let salts = signed
            .iter()
            .flatten()
            .map(|signature| &signature[1..=SALT_BYTES]);
        let salts: std::collections::BTreeSet<&[u8]> = salts.collect();
        // Without a secret there are only key and message, which are the same in both roles.
        assert_eq!(signed[0][0], signed[0][1]);
        assert_eq!(salts.len(), 2 * all.len() - 1, "{flavour:?}");
        assert_eq!(
            sign(flavour, 1, Some([1; 32])),
            signed[1],
            "the same secret"
        );
    }
    let slot = |secret| sign(Flavour::Slot, 1, secret);
    assert_eq!(
        slot(Some([1; 32])),
        slot(None),
        "this flavour takes no entropy"
    );
}

const MESSAGE: [u8; 32] = [1; 32];

/// Eight members of one committee, in the flavour whose targets do not depend on the key.
struct Committee {
    scheme: Falcon,
    keys: EpochKeys,
    signatures: Vec<Vec<u8>>,
}

impl Committee {
    /// Creates a committee with foreign keys and signatures at some positions.
    fn new(others: &[(usize, &(PublicKey, Vec<u8>))]) -> Committee {
        let flavour = Flavour::Original;
        let scheme = SCHEMES[1].clone().with_flavour(flavour);
        let mut members: Vec<PublicKey> = (0..8).map(|v| key_of(flavour, v).clone()).collect();
        let signers = Signers::interop(flavour, 8, Exec::serial()).0;
        let mut signatures = Vec::new();
        for validator in 0..8 {
            let item = SignItem::new(Validator(validator), Role::Vote, MESSAGE);
            let permits = vec![Reservation::issue(Slot(1), &item)];
            let mut scratch = ();
            let mut ctx = Ctx::single(&mut scratch);
            let signed = scheme.sign(&signers, Slot(1), &[item], permits, &mut ctx);
            signatures.extend(signed.expect("a key").iter().map(<[u8]>::to_vec));
        }
        for (place, (key, signature)) in others {
            members[*place] = key.clone();
            signatures[*place].clone_from(signature);
        }
        let registry = Arc::new(Registry::new(members));
        let mut scratch = ();
        let keys = scheme.keys(&registry, &assignment(8, 1), &mut Ctx::single(&mut scratch));
        Committee {
            keys: keys.expect("legal"),
            scheme,
            signatures,
        }
    }

    fn statement() -> Statement {
        Statement {
            layer: Layer::Collection,
            first: 0,
            len: 8,
            slot: Slot(1),
            message: MESSAGE,
        }
    }

    /// Returns a list of four of them.
    fn part(&self, offset: usize) -> Part {
        let signatures = self.signatures[offset..offset + 4].concat();
        let support = Support::from_multiplicities(&[1; 4]).expect("four signers");
        Part {
            offset: offset as u32,
            layer: Layer::Aggregate,
            evidence: Evidence {
                support: Arc::new(support),
                bytes: [&[list::TAG_LIST][..], &signatures].concat().into(),
            },
        }
    }

    fn combine(&self, parts: &[Part]) -> Result<Evidence, SchemeError> {
        let mut scratch = ();
        let mut ctx = Ctx::single(&mut scratch);
        (self.scheme).combine(&self.keys, &Self::statement(), parts, 1, &mut ctx)
    }

    fn holds(&self, evidence: Evidence) -> bool {
        let claim = Claim::Group {
            statement: Self::statement(),
            evidence,
        };
        let mut scratch = ();
        let mut ctx = Ctx::single(&mut scratch);
        let prepared = (self.scheme).prepare(&self.keys, &[claim], &[0; 32], &mut ctx);
        self.scheme.check(&self.keys, &prepared, 0..1)
    }
}

/// A bad input is reported as a part: the part with the bad signature, not its position among all signers.
#[test]
fn a_bad_signature_is_blamed_on_its_part() {
    let mut committee = Committee::new(&[]);
    committee.signatures[6][200] ^= 1;
    let parts = [0, 4].map(|offset| committee.part(offset));
    assert_eq!(committee.combine(&parts), Err(SchemeError::Malformed(1)));
    // Where parts overlap, the signature comes from the first part that has it.
    let parts = [0, 4, 4].map(|offset| committee.part(offset));
    assert_eq!(committee.combine(&parts), Err(SchemeError::Malformed(1)));
}

/// Returns `a^-1` modulo `q`, for `a` that is not 0; centred.
fn inverse(a: i16) -> i16 {
    let q = i64::from(MODULUS);
    let power = (0..q - 2).fold(1, |product, _| product * i64::from(a) % q);
    let residue = power.rem_euclid(q) as i16;
    residue - if residue > q as i16 / 2 { q as i16 } else { 0 }
}

/// Makes a key for one signature: `s1 = 0`, all of the norm in `s2`, and `h = c / s2`. It verifies
/// plainly, and its quotients are longer than any honest ones.
fn made_for_each_other() -> (PublicKey, Vec<u8>) {
    let flavour = Flavour::Original;
    // Long where the code is cheapest for its length: eight coefficients have nearly all of the norm.
    let s2: [i16; DEGREE] = std::array::from_fn(|i| match (i % 64, i * i * i % 7) {
        (7, 0..=3) => 2047,
        (7, _) => -2047,
        (_, odd) => 31 - 62 * (odd as i16 % 2),
    });
    let norm_sq: u64 = s2.iter().map(|c| u64::from(c.unsigned_abs()).pow(2)).sum();
    assert!(norm_sq <= Parameters::of(DEGREE).norm_sq_max);
    let values = |coefficients: &[i16; DEGREE]| {
        let mut polys = Polys::<1, DEGREE>::zero();
        polys.load(0, coefficients);
        polys.reduce();
        polys.forward();
        polys
    };
    let mut inverses = values(&s2);
    inverses.centre();
    inverses
        .0
        .as_flattened_mut()
        .iter_mut()
        .for_each(|x| *x = inverse(*x));
    let made = (0..32u8).find_map(|salt| {
        let salt = [salt; SALT_BYTES];
        let target = flavour.centred_target(key_of(flavour, 0), Some(&salt), &MESSAGE);
        let mut h = values(&target);
        h.multiply(&inverses);
        h.inverse();
        h.centre();
        let mut coefficients = [0; DEGREE];
        h.store(0, &mut coefficients);
        let residues = coefficients.map(|c| c.rem_euclid(MODULUS as i16) as u16);
        let key = PublicKey::from_bytes(flavour, &encode_key(flavour, &residues)).ok()?;
        let signature = encode_signature(flavour, Some(&salt), &s2)?;
        let item = Item {
            key: &key,
            message: &MESSAGE,
            signature: &signature,
        };
        assert_eq!(verify(&item), Ok(()), "plainly valid");
        let alone = SCHEMES[1].aggregator(1).expect("legal").prove(&[item], b"");
        let expected = AggregateError::Unprovable { indices: vec![0] };
        (alone == Err(expected)).then_some((key, signature))
    });
    made.expect("most of them are too long")
}

/// The attack: a plainly valid signature that cannot be proven. It costs its signer the position in the
/// collection, and the others nothing.
#[test]
fn signatures_that_no_proof_can_have_are_left_out() {
    let long = made_for_each_other();
    let committee = Committee::new(&[(1, &long), (6, &long)]);
    let made = committee.combine(&[0, 4].map(|offset| committee.part(offset)));
    let made = made.expect("a proof of the others");
    let expected = Support::from_multiplicities(&[1, 0, 1, 1, 1, 1, 0, 1]).expect("six signers");
    assert_eq!(*made.support, expected);
    assert!(committee.holds(made));
    let all = [0, 1, 2, 3].map(|place| (place, &long));
    let committee = Committee::new(&all);
    let made = committee.combine(&[committee.part(0)]);
    assert_eq!(made, Err(SchemeError::Empty));
}

/// A collection is no harder to forge than its proof and its signatures.
#[test]
fn abilities_claim_no_more_than_the_profile_has() {
    for profile in Profile::ALL {
        let (classical, quantum) = profile.bits();
        for collections in [Collections::Lists, Collections::Proofs] {
            let scheme = Falcon::new(collections, Backend::Portable).with_profile(profile);
            let security = scheme.abilities().security;
            let bits = (security.classical_bits, security.quantum_bits);
            let expected = match collections {
                Collections::Lists => (120, 108),
                Collections::Proofs => (classical.min(120), quantum.min(108)),
            };
            assert_eq!(bits, expected, "{profile:?}");
            let block_size = format!("block size {},", profile.block_size());
            assert!(
                security.assumption.contains(&block_size),
                "{}",
                security.assumption
            );
        }
    }
}

/// Two threads that request a new number at once get one aggregator.
#[test]
fn an_aggregator_is_kept_once() {
    let scheme = Falcon::new(Collections::Proofs, KERNELS.measured());
    let both = Barrier::new(2);
    let ask = || {
        both.wait();
        scheme.aggregator(3).expect("legal")
    };
    let (one, other) = std::thread::scope(|scope| {
        let threads = [scope.spawn(ask), scope.spawn(ask)];
        let [one, other] = threads.map(|thread| thread.join().expect("no panic"));
        (one, other)
    });
    assert!(Arc::ptr_eq(&one, &other));
    let kept = scheme.aggregators.kept.lock().expect("nothing panicked");
    assert_eq!(kept.len(), 1);
}

/// Aggregators that are used again stay, and unused ones are evicted. All have the same keys.
#[test]
fn aggregators_that_are_used_stay() {
    let scheme = Falcon::new(Collections::Proofs, KERNELS.measured());
    let ask = |n| scheme.aggregator(n).expect("legal");
    let (first, other) = (ask(1), ask(2));
    assert!(Arc::ptr_eq(first.keys(), other.keys()));
    {
        let mut kept = scheme.aggregators.kept.lock().expect("nothing panicked");
        // As if this many other numbers had been requested between the two.
        for n in 3..=AGGREGATORS_MAX {
            kept.push_front((n, other.clone()));
        }
        assert_eq!(kept.len(), AGGREGATORS_MAX);
    }
    assert!(Arc::ptr_eq(&ask(1), &first));
    let last = ask(AGGREGATORS_MAX + 1);
    assert!(Arc::ptr_eq(&ask(1), &first), "asked for again");
    assert!(Arc::ptr_eq(last.keys(), first.keys()), "drawn once");
    let kept = scheme.aggregators.kept.lock().expect("nothing panicked");
    assert_eq!(kept.len(), AGGREGATORS_MAX);
    assert!(
        kept.iter().all(|(number, _)| *number != 2),
        "the oldest went"
    );
}

/// The shared keys are long enough for every committee, no proof is shorter than the minimum, and the errors of
/// a proof sum to less than the lecture states.
#[test]
fn constants_hold_for_every_committee() {
    let edges = [31, 32, 149, 150, 299, 300, 511, 512, 849, 850, 999, 1000];
    let many = (1..200).step_by(9).chain((200..20_000).step_by(601));
    let sizes = many
        .chain(edges)
        .chain([6143, 6144, COMMITTEE_MAX as usize]);
    for n in sizes {
        for profile in Profile::ALL {
            for preset in Preset::ALL {
                let schedule = preset.schedule(n, profile).expect("legal");
                let (inner, outer) = schedule.key_lengths();
                assert!(inner <= KEY_LENGTHS.0, "{n}: {inner}");
                assert!(outer <= KEY_LENGTHS.1, "{n}: {outer}");
                let least = schedule.least_bytes();
                assert!(least >= PROOF_BYTES_MIN as u64, "{n}: {least}");
                let sum = log2_sum(&errors(DEGREE, &schedule));
                // The lecture states two bits below 2^-120 up to 1,000 signatures, 1.3 for all.
                let most = if n <= 1000 { -122.0 } else { -121.3 };
                assert!(-124.6 < sum && sum < most, "{n}: 2^{sum}");
            }
        }
    }
}

/// For bytes that do not begin like a proof, or that are shorter than any proof, nothing is derived.
#[test]
fn what_is_no_proof_is_refused_before_anything_is_derived() {
    let flavour = Flavour::Original;
    let scheme = Falcon::new(Collections::Proofs, KERNELS.measured()).with_flavour(flavour);
    let (keys, statement) = (Committee::new(&[]).keys, Committee::statement());
    let header = [&alphorn_labrador::MAGIC[..], &[5, scheme.profile.id()]].concat();
    let short = [&header[..], &[0; 200]].concat();
    let long = [&header[..], &vec![0; PROOF_BYTES_MAX]].concat();
    let other = [&alphorn_labrador::MAGIC[..], &vec![0; PROOF_BYTES_MIN]].concat();
    let holds = |number: usize, proof: &[u8]| {
        let multiplicities: Vec<u8> = (0..8).map(|i| u8::from(i < number)).collect();
        let support = Support::from_multiplicities(&multiplicities).expect("few signers");
        let salts = vec![0; number * flavour.salt_bytes()];
        let bytes = [&[list::TAG_PROOF][..], &salts, proof].concat();
        let evidence = Evidence {
            support: Arc::new(support),
            bytes: bytes.into(),
        };
        scheme.proof_holds(&keys, &statement, &evidence, Exec::serial())
    };
    let kept = || {
        scheme
            .aggregators
            .kept
            .lock()
            .expect("nothing panicked")
            .len()
    };
    for number in 1..=8 {
        for proof in [&short, &long, &other] {
            assert!(!holds(number, proof), "{number}");
        }
    }
    assert_eq!(
        (kept(), scheme.aggregators.keys.get().is_some()),
        (0, false)
    );
    // With the right header and length, parameters are derived.
    assert!(!holds(1, &long[..PROOF_BYTES_MIN]));
    assert_eq!((kept(), scheme.aggregators.keys.get().is_some()), (1, true));
}
