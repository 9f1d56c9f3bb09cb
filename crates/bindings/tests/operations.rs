//! Each operation as a foreign caller uses it, and the answers to hostile bytes.

use std::sync::Mutex;

use alphorn_bindings::broadcast::{Broadcast, Subject, strategy_of};
use alphorn_bindings::committees::{Collection, Committees, Registry, Verdict};
use alphorn_bindings::proofs::{Members, Part, preset_of};
use alphorn_bindings::xmss::{self, Key, Marks, Purpose, Set, Vote};
use alphorn_bindings::{Code, Context, Error, THREADS_MAX, Watch, bls};
use sha2::Digest;

fn context() -> Context {
    Context::with_secret(1, [7; 32]).unwrap()
}

fn code<T>(result: Result<T, Error>) -> Option<Code> {
    result.err().map(|error| error.code())
}

/// Keys, proofs of possession and votes of `count` validators.
fn validators(count: u64, message: &[u8]) -> (Vec<u8>, Vec<u8>, Vec<[u8; 96]>) {
    let (mut keys, mut proofs, mut votes) = (Vec::new(), Vec::new(), Vec::new());
    for secret in (0..count).map(bls::interop_secret_key) {
        keys.extend(bls::public_key(&secret).unwrap());
        proofs.extend(bls::pop_prove(&secret).unwrap());
        votes.push(bls::sign(&secret, message).unwrap());
    }
    (keys, proofs, votes)
}

#[test]
fn collections_of_committees_have_each_its_verdict() {
    let context = context();
    let (keys, proofs, votes) = validators(12, b"head");
    let registry = Registry::new(&context, &keys, &proofs).unwrap();
    assert_eq!(registry.len(), 12);
    // Committee 1 is the validators 11, 10, 9.
    let members = [0, 1, 2, 3, 4, 5, 6, 7, 8, 11, 10, 9];
    let committees = Committees::new(&registry, Some(&members), &[9, 3]).unwrap();
    assert_eq!((committees.len(), committees.size(1)), (2, Some(3)));
    let sum = bls::aggregate(&[votes[11], votes[9]].concat()).unwrap();
    let good = Collection {
        committee: 1,
        signers: &[0b101],
        message: b"head",
        signature: &sum,
    };
    // Validator 10 twice, validator 9 once.
    let weighted = bls::aggregate(&[votes[10], votes[10], votes[9]].concat()).unwrap();
    let weighted = Collection {
        signers: &[0b100, 0b010],
        signature: &weighted,
        ..good
    };
    let cases = [
        (good, Verdict::Valid),
        (weighted, Verdict::Valid),
        (
            Collection {
                message: b"tail",
                ..good
            },
            Verdict::Signature,
        ),
        (
            Collection {
                signers: &[0b11],
                ..good
            },
            Verdict::Signature,
        ),
        (
            Collection {
                signers: &[0],
                ..good
            },
            Verdict::KeyAtInfinity,
        ),
        (
            Collection {
                signers: &[0b1101],
                ..good
            },
            Verdict::Signers,
        ),
        (
            Collection {
                signers: &[],
                ..good
            },
            Verdict::Signers,
        ),
        (
            Collection {
                signers: &[1; 5],
                ..good
            },
            Verdict::Signers,
        ),
        (
            Collection {
                committee: 2,
                ..good
            },
            Verdict::Signers,
        ),
        (
            Collection {
                committee: 0,
                ..good
            },
            Verdict::Signers,
        ),
        (
            Collection {
                signature: &[0; 96],
                ..good
            },
            Verdict::Decode,
        ),
        (
            Collection {
                signature: &[],
                ..good
            },
            Verdict::Decode,
        ),
        (good, Verdict::Valid),
    ];
    let (items, wanted): (Vec<_>, Vec<_>) = cases.into_iter().unzip();
    assert_eq!(committees.verify(&items).unwrap(), wanted);
    for (item, wanted) in items.iter().zip(wanted) {
        assert_eq!(committees.verify(&[*item]).unwrap(), [wanted], "{item:?}");
    }
    assert_eq!(committees.verify(&[]).unwrap(), []);

    let key = committees.sum(1, &[0b101]).unwrap();
    assert!(bls::verify(&key, b"head", &sum));
    assert_eq!(code(committees.sum(1, &[0])), Some(Code::Invalid));
    assert_eq!(code(committees.sum(2, &[1])), Some(Code::Argument));
}

