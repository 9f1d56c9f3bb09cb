//! The search for bad signatures of `alphorn-bls`.

use std::sync::OnceLock;

use alphorn_bls::{
    Batch, CurveField, Fp2, G2Affine, InteropKey, PublicKey, Rlc, RlcBits, Signature, SignatureSet,
    encode_g2, sign, verify,
};
use alphorn_exec::Exec;

/// Votes of a batch at most.
const VOTES_MAX: usize = 12;
/// Messages that are signed: most votes share one, as in a slot.
const MESSAGES: [&[u8]; 2] = [b"head", b"other head"];

struct Votes {
    keys: Vec<PublicKey>,
    /// The signature of each key for each message.
    signatures: Vec<[Signature; 2]>,
}

fn votes() -> &'static Votes {
    static VOTES: OnceLock<Votes> = OnceLock::new();
    VOTES.get_or_init(|| {
        let secrets = (0..VOTES_MAX as u64).map(|i| InteropKey::new(i).to_secret_key());
        let (keys, signatures) = secrets
            .map(|secret| (secret.public_key(), MESSAGES.map(|m| sign(&secret, m))))
            .unzip();
        Votes { keys, signatures }
    })
}

/// A point of the subgroup as a signature.
fn signature(point: &G2Affine) -> Signature {
    Signature::from_bytes(&encode_g2(point)).expect("sums of signatures are in the subgroup")
}

/// Locates the bad votes of a batch; they are those that verification one by one finds.
///
/// Input: one byte a vote, bit 0 its message, bits 1 to 3 what is signed: 0 to 2 the vote, 3 the other
/// message, 4 the signature of the next vote, 5 its own negated, 6 half of a pair whose errors cancel,
/// 7 nothing that decodes.
///
/// # Panics
///
/// If the search finds other votes.
pub fn bad_items(data: &[u8]) -> bool {
    if data.is_empty() || data.len() > VOTES_MAX {
        return false;
    }
    let Votes { keys, signatures } = votes();
    let mut error = *signatures[0][1].point();
    let sets: Vec<Option<SignatureSet<'_>>> = (0..data.len())
        .map(|i| {
            let message = usize::from(data[i] & 1);
            let right = signatures[i][message];
            let given = match data[i] >> 1 & 7 {
                0..=2 => right,
                3 => signatures[i][1 - message],
                4 => signatures[(i + 1) % VOTES_MAX][message],
                5 => signature(&right.point().neg()),
                6 => {
                    // Errors alternate in sign: two of them are invisible in a sum.
                    let wrong = signature(&Fp2::sum_naive(&[*right.point(), error]));
                    error = error.neg();
                    wrong
                }
                _ => return None,
            };
            Some(SignatureSet {
                key: keys[i],
                message: MESSAGES[message],
                signature: given,
            })
        })
        .collect();
    let rlc = Rlc::new([data[0]; 32], RlcBits::Bits64);
    let located = Batch::new(&sets, &rlc, Exec::serial()).locate(Exec::serial());
    let alone = |set: &Option<SignatureSet<'_>>| {
        set.is_some_and(|set| verify(&set.key, set.message, &set.signature))
    };
    let bad: Vec<usize> = (0..sets.len()).filter(|&i| !alone(&sets[i])).collect();
    assert_eq!(located.bad, bad, "{data:02x?}");
    true
}

/// All good, all bad, and pairs whose errors cancel.
pub(crate) fn bad_items_seeds() -> Vec<Vec<u8>> {
    vec![
        vec![0; VOTES_MAX],
        vec![6; VOTES_MAX],
        vec![0, 12, 12, 0, 13, 13, 1],
        vec![14, 0, 8, 10, 1, 15],
        vec![0],
    ]
}
