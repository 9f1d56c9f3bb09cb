//! Batch verification by a random linear combination, and exact location of bad items.
//!
//! The argument is in [`crate::lecture`].

use core::ops::Range;
use std::collections::BTreeMap;
use std::sync::OnceLock;

use alphorn_exec::Exec;
use sha2::{Digest, Sha256};

use crate::blst_ffi::curve::{G1Affine, G2Affine};
use crate::blst_ffi::pairing::Gt;
use crate::blst_ffi::points::{g1, g2};
use crate::ciphersuite::{SIGNATURE_DST, core_verify, hash_many_to_g2};
use crate::decode::SUBGROUP_POINTS;
use crate::keys::{PublicKey, Signature};
use crate::lanes::miller_product;
use crate::rlc::{Rlc, RlcBits, WeightStream};
use crate::subgroup::vartime_checked_sum;
use crate::weighted::{vartime_weighted_sum, vartime_weighted_sums};

/// Relative cost of a Miller loop and of a final exponentiation (microseconds on a 4 GHz Zen 5, blst 0.3.17).
/// Only their ratio matters, for the stop rule of [`Batch::locate`]. Single items are verified by blst too. A
/// test of many messages is cheaper in lanes, so the rule then stops testing earlier than necessary.
const MILLER_COST: u64 = 126;
const FINAL_EXP_COST: u64 = 256;
/// Points below which a sum is not worth a second thread, and points above which a stop request would wait too
/// long for it to finish: 1,024 points take 9 ms on a 4 GHz Zen 5.
const SUM_POINTS: (usize, usize) = (64, 1024);

/// One claim of a batch: `signature` is valid for `message` under `key`.
#[derive(Clone, Copy, Debug)]
pub struct SignatureSet<'a> {
    /// A public key, or the sum of the keys of all signers.
    pub key: PublicKey,
    /// The message.
    pub message: &'a [u8],
    /// The signature.
    pub signature: Signature,
}

/// Returns whether every claim holds. True for an empty batch, false if `exec` was asked to stop.
///
/// A false claim passes with probability at most 1 / (2^bits - 1), with the bits of `rlc`, since no weight is
/// zero.
pub fn verify_sets(sets: &[SignatureSet<'_>], rlc: &Rlc, exec: Exec<'_>) -> bool {
    let sets: Vec<_> = sets.iter().copied().map(Some).collect();
    Batch::new(&sets, rlc, exec).check_all(exec)
}

/// Result of [`Batch::locate`] and the work it took.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Located {
    /// Indices of the bad items, ascending.
    pub bad: Vec<usize>,
    /// Number of tests: products with one final exponentiation each.
    pub tests: usize,
    /// Miller loops in these tests.
    pub miller_loops: usize,
}

/// A batch with decoded points and drawn weights, ready for tests of any part of it.
///
/// The items form a tree. They are ordered by message and shuffled by the secret within a message, so that an
/// attacker cannot position bad items where they cost most.
pub struct Batch {
    /// Items that are bad without a test: undecodable, or with a key or signature at infinity.
    refused: Vec<usize>,
    /// Caller's index of each tree position.
    index: Vec<usize>,
    keys: Vec<G1Affine>,
    signatures: Vec<G2Affine>,
    /// Number of the message of each tree position, ascending.
    message: Vec<usize>,
    hashes: Vec<G2Affine>,
    weights: Vec<u8>,
    bits: RlcBits,
    total: usize,
    root: OnceLock<Gt>,
}