#[test]
fn registries_and_committees_name_what_is_wrong() {
    let context = context();
    let (keys, mut proofs, _) = validators(4, b"");
    let made = |keys: &[u8], proofs: &[u8]| code(Registry::new(&context, keys, proofs));
    assert_eq!(made(&keys[1..], &proofs), Some(Code::Argument));
    assert_eq!(made(&keys, &proofs[96..]), Some(Code::Argument));
    proofs.copy_within(0..96, 96);
    assert_eq!(made(&keys, &proofs), Some(Code::Invalid));
    assert_eq!(
        code(Registry::proven(&context, &[0; 48])),
        Some(Code::Decode)
    );
    let twice = [&keys[..48], &keys[..48]].concat();
    assert_eq!(
        code(Registry::proven(&context, &twice)),
        Some(Code::Argument)
    );
    let registry = Registry::proven(&context, &keys).unwrap();
    let error = Committees::new(&registry, Some(&[0, 4]), &[2])
        .err()
        .unwrap();
    assert_eq!(error.to_string(), "member 4: the registry has 4 keys");
    assert_eq!(
        code(Committees::new(&registry, None, &[5])),
        Some(Code::Argument)
    );
    let sizes = [usize::MAX, 2];
    assert_eq!(
        code(Committees::new(&registry, None, &sizes)),
        Some(Code::Argument)
    );
    assert_eq!(
        code(Context::with_secret(THREADS_MAX + 1, [0; 32])),
        Some(Code::Argument)
    );
    assert_eq!(code(bls::aggregate(&[0; 95])), Some(Code::Argument));
    assert_eq!(code(bls::key_gen(&[0; 31])), Some(Code::Argument));
}

#[test]
fn a_key_that_no_file_could_hold_is_refused_at_once() {
    let context = context();
    let (set, purpose) = (Set::Prod, Purpose::Vote);
    let range = 0..(1 << 28) + 1;
    let generated = Key::generate(&context, set, purpose, &[7; 32], range.clone(), None);
    assert_eq!(code(generated), Some(Code::Argument));
    let interop = Key::interop(&context, set, purpose, 0, range);
    assert_eq!(code(interop), Some(Code::Argument));
}

#[test]
fn a_permit_is_given_out_once_and_belongs_to_one_key() {
    let (context, folder) = (context(), tempfile::tempdir().unwrap());
    let (path, state) = (folder.path().join("mark"), folder.path().join("state"));
    for set in [Set::Compact, Set::Prod] {
        let (path, active) = (path.with_extension(set.name()), 40..48);
        let key = Key::generate(&context, set, Purpose::Vote, &[3; 32], active.clone(), None);
        let key = key.unwrap();
        let other = Key::generate(&context, set, Purpose::Vote, &[4; 32], active, None).unwrap();
        let marks = Marks::create(&path, Some(&state), &key, 41).unwrap();
        assert_eq!(marks.slot_next(0).unwrap(), 41);
        assert_eq!(code(marks.reserve(40, 0, &[1; 32])), Some(Code::Refused));
        assert_eq!(code(marks.reserve(42, 8, &[1; 32])), Some(Code::Argument));
        assert_eq!(code(marks.reserve(42, 0, &[1; 31])), Some(Code::Argument));
        let permit = marks.reserve(42, 0, &[1; 32]).unwrap();
        assert_eq!(code(marks.reserve(42, 0, &[2; 32])), Some(Code::Refused));
        let signature = key.sign(permit).unwrap();
        assert_eq!(signature.len(), xmss::signature_bytes(set));
        let public_key = key.public_key();
        let vote = Vote {
            public_key: &public_key,
            index: 42,
            message: &[1; 32],
            signature: &signature,
        };
        let votes = [
            Vote {
                message: &[2; 32],
                ..vote
            },
            vote,
            Vote {
                signature: &[0; 7],
                ..vote
            },
            Vote { index: 43, ..vote },
            Vote {
                message: &[1; 33],
                ..vote
            },
            vote,
        ];
        let holds = [false, true, false, false, false, true];
        assert_eq!(xmss::verify(&context, set, &votes), holds);
        // The right permit for the wrong key, and for a slot in which the key is not active.
        let permit = marks.reserve(43, 0, &[1; 32]).unwrap();
        assert_eq!(code(other.sign(permit)), Some(Code::Refused));
        let permit = marks.reserve(48, 0, &[1; 32]).unwrap();
        assert_eq!(code(key.sign(permit)), Some(Code::Refused));
        assert_eq!(
            code(Marks::open(&path, Some(&state), &key)),
            Some(Code::Refused)
        );
        drop(marks);
        let again = Key::from_files(&context, &key.secret_file(), &key.tree_file()).unwrap();
        let marks = Marks::open(&path, Some(&state), &again).unwrap();
        assert_eq!(marks.slot_next(0).unwrap(), 49);
        assert_eq!(
            code(Marks::create(&path, None, &key, 0)),
            Some(Code::Refused)
        );
        drop(marks);
        assert_eq!(code(Marks::open(&path, None, &other)), Some(Code::Decode));
    }
    let nowhere = folder.path().join("no/folder");
    let key = Key::interop(&context, Set::Test, Purpose::Vote, 0, 0..1).unwrap();
    assert_eq!(code(Marks::create(&nowhere, None, &key, 0)), Some(Code::Io));
}

