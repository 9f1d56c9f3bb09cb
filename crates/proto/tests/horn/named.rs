//! Workers that name inputs in place of verdicts: they have verified no other.

use crate::forge::{Forge, overstate};
use crate::net::Net;
use crate::rooms::{observer, offer, unsigned, vote};
use alphorn_proto::wire::{Entry, HEADER_BYTES, Topic};
use alphorn_proto::{Token, Verdict};
use alphorn_scheme::{Evidence, Outcome, Product};
use alphorn_types::{Bitfield, Slot, Support, Validator};
use std::cell::Cell;
use std::rc::Rc;

/// The next verifications name these inputs, in their order, or have their verdicts where there are
/// none; counts verifications.
fn name_inputs(net: &mut Net, named: Vec<Option<Vec<usize>>>) -> Rc<Cell<usize>> {
    let jobs = Rc::new(Cell::new(0));
    let (count, mut named) = (jobs.clone(), named.into_iter());
    net.fate = Box::new(move |_, outcome| match outcome {
        Outcome::Done(Product::Verdicts(_)) => {
            count.set(count.get() + 1);
            named.next().flatten().map_or(outcome, Outcome::Invalid)
        }
        other => other,
    });
    jobs
}

fn judge<const N: usize>(net: &mut Net, messages: [(Topic, Vec<u8>); N]) -> [Option<Verdict>; N] {
    let mut peer = 0;
    let tokens = messages.map(|message| {
        peer += 1;
        offer(net, peer, message)
    });
    net.run_until(net.now);
    tokens.map(|token: Token| net.verdict(0, token))
}

/// Of a forged message, one that is named, and an honest one.
const JUDGED: [Option<Verdict>; 3] = [
    Some(Verdict::Reject),
    Some(Verdict::Ignore),
    Some(Verdict::Accept),
];

/// Only the first peer is blamed.
fn check_reports(net: &Net, reason: &str) {
    let reports = net.nodes[0].reports.iter();
    let reports: Vec<_> = reports.map(|(peer, reason)| (peer.0, *reason)).collect();
    assert_eq!(reports, [(1, reason)]);
}

#[test]
fn votes_with_a_named_one_are_verified_without_it() {
    let (mut net, forge) = observer((40, 1, 1), 1, |_| ());
    let vote = vote(&net, 1);
    let jobs = name_inputs(&mut net, vec![Some(vec![1])]);
    let honest = |voter| forge.vote(Validator(voter), vote);
    let messages = [unsigned(&forge, 0, vote), honest(1), honest(2)];
    assert_eq!(judge(&mut net, messages), JUDGED);
    assert_eq!(jobs.get(), 2);
    check_reports(&net, "bad_evidence");
}

/// Nothing is accepted of a job that names none, or what it does not have, and the next is run.
#[test]
fn names_of_no_input_accept_nothing() {
    for named in [vec![], vec![7]] {
        let (mut net, forge) = observer((40, 1, 1), 1, |_| ());
        let vote = vote(&net, 1);
        let jobs = name_inputs(&mut net, vec![Some(named)]);
        let messages = [0, 1].map(|voter| unsigned(&forge, voter, vote));
        assert_eq!(judge(&mut net, messages), [Some(Verdict::Ignore); 2]);
        assert_eq!(jobs.get(), 1);
        let honest = [forge.vote(Validator(2), vote)];
        assert_eq!(judge(&mut net, honest), [Some(Verdict::Accept)]);
    }
}

#[test]
fn messages_are_verified_again_four_times_at_most() {
    let (mut net, forge) = observer((40, 1, 1), 1, |_| ());
    let vote = vote(&net, 1);
    let jobs = name_inputs(&mut net, vec![Some(vec![0]); 4]);
    let messages = [0, 1, 2, 3, 4, 5, 6, 7].map(|voter| forge.vote(Validator(voter), vote));
    assert_eq!(judge(&mut net, messages), [Some(Verdict::Ignore); 8]);
    assert_eq!(jobs.get(), 4);
    assert!(net.nodes[0].reports.is_empty());
    let honest = [forge.vote(Validator(0), vote)];
    assert_eq!(judge(&mut net, honest), [Some(Verdict::Accept)]);
}

/// True evidence for one more than it proves.
fn overstated(truth: &Evidence) -> Evidence {
    let mut signers = Bitfield::new(truth.support.len());
    (1..4).for_each(|at| signers.set(at));
    overstate(truth, Support::from_bits(signers))
}

#[test]
fn collections_with_a_named_one_are_verified_without_it() {
    // First the senders, then the evidence.
    for (of_senders, reason) in [(true, "bad_envelope"), (false, "bad_evidence")] {
        let (mut net, forge) = observer((40, 1, 1), 1, |_| ());
        let vote = vote(&net, 1);
        let truth = forge.committee_evidence(0, &vote, &[1, 2], 1);
        let of = |sender, evidence: &Evidence| {
            let sender = forge.member(0, sender);
            forge.encode(&forge.collection(0, sender, vote, evidence.clone()))
        };
        let mut forged = of(1, &truth);
        let mut named = vec![Some(vec![1])];
        if of_senders {
            *forged.1.last_mut().unwrap() ^= 1;
        } else {
            forged = of(1, &overstated(&truth));
            named.insert(0, None);
        }
        let jobs = name_inputs(&mut net, named);
        let messages = [forged, of(2, &truth), of(3, &truth)];
        assert_eq!(judge(&mut net, messages), JUDGED, "{reason}");
        assert_eq!(jobs.get(), 3);
        check_reports(&net, reason);
    }
}

/// Entries of a block that the machine has not seen.
fn entries(net: &Net, forge: &Forge) -> [Entry; 2] {
    let vote = vote(net, 0);
    [0, 1].map(|committee| Entry {
        vote,
        committee,
        evidence: forge.committee_evidence(committee, &vote, &[1, 2], 1),
    })
}

#[test]
fn blocks_with_a_named_one_are_verified_without_it() {
    let (mut net, forge) = observer((40, 2, 1), 1, |_| ());
    let entries = entries(&net, &forge).to_vec();
    let block = forge.block(Slot(1), net.nodes[0].horn.head(), entries);
    let messages = [1, 2, 0].map(|flip| {
        let (topic, mut data) = forge.encode_block(&block);
        // After version, kind and header.
        data[2 + HEADER_BYTES] ^= flip;
        (topic, data)
    });
    let jobs = name_inputs(&mut net, vec![Some(vec![1])]);
    assert_eq!(judge(&mut net, messages), JUDGED);
    assert_eq!(jobs.get(), 3);
    check_reports(&net, "bad_envelope");
}

/// A false entry stands before the one that is named: it is neither taken nor remembered.
#[test]
fn entries_before_a_named_one_are_not_verified() {
    for named in [vec![], vec![1]] {
        let (mut net, forge) = observer((40, 2, 1), 1, |_| ());
        let [first, second] = entries(&net, &forge);
        let first = Entry {
            evidence: overstated(&first.evidence),
            ..first
        };
        let block = forge.block(Slot(1), net.nodes[0].horn.head(), vec![first, second]);
        name_inputs(&mut net, vec![None, Some(named)]);
        let data = forge.encode_block(&block);
        assert_eq!(judge(&mut net, [data.clone()]), [Some(Verdict::Ignore)]);
        assert_eq!(judge(&mut net, [data]), [Some(Verdict::Reject)]);
        check_reports(&net, "bad_evidence");
    }
}
