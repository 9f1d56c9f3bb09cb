//! The decoders of `alphorn-falcon`: keys and signatures of all flavours, and the evidence of
//! aggregates and collections.

use std::sync::{Arc, OnceLock};

use alphorn_falcon::codec::{decode_key, decode_signature, encode_key, encode_signature};
use alphorn_falcon::slot::signed_bytes;
use alphorn_falcon::{Collections, EpochKeys, Falcon, Flavour, PublicKey, Signers, SigningKey};
use alphorn_scheme::{
    Bytes, Claim, Ctx, Evidence, Layer, MemoryWatermark, Part, Role, Scheme, SignItem, Statement,
    Watermark, list,
};
use alphorn_types::{Assignment, Epoch, Layout, Slot, Support, Validator};

/// What is signed.
const MESSAGE: [u8; 32] = [9; 32];
/// In which slot.
const SLOT: Slot = Slot(1);
/// Members of the committee, all of which sign.
const MEMBERS: u32 = 2;

fn flavour(selector: u8) -> Flavour {
    Flavour::ALL[usize::from(selector) % Flavour::ALL.len()]
}

/// Decodes a public key, a signature or a secret key of either degree; what is accepted is encoded to the same bytes.
///
/// Input: `flavour, kind and degree u8 | bytes`.
///
/// # Panics
///
/// If accepted bytes are not the ones that the encoder writes, or a secret key that is accepted does
/// not sign.
pub fn falcon_bytes(data: &[u8]) -> bool {
    let Some((&selector, bytes)) = data.split_first() else {
        return false;
    };
    match selector / 9 % 2 {
        0 => of_degree::<512>(selector, bytes),
        _ => of_degree::<1024>(selector, bytes),
    }
}

fn of_degree<const N: usize>(selector: u8, bytes: &[u8]) -> bool {
    let flavour = flavour(selector);
    match selector / 3 % 3 {
        0 => {
            let Ok(key) = PublicKey::<N>::from_bytes(flavour, bytes) else {
                return false;
            };
            let numbers = decode_key::<N>(flavour, bytes).expect("a key that was accepted");
            assert_eq!(encode_key(flavour, &numbers)[..], *bytes, "two encodings");
            assert_eq!(key.bytes()[..], *bytes, "another key");
            true
        }
        1 => {
            let Ok((salt, s2)) = decode_signature::<N>(flavour, bytes) else {
                return false;
            };
            let again = encode_signature(flavour, salt.as_ref(), &s2).expect("what was decoded");
            assert_eq!(again[..], *bytes, "two encodings of one signature");
            true
        }
        _ => secret_key::<N>(flavour, bytes),
    }
}

/// Whether the bytes are a secret key. If they are, it signs: the decoders of the library take keys
/// with which its signers would fail or never end.
fn secret_key<const N: usize>(flavour: Flavour, bytes: &[u8]) -> bool {
    let Ok(key) = SigningKey::<N>::from_bytes(flavour, bytes) else {
        return false;
    };
    let signed = signed_bytes(SLOT, Role::Vote, &MESSAGE);
    let signature = sign(&key);
    let item = alphorn_falcon::Item {
        key: key.public(),
        message: flavour.message_of(&signed),
        signature: &signature,
    };
    assert!(
        alphorn_falcon::verify(&item).is_ok(),
        "a key of another key"
    );
    true
}

/// The vote of a key.
fn sign<const N: usize>(key: &SigningKey<N>) -> Vec<u8> {
    let item = SignItem::new(Validator(0), Role::Vote, MESSAGE);
    let permit = MemoryWatermark::new(1).reserve(SLOT, &item);
    let signature = key.sign(permit.expect("the store is new"), &[0; 32]);
    signature.expect("a new permit")
}

/// A public key, a signature and a secret key of each flavour and degree.
pub(crate) fn falcon_bytes_seeds() -> Vec<Vec<u8>> {
    [seeds_of_degree::<512>(0), seeds_of_degree::<1024>(1)].concat()
}

fn seeds_of_degree<const N: usize>(degree: u8) -> Vec<Vec<u8>> {
    let of = |flavour: Flavour| {
        let key = SigningKey::<N>::interop(flavour, 0);
        let seed = |kind: u8, bytes: &[u8]| {
            let selector = 9 * degree + 3 * kind + flavour.id();
            [&[selector], bytes].concat()
        };
        [
            seed(0, key.public().bytes()),
            seed(1, &sign(&key)),
            seed(2, key.bytes()),
        ]
    };
    Flavour::ALL.map(of).concat()
}

/// A committee whose members signed, with their aggregate and their collection.
struct World {
    scheme: Falcon,
    keys: EpochKeys,
    list: Bytes,
    proof: Bytes,
}