/// Counts the steps, and ends the computation at one of them.
struct EndAt(&'static str, Mutex<Vec<&'static str>>);

impl Watch for EndAt {
    fn stopped(&self) -> bool {
        self.1.lock().unwrap().contains(&self.0)
    }

    fn step(&self, name: &'static str) {
        self.1.lock().unwrap().push(name);
    }
}

#[test]
fn proofs_are_made_watched_merged_and_refused() {
    let (context, folder) = (
        Context::with_secret(2, [7; 32]).unwrap(),
        tempfile::tempdir().unwrap(),
    );
    let (set, slot, message) = (Set::Compact, 5, [9; 32]);
    let (mut keys, mut signatures) = (Vec::new(), Vec::new());
    for validator in 0..4 {
        let key = Key::interop(&context, set, Purpose::Vote, validator, 5..6).unwrap();
        let path = folder.path().join(validator.to_string());
        let marks = Marks::create(&path, None, &key, 0).unwrap();
        let permit = marks.reserve(slot.into(), 0, &message).unwrap();
        keys.extend(key.public_key());
        signatures.push(key.sign(permit).unwrap());
    }
    let fast = preset_of(1).unwrap();
    let members = Members::new(&context, set, fast, &keys, 0).unwrap();
    let two = |a: usize, b: usize| [&signatures[a][..], &signatures[b]].concat();
    let prove = |positions: &[u32], signatures: &[u8]| {
        members.prove(slot, &message, positions, signatures, None)
    };
    let first = prove(&[0, 2], &two(0, 2)).unwrap();
    assert!(first.len() <= members.proof_bytes_max(Some(2)));
    members.verify(slot, &message, &[0b101], &first).unwrap();
    let refused = [
        members.verify(slot, &message, &[0b111], &first),
        members.verify(slot + 1, &message, &[0b101], &first),
        members.verify(slot, &[8; 32], &[0b101], &first),
    ];
    assert!(
        refused
            .into_iter()
            .all(|result| code(result) == Some(Code::Invalid))
    );
    let mut flipped = first.clone();
    flipped[first.len() / 2] ^= 1;
    assert!(members.verify(slot, &message, &[0b101], &flipped).is_err());
    assert_eq!(
        code(members.verify(slot, &message, &[1, 0], &first)),
        Some(Code::Argument)
    );
    assert_eq!(
        code(members.verify(slot, &message, &[0b101], &[])),
        Some(Code::Decode)
    );
    assert_eq!(code(prove(&[2, 0], &two(2, 0))), Some(Code::Argument));
    assert_eq!(code(prove(&[0, 4], &two(0, 2))), Some(Code::Argument));
    assert_eq!(code(prove(&[0], &two(0, 2))), Some(Code::Argument));
    assert_eq!(code(prove(&[0, 1], &two(0, 2))), Some(Code::Invalid));

    let watch = EndAt("", Mutex::default());
    let second = members
        .prove(slot, &message, &[1], &signatures[1], Some(&watch))
        .unwrap();
    let steps = watch.1.into_inner().unwrap();
    assert!(steps.len() > 3 && steps.contains(&"witness"), "{steps:?}");
    let watch = EndAt("witness", Mutex::default());
    let stopped = members.prove(slot, &message, &[1], &signatures[1], Some(&watch));
    assert_eq!(code(stopped), Some(Code::Stopped));

    let parts = [(&[0b101u8], &first), (&[0b10], &second)];
    let parts = parts.map(|(signers, proof)| Part { signers, proof });
    let merged = members.merge(slot, &message, &parts, None).unwrap();
    assert!(merged.len() <= members.proof_bytes_max(None));
    members.verify(slot, &message, &[0b111], &merged).unwrap();
    assert_eq!(
        code(members.verify(slot, &message, &[0b101], &merged)),
        Some(Code::Invalid)
    );
    let wrong = [
        parts[0],
        Part {
            signers: &[0b100],
            ..parts[1]
        },
    ];
    let error = members.merge(slot, &message, &wrong, None).unwrap_err();
    assert_eq!(error.code(), Code::Invalid);
    assert!(error.to_string().starts_with("proof 1: "), "{error}");
    assert_eq!(
        code(members.merge(slot, &message, &[], None)),
        Some(Code::Argument)
    );
    assert_eq!(
        code(Members::new(&context, set, fast, &keys[1..], 0)),
        Some(Code::Argument)
    );
    assert_eq!(
        code(Members::new(&context, set, fast, &[0xff; 32], 0)),
        Some(Code::Decode)
    );
    assert_eq!(
        (code(preset_of(3)), code(xmss::set_of(0))),
        (Some(Code::Argument), Some(Code::Argument))
    );
}