impl Batch {
    /// Prepares a batch. `None` stands for an item that did not decode and is bad in every test.
    ///
    /// Items with a signature at infinity are bad too. They are removed here, before the combination, because
    /// both sides of such an item could vanish from it unnoticed.
    pub fn new(sets: &[Option<SignatureSet<'_>>], rlc: &Rlc, exec: Exec<'_>) -> Batch {
        Batch::with_tag(sets, SIGNATURE_DST, rlc, exec)
    }

    /// Like [`Batch::new`], for signatures with another domain separation tag.
    pub(crate) fn with_tag(
        sets: &[Option<SignatureSet<'_>>],
        dst: &[u8],
        rlc: &Rlc,
        exec: Exec<'_>,
    ) -> Batch {
        let mut refused = Vec::new();
        // Equal messages share a hash and a Miller loop.
        let mut groups: BTreeMap<&[u8], Vec<usize>> = BTreeMap::new();
        for (i, set) in sets.iter().enumerate() {
            match set {
                Some(set) if !set.signature.is_infinity() => {
                    groups.entry(set.message).or_default().push(i);
                }
                _ => refused.push(i),
            }
        }
        let messages: Vec<&[u8]> = groups.keys().copied().collect();
        let hashes = hash_many_to_g2(&messages, dst, exec);
        let mut stream = rlc.stream(&batch_digest(sets, &groups));
        let mut batch = Batch {
            refused,
            index: Vec::new(),
            keys: Vec::new(),
            signatures: Vec::new(),
            message: Vec::new(),
            hashes,
            weights: Vec::new(),
            bits: rlc.bits(),
            total: sets.len(),
            root: OnceLock::new(),
        };
        for (m, mut members) in groups.into_values().enumerate() {
            stream.shuffle(&mut members);
            for i in members {
                batch.push(
                    i,
                    m,
                    sets[i].as_ref().expect("only decoded items are grouped"),
                    &mut stream,
                );
            }
        }
        batch
    }

    fn push(
        &mut self,
        i: usize,
        message: usize,
        set: &SignatureSet<'_>,
        stream: &mut WeightStream,
    ) {
        self.index.push(i);
        self.keys.push(*set.key.point());
        self.signatures.push(*set.signature.point());
        self.message.push(message);
        stream.push_weight(&mut self.weights);
    }

    /// Number of items, including refused ones.
    pub(crate) fn len(&self) -> usize {
        self.total
    }

    /// The signatures under test, each with its item.
    pub(crate) fn signatures(&self) -> impl Iterator<Item = (usize, &G2Affine)> {
        self.index.iter().copied().zip(&self.signatures)
    }

    /// Number of distinct messages.
    pub(crate) fn message_count(&self) -> usize {
        self.hashes.len()
    }

    /// Returns whether every item is good; false if `exec` was asked to stop.
    pub fn check_all(&self, exec: Exec<'_>) -> bool {
        let holds = || self.root_value(exec).is_some_and(Gt::is_one);
        self.refused.is_empty() && (self.index.is_empty() || holds())
    }

    /// Returns whether every item with an index in `range` is good; false if `exec` was asked to stop.
    ///
    /// # Panics
    /// If the range extends past the end of the batch.
    pub fn check(&self, range: Range<usize>, exec: Exec<'_>) -> bool {
        assert!(
            range.end <= self.total,
            "range {range:?} of {} items",
            self.total
        );
        // The value of the whole is computed only once.
        if range == (0..self.total) {
            return self.check_all(exec);
        }
        if self.refused.iter().any(|i| range.contains(i)) {
            return false;
        }
        let part = self.part(|position| range.contains(&self.index[position]));
        let value = || part.value(0..part.index.len(), exec);
        part.index.is_empty() || value().is_some_and(|value| value.is_one())
    }

    /// The items at the tree positions to keep, with their weights.
    fn part(&self, keep: impl Fn(usize) -> bool) -> Batch {
        let kept: Vec<usize> = (0..self.index.len())
            .filter(|&position| keep(position))
            .collect();
        Batch {
            refused: Vec::new(),
            index: kept.iter().map(|&p| self.index[p]).collect(),
            keys: kept.iter().map(|&p| self.keys[p]).collect(),
            signatures: kept.iter().map(|&p| self.signatures[p]).collect(),
            message: kept.iter().map(|&p| self.message[p]).collect(),
            // All of them, because the numbers of messages are those of the whole batch.
            hashes: self.hashes.clone(),
            weights: kept
                .iter()
                .flat_map(|&p| self.weights_of(p..p + 1))
                .copied()
                .collect(),
            bits: self.bits,
            total: kept.len(),
            root: OnceLock::new(),
        }
    }

    fn weights_of(&self, range: Range<usize>) -> &[u8] {
        let bytes = self.bits.bits() / 8;
        &self.weights[range.start * bytes..range.end * bytes]
    }

    /// The value of all items. It is computed outside the cell: a pool thread that waits for a part of it may
    /// steal another check of this batch, which would enter the cell again.
    fn root_value(&self, exec: Exec<'_>) -> Option<&Gt> {
        if self.root.get().is_none() {
            let value = self.value(0..self.index.len(), exec)?;
            return Some(self.root.get_or_init(|| value));
        }
        self.root.get()
    }

    /// Ranges of equal messages within a range of tree positions.
    fn groups(&self, range: Range<usize>) -> impl Iterator<Item = Range<usize>> + '_ {
        let mut from = range.start;
        self.message[range].chunk_by(|a, b| a == b).map(move |run| {
            let group = from..from + run.len();
            from = group.end;
            group
        })
    }

    /// f(range) in GT: one exactly if the weighted combination of the range holds. `None` if the task was asked
    /// to stop, because parts are then missing.
    fn value(&self, range: Range<usize>, exec: Exec<'_>) -> Option<Gt> {
        let (pairs, signature) = exec.join(
            || self.pairs(range.clone(), exec),
            || {
                let chunks = exec.pieces(range.len(), SUM_POINTS.0, SUM_POINTS.1);
                let sums = exec.map(chunks.len(), |c| {
                    if exec.stopped() {
                        // Any point will do: `product` sees the flag too and returns nothing.
                        return G2Affine::INFINITY;
                    }
                    let chunk = range.start + chunks[c].start..range.start + chunks[c].end;
                    vartime_weighted_sum(
                        exec.backend(),
                        &self.signatures[chunk.clone()],
                        self.weights_of(chunk),
                        self.bits.bits(),
                    )
                });
                g2::sum_bulk(&sums.iter().collect::<Vec<_>>())
            },
        );
        product(pairs, signature, exec)
    }

    /// The weighted keys of each message in a range, and the hash of the message.
    fn pairs(&self, range: Range<usize>, exec: Exec<'_>) -> Vec<(G1Affine, G2Affine)> {
        let groups: Vec<Range<usize>> = self.groups(range).collect();
        let (keys, weights) = (&self.keys, &self.weights);
        let keys = vartime_weighted_sums(keys, weights, self.bits.bits(), &groups, exec);
        let hashes = groups
            .iter()
            .map(|group| self.hashes[self.message[group.start]]);
        keys.into_iter().zip(hashes).collect()
    }

    /// Computes the value of all items of a batch whose signatures are only known to be on the curve. If some
    /// are outside the subgroup, returns these items instead.
    ///
    /// The bits of the weights serve both tests ([`crate::lecture`], section 5). If the task was asked to stop,
    /// no item is returned and nothing is known about any.
    pub(crate) fn check_subgroup_and_all(&self, exec: Exec<'_>) -> Vec<usize> {
        let count = self.index.len();
        let (pairs, signature) = exec.join(
            || self.pairs(0..count, exec),
            || {
                let (least, most) = SUBGROUP_POINTS;
                let chunks = exec.pieces(count, least, exec.most(most));
                exec.map(chunks.len(), |c| match exec.stopped() {
                    // As in `value`: the flag stays set, so nothing is concluded from this point.
                    true => Ok(G2Affine::INFINITY),
                    false => {
                        let (points, weights) = (
                            &self.signatures[chunks[c].clone()],
                            self.weights_of(chunks[c].clone()),
                        );
                        vartime_checked_sum(exec.backend(), points, weights, self.bits).map_err(
                            |outside| outside.iter().map(|i| chunks[c].start + i).collect(),
                        )
                    }
                })
            },
        );
        let mut outside: Vec<usize> = Vec::new();
        let mut sums = Vec::with_capacity(signature.len());
        for part in signature {
            match part {
                Ok(sum) => sums.push(sum),
                Err(positions) => outside.extend::<Vec<usize>>(positions),
            }
        }
        if outside.is_empty() && count > 0 {
            let signature = g2::sum_bulk(&sums.iter().collect::<Vec<_>>());
            if let Some(value) = product(pairs, signature, exec) {
                self.root.get_or_init(|| value);
            }
        }
        outside
            .into_iter()
            .map(|position| self.index[position])
            .collect()
    }

    /// Finds exactly the bad items, using values in GT.
    ///
    /// One test of half of a node's items gives the values of both halves, because the value of the node is
    /// their product. Falls back to verifying the remaining items one by one when the tests cost more than a
    /// tenth of that (a batch of many messages with many bad items). If `exec` was asked to stop, some may be
    /// missing.
    pub fn locate(&self, exec: Exec<'_>) -> Located {
        let mut search = Search {
            batch: self,
            exec,
            spent: 0,
            decided: 0,
            found: Located::default(),
        };
        search.run();
        let mut found = search.found;
        found.bad.extend_from_slice(&self.refused);
        found.bad.sort_unstable();
        found
    }

    /// Verifies the item at a tree position on its own, without weights.
    fn verify_alone(&self, position: usize) -> bool {
        core_verify(
            &self.keys[position],
            &self.hashes[self.message[position]],
            &self.signatures[position],
        )
    }
}

/// The product of the pairings of `pairs` and of (-g1, `signature`); `None` if the task was asked to stop.
fn product(
    mut pairs: Vec<(G1Affine, G2Affine)>,
    signature: G2Affine,
    exec: Exec<'_>,
) -> Option<Gt> {
    pairs.push((g1::generator().neg(), signature));
    let product = miller_product(&pairs, exec);
    // Checked last: if the flag was set at any time before, it is still set now.
    (!exec.stopped()).then(|| product.final_exp())
}

/// SHA-256 over everything that the verdicts depend on.
fn batch_digest(
    sets: &[Option<SignatureSet<'_>>],
    groups: &BTreeMap<&[u8], Vec<usize>>,
) -> [u8; 32] {
    let mut hasher = Sha256::new();
    hasher.update(b"alphorn-rlc-v1");
    hasher.update((sets.len() as u64).to_le_bytes());
    for (message, members) in groups {
        hasher.update((message.len() as u64).to_le_bytes());
        hasher.update(message);
        hasher.update((members.len() as u64).to_le_bytes());
        for &i in members {
            hasher.update((i as u64).to_le_bytes());
            if let Some(set) = &sets[i] {
                hasher.update(g1::serialize(set.key.point()));
                hasher.update(g2::serialize(set.signature.point()));
            }
        }
    }
    hasher.finalize().into()
}

/// A tree node whose value is known and is not one.
struct Node {
    range: Range<usize>,
    value: Gt,
}

/// A running search.
struct Search<'a> {
    batch: &'a Batch,
    exec: Exec<'a>,
    /// Cost of the tests after the first one.
    spent: u64,
    /// Items whose verdict is known.
    decided: u64,
    found: Located,
}

impl Search<'_> {
    fn run(&mut self) {
        let n = self.batch.index.len();
        if n == 0 {
            return;
        }
        self.count(&(0..n));
        let Some(&value) = self.batch.root_value(self.exec) else {
            return;
        };
        let mut open = Vec::new();
        self.settle(Node { range: 0..n, value }, &mut open);
        let single = 2 * MILLER_COST + FINAL_EXP_COST;
        // Depth first, so that decisions keep pace with tests. With one message the number of tests never
        // exceeds the number of decided items by more than the depth, and the rule never applies.
        let slack = single * (n as u64 / 10).max(u64::from(n.ilog2()) + 1);
        while let Some(node) = open.pop() {
            if self.spent > slack + single * self.decided {
                // Back to the others, so that it is verified one by one as well.
                open.push(node);
                break;
            }
            let half = node.range.start + node.range.len() / 2;
            let (left, right) = (node.range.start..half, half..node.range.end);
            self.spent += self.count(&left);
            let Some(left_value) = self.batch.value(left.clone(), self.exec) else {
                return;
            };
            let right_value = node.value.mul(&left_value.inverse());
            // The left half is settled last, so it is searched next.
            self.settle(
                Node {
                    range: right,
                    value: right_value,
                },
                &mut open,
            );
            self.settle(
                Node {
                    range: left,
                    value: left_value,
                },
                &mut open,
            );
        }
        self.finish_one_by_one(open);
    }