fn statement(layer: Layer) -> Statement {
    Statement {
        layer,
        first: 0,
        len: MEMBERS,
        slot: SLOT,
        message: MESSAGE,
    }
}

/// With salts, or without.
fn world(flavour: Flavour) -> &'static World {
    static WORLDS: [OnceLock<World>; 2] = [OnceLock::new(), OnceLock::new()];
    WORLDS[usize::from(flavour == Flavour::Slot)].get_or_init(|| {
        let scheme = Falcon::new(Collections::Proofs, alphorn_labrador::KERNELS.measured());
        let scheme = scheme.with_flavour(flavour);
        let (signers, registry) = Signers::interop(flavour, MEMBERS, alphorn_exec::Exec::serial());
        let layout = Layout::new(MEMBERS, 1, 1).expect("a layout");
        let members = (0..MEMBERS).collect();
        let assignment = Assignment::new(Epoch(0), layout, members).expect("a permutation");
        let mut scratch = ();
        let mut ctx = Ctx::single(&mut scratch);
        let keys = scheme
            .keys(&Arc::new(registry), &Arc::new(assignment), &mut ctx)
            .expect("one key a member");
        let votes: Vec<(u32, Bytes)> = (0..MEMBERS)
            .map(|i| {
                let key = signers.key(Validator(i)).expect("a member");
                (i, sign(key).into())
            })
            .collect();
        let aggregate = statement(Layer::Aggregate);
        let aggregate = scheme
            .aggregate(&keys, &aggregate, &votes, &mut ctx)
            .expect("votes of all members");
        let list = aggregate.bytes.clone();
        let part = Part {
            offset: 0,
            layer: Layer::Aggregate,
            evidence: aggregate,
        };
        let collection = scheme
            .combine(&keys, &statement(Layer::Collection), &[part], 1, &mut ctx)
            .expect("valid signatures");
        let proof = collection.bytes;
        World {
            scheme,
            keys,
            list,
            proof,
        }
    })
}

/// Verifies the evidence of an aggregate or a collection of which everybody is a signer. The tag, the
/// number of signatures and the bytes are the input's.
///
/// Input: `kind u8 | bytes`. Kind 0: the bytes are an aggregate. Kind 1: a collection. Others: places
/// of the honest aggregate (even) or collection (odd), two bytes each, and what is written there. From
/// 128 on the same without salts.
///
/// # Panics
///
/// If a collection that is not the honest one is accepted, or an aggregate of another length.
pub fn falcon_evidence(data: &[u8]) -> bool {
    let Some((&kind, bytes)) = data.split_first() else {
        return false;
    };
    let flavour = match kind & 128 {
        0 => Flavour::default(),
        _ => Flavour::Slot,
    };
    let (world, kind) = (world(flavour), kind & 127);
    let (layer, honest) = match kind % 2 {
        0 => (Layer::Aggregate, &world.list),
        _ => (Layer::Collection, &world.proof),
    };
    let evidence = match kind {
        0 | 1 => bytes.to_vec(),
        _ => {
            let mut evidence = honest.to_vec();
            for edit in bytes.chunks_exact(3) {
                let place = u32::from(edit[0]) | u32::from(edit[1]) << 8;
                // Spread over the whole evidence, however long it is.
                let place = place as usize * evidence.len() / (1 << 16);
                evidence[place] = edit[2];
            }
            evidence
        }
    };
    let support = Support::from_multiplicities(&[1; MEMBERS as usize]).expect("all members");
    let claim = Claim::Group {
        statement: statement(layer),
        evidence: Evidence {
            support: Arc::new(support),
            bytes: evidence.clone().into(),
        },
    };
    let mut scratch = ();
    let mut ctx = Ctx::single(&mut scratch);
    let claims = [claim];
    let verdicts = world
        .scheme
        .prepare(&world.keys, &claims, &[0; 32], &mut ctx);
    let accepted = world.scheme.check(&world.keys, &verdicts, 0..1);
    if accepted && layer == Layer::Collection {
        assert_eq!(evidence[..], honest[..], "a forged proof verifies");
    }
    if accepted {
        let list = list::list_bytes(MEMBERS as usize, flavour.signature_bytes());
        assert!(layer == Layer::Collection || evidence.len() == list);
    }
    accepted
}

/// Both kinds of evidence with and without salts, whole and by no edits.
pub(crate) fn falcon_evidence_seeds() -> Vec<Vec<u8>> {
    let of = |(first, flavour)| {
        let world = world(flavour);
        [
            [&[first], &world.list[..]].concat(),
            [&[first + 1], &world.proof[..]].concat(),
            vec![first + 2],
            vec![first + 3],
        ]
    };
    [(0, Flavour::default()), (128, Flavour::Slot)]
        .map(of)
        .concat()
}