#[test]
fn a_payload_goes_through_a_relay_under_both_codes() {
    let context = context();
    let subject = Subject {
        kind: 1,
        slot: 7,
        source: 3,
        index: 0,
    };
    let payload: Vec<u8> = (0..40_000u32).map(|i| (i * 31 + i / 7) as u8).collect();
    for number in [1, 2] {
        let strategy = strategy_of(number).unwrap();
        let mut source = Broadcast::publish(&context, strategy, subject, &payload).unwrap();
        if number == 1 {
            // Another handle sends other combinations: the same again would tell nobody anything.
            let mut again = Broadcast::publish(&context, strategy, subject, &payload).unwrap();
            assert_ne!(again.piece(0).unwrap(), source.piece(0).unwrap());
        }
        let receive = |from: &Broadcast| {
            let mut node = Broadcast::receive(&context, &from.header(), 1 << 20).unwrap();
            for generation in 0..from.commitment_lists() {
                let commitments = from.commitments(generation).unwrap();
                node.add_commitments(generation, &commitments).unwrap();
            }
            node
        };
        // What a source in another language signs, and a receiver verifies before it adds anything.
        let domain = b"alphorn/broadcast/v1\0".as_slice();
        let stated = [domain, &[9; 32], &source.header()].concat();
        let stated: [u8; 32] = sha2::Sha256::digest(stated).into();
        for of in [&source, &receive(&source)] {
            assert_eq!(of.signing_root(&[9; 32]), stated);
        }
        let mut relay = receive(&source);
        assert_eq!(code(relay.payload()), Some(Code::Incomplete));
        assert_eq!(relay.payload_bytes(), payload.len());
        let mut from = 0;
        while !relay.is_full() {
            let mut piece = source.piece(from % source.selectors()).unwrap();
            let last = piece.len() - 1;
            piece[last - 9] ^= 1;
            assert_eq!(code(relay.add(&piece)), Some(Code::Invalid));
            piece[last - 9] ^= 1;
            assert!(relay.add(&piece).unwrap());
            from += 1;
        }
        assert_eq!(relay.payload().unwrap(), payload);
        // The relay is now as good as the source.
        let mut last = receive(&relay);
        let mut from = relay.selectors();
        while !last.is_full() {
            from = from.checked_sub(1).unwrap_or(relay.selectors() - 1);
            let piece = relay.piece(from).unwrap();
            last.add(&piece).unwrap();
        }
        assert_eq!(last.payload().unwrap(), payload);
        let selectors = relay.selectors();
        assert_eq!(code(relay.piece(selectors)), Some(Code::Argument));
        assert_eq!(code(relay.add(&[1, 2, 3])), Some(Code::Decode));
        assert_eq!(
            code(Broadcast::receive(&context, &relay.header(), 100)),
            Some(Code::Decode)
        );
        let lists = relay.commitment_lists();
        assert_eq!(code(relay.commitments(lists)), Some(Code::Argument));
        assert!(relay.add_commitments(lists, &[1]).is_err());
    }
    let empty = Broadcast::publish(&context, strategy_of(2).unwrap(), subject, &[]);
    assert_eq!(code(empty), Some(Code::Argument));
    assert_eq!(code(strategy_of(3)), Some(Code::Argument));
    assert_eq!(
        code(Broadcast::receive(&context, &[0; 100], 100)),
        Some(Code::Decode)
    );
}