    /// Counts a test of a range and returns its cost.
    fn count(&mut self, range: &Range<usize>) -> u64 {
        let miller_loops = self.batch.groups(range.clone()).count() + 1;
        self.found.tests += 1;
        self.found.miller_loops += miller_loops;
        miller_loops as u64 * MILLER_COST + FINAL_EXP_COST
    }

    /// Decides a node that is good or a leaf; keeps any other node open.
    fn settle(&mut self, node: Node, open: &mut Vec<Node>) {
        if node.value.is_one() {
            self.decided += node.range.len() as u64;
        } else if node.range.len() == 1 {
            self.decided += 1;
            self.found.bad.push(self.batch.index[node.range.start]);
        } else {
            open.push(node);
        }
    }

    fn finish_one_by_one(&mut self, open: Vec<Node>) {
        let positions: Vec<usize> = open.into_iter().flat_map(|node| node.range).collect();
        let good = self.exec.map(positions.len(), |i| {
            // Counts as good where no verdict was reached: after a stop, bad items may be missing.
            self.exec.stopped() || self.batch.verify_alone(positions[i])
        });
        self.found.tests += positions.len();
        self.found.miller_loops += 2 * positions.len();
        let bad = positions.iter().zip(good).filter(|(_, good)| !good);
        self.found
            .bad
            .extend(bad.map(|(&position, _)| self.batch.index[position]));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ciphersuite::sign;
    use crate::interop::InteropKey;
    use crate::rlc::RlcBits;

    /// The claims of interop keys 0 to n - 1 on one message.
    fn claims(n: u64) -> Vec<SignatureSet<'static>> {
        let claim = |i| {
            let secret = InteropKey::new(i).to_secret_key();
            SignatureSet {
                key: secret.public_key(),
                message: b"head",
                signature: sign(&secret, b"head"),
            }
        };
        (0..n).map(claim).collect()
    }

