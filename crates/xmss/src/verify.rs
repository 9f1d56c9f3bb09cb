//! Verification of many signatures at once.
//!
//! A signature holds if its message has a code, the chains walked from its digests to their ends hash to a leaf,
//! and the path leads from the leaf to the key's root. All of this is public, so the running time may depend on
//! it. Signatures of a batch share vectors: sixteen are hashed together.

use alphorn_exec::{Backend, Exec};

use crate::hash::{Children, Code, Encoding, Message, Tips, Walk};
use crate::params::{BASE, Set};
use crate::signature::{PublicKey, Signature};

/// A signature with the data it is claimed to sign.
#[derive(Clone, Copy, Debug)]
pub struct Item<'a> {
    /// The key of the claimed signer.
    pub key: &'a PublicKey,
    /// The one-time index.
    pub index: u32,
    /// The 32-byte digest that was signed.
    pub message: &'a [u8; 32],
    /// The signature.
    pub signature: &'a Signature,
}

/// Number of signatures that one thread takes at a time; takes some milliseconds.
const CHUNK: usize = 64;

/// Whether each signature holds; signatures of a set other than `set` do not. If the computation is stopped, the
/// remaining ones are reported as not holding.
pub fn verify_batch(set: Set, items: &[Item<'_>], exec: Exec<'_>) -> Vec<bool> {
    let chunks: Vec<&[Item<'_>]> = items.chunks(CHUNK).collect();
    let verdicts = exec.map(chunks.len(), |i| match exec.stopped() {
        true => vec![false; chunks[i].len()],
        false => verify_chunk(set, chunks[i], exec.backend()),
    });
    verdicts.concat()
}

/// Whether a signature holds.
pub fn verify(item: Item<'_>, backend: Backend) -> bool {
    verify_chunk(item.key.set, &[item], backend)[0]
}

fn verify_chunk(set: Set, items: &[Item<'_>], backend: Backend) -> Vec<bool> {
    let params = set.params();
    // What follows relies on the set's numbers of chains and levels, which a signature of another set does not
    // have.
    let legal = |item: &Item<'_>| {
        item.key.set == set
            && item.signature.set == set
            && u64::from(item.index) < params.lifetime()
    };
    let mut verdicts = vec![false; items.len()];
    let legal: Vec<usize> = (0..items.len()).filter(|i| legal(&items[*i])).collect();
    let legal_items: Vec<&Item<'_>> = legal.iter().map(|i| &items[*i]).collect();
    let codes = codes(set, &legal_items, backend);
    // Without a code there are no positions to walk from.
    let coded: Vec<(usize, Code)> = legal
        .into_iter()
        .zip(codes)
        .filter_map(|(i, code)| Some((i, code?)))
        .collect();
    let roots = roots(set, items, &coded, backend);
    for ((i, _), root) in coded.iter().zip(roots) {
        verdicts[*i] = root == items[*i].key.root;
    }
    verdicts
}

/// The code of each message under the signature's randomness.
fn codes(set: Set, items: &[&Item<'_>], backend: Backend) -> Vec<Option<Code>> {
    // Votes of a slot mostly sign the same message.
    let mut last: Option<([u8; 32], Message)> = None;
    let mut message = |bytes: &[u8; 32]| match last {
        Some((known, message)) if known == *bytes => message,
        _ => {
            let message = set.instance().message(backend, bytes);
            last = Some((*bytes, message));
            message
        }
    };
    let encodings: Vec<Encoding> = items
        .iter()
        .map(|item| Encoding {
            parameter: item.key.parameter,
            slot: item.index,
            message: message(item.message),
            randomness: item.signature.randomness,
        })
        .collect();
    set.instance().encode(backend, &encodings)
}

/// The root to which each signature with a code leads.
fn roots(
    set: Set,
    items: &[Item<'_>],
    coded: &[(usize, Code)],
    backend: Backend,
) -> Vec<crate::hash::Digest> {
    let (params, instance) = (set.params(), set.instance());
    let mut walks = Vec::with_capacity(coded.len() * params.chains);
    for (i, code) in coded {
        let item = &items[*i];
        let starts = item.signature.hashes.iter().zip(code).enumerate();
        walks.extend(starts.map(|(chain, (digest, digit))| Walk {
            parameter: item.key.parameter,
            slot: item.index,
            chain: chain as u8,
            from: *digit,
            to: BASE - 1,
            digest: *digest,
        }));
    }
    instance.walk(backend, &mut walks);
    let ends: Vec<_> = walks.iter().map(|walk| walk.digest).collect();
    let tips = coded.iter().zip(ends.chunks_exact(params.chains));
    let tips: Vec<Tips<'_>> = tips
        .map(|((i, _), digests)| Tips {
            parameter: items[*i].key.parameter,
            slot: items[*i].index,
            digests,
        })
        .collect();
    let mut nodes = instance.leaves(backend, &tips);
    // All paths climb together, so that the nodes of a level fill vectors.
    for level in 0..params.log2_lifetime {
        let pairs = nodes.iter().zip(coded);
        let children: Vec<Children> = pairs
            .map(|(node, (i, _))| {
                let item = &items[*i];
                let sibling = item.signature.path[usize::from(level)];
                let position = u64::from(item.index) >> level;
                let (left, right) = match position & 1 {
                    0 => (*node, sibling),
                    _ => (sibling, *node),
                };
                Children {
                    parameter: item.key.parameter,
                    level: level + 1,
                    index: (position >> 1) as u32,
                    left,
                    right,
                }
            })
            .collect();
        nodes = instance.nodes(backend, &children);
    }
    nodes
}