    fn batch(sets: &[SignatureSet<'_>], rlc: &Rlc) -> Batch {
        let sets: Vec<_> = sets.iter().copied().map(Some).collect();
        Batch::new(&sets, rlc, Exec::serial())
    }

    /// Two errors that cancel under weights known to the attacker, namely those of the batch before the
    /// signatures were changed. Nothing here is secret, so only the digest protects the verdict.
    #[test]
    fn trap_09_errors_made_for_the_weights_of_other_signatures_are_found() {
        let rlc = Rlc::reproducible();
        let mut sets = claims(4);
        let honest = batch(&sets, &rlc);
        assert!(honest.check_all(Exec::serial()));
        let weight = |item: usize| {
            let position = honest.index.iter().position(|i| *i == item).unwrap();
            honest.weights_of(position..position + 1)
        };
        let error = g2::mul(sets[3].signature.point(), &[5], 8);
        // Weight 2 times the error is added to item 0, weight 0 times the error is subtracted from item 2.
        let errors = [
            (0, g2::mul(&error, weight(2), 128)),
            (2, g2::mul(&error, weight(0), 128).neg()),
        ];
        for (item, error) in errors {
            let signature = g2::sum_naive(&[*sets[item].signature.point(), error]);
            sets[item].signature = Signature::from_point(signature);
        }
        let forged = batch(&sets, &rlc);
        assert!(!forged.check_all(Exec::serial()));
        assert_eq!(forged.locate(Exec::serial()).bad, [0, 2]);
    }

    #[test]
    fn trap_09_weights_depend_on_all_that_is_verified() {
        let rlc = Rlc::new([7; 32], RlcBits::Bits64);
        let (sets, other) = (claims(3), claims(4)[3]);
        let weights = |sets: &[SignatureSet<'_>]| batch(sets, &rlc).weights;
        let before = weights(&sets);
        assert_eq!(before, weights(&sets));
        let changed = |change: &dyn Fn(&mut SignatureSet<'static>)| {
            let mut sets = sets.clone();
            change(&mut sets[1]);
            weights(&sets)
        };
        assert_ne!(before, changed(&|set| set.key = other.key));
        assert_ne!(before, changed(&|set| set.signature = other.signature));
        assert_ne!(before, changed(&|set| set.message = b"tail"));
        assert_ne!(before, weights(&[sets[1], sets[0], sets[2]]));
    }
}
