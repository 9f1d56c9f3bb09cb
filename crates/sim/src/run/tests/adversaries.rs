//! Adversaries in the network, for every protocol in which they exist. Their messages are counted and
//! their cost is bounded; honest nodes have proof against them and none against each other, and they
//! deliver.

use super::*;
use crate::report::Adversity;

/// A broadcast of 20 kB to 64 nodes with 24 connections each, a fifth of which cheats.
fn attacked(strategy: &str, mode: &str, fault: &str) -> Outcome {
    let fault = format!("mode = \"{mode}\"\n[[fault]]\nshare_pct = 20\n{fault}\n");
    let scenario = broadcast(strategy, &fault);
    let outcome = run(&scenario, 7, &mut ());
    outcome.unwrap_or_else(|error| panic!("{strategy} {mode} {fault}: {error}"))
}

const CODES: [(&str, &str); 4] = [
    ("rlnc", "rank"),
    ("rlnc", "bytes"),
    ("rs", "rank"),
    ("rs", "bytes"),
];
/// A fifth of 64.
const CHEATS: u32 = 12;

fn count(of: &std::collections::BTreeMap<String, u64>, reason: &str) -> u64 {
    of.get(reason).copied().unwrap_or(0)
}

#[test]
fn bad_pieces_bytes_and_signatures_convict_their_senders() {
    let floods = [
        ("kind = \"invalid_flood\"", "invalid_chunk"),
        (
            "kind = \"invalid_flood\"\nrate = 200\nuntil_ms = 4000",
            "invalid_chunk",
        ),
        (
            "kind = \"invalid_flood\"\nrate = 200\nfails_at = \"decoding\"\nbytes = 5000\nuntil_ms = 4000",
            "bad_length",
        ),
        (
            "kind = \"invalid_flood\"\nrate = 200\nfails_at = \"signature\"\nuntil_ms = 4000",
            "bad_auth",
        ),
    ];
    for (strategy, mode) in CODES {
        for (fault, reason) in floods {
            let outcome = attacked(strategy, mode, fault);
            let at = format!("{strategy} {mode} {fault}");
            let Adversity {
                refused,
                reports,
                accused,
                evidence,
            } = &outcome.adversity;
            assert_eq!(outcome.summary().delivered_pct, 100.0, "{at}");
            assert!(count(reports, reason) > 0, "{at}: {reports:?}");
            assert!((1..=CHEATS).contains(accused), "{at}: {accused}");
            assert_eq!(*evidence, 0, "{at}");
            // One strike for each neighbour: later messages are not even read.
            let pairs = u64::from(CHEATS) * 24;
            let convicted = count(reports, reason);
            assert!(convicted <= pairs, "{at}: {convicted} of {pairs}");
            if fault.contains("rate") {
                assert!(count(refused, "stranger") > 100, "{at}: {refused:?}");
                // A node that never receives a piece cannot turn it into a bad one.
                assert!(*accused >= CHEATS - 2, "{at}: {accused}");
            }
        }
    }
}

#[test]
fn floods_cost_little_time_and_no_payload() {
    for (strategy, mode) in CODES {
        let quiet = run(
            &broadcast(strategy, &format!("mode = \"{mode}\"")),
            7,
            &mut (),
        )
        .unwrap();
        let flood = "kind = \"invalid_flood\"\nrate = 1000\nfails_at = \"decoding\"\nbytes = 1000\nuntil_ms = 4000";
        let flooded = attacked(strategy, mode, flood);
        let (quiet, flooded) = (quiet.summary(), flooded.summary());
        assert_eq!(flooded.delivered_pct, 100.0);
        // A fifth fewer nodes help, and each of five neighbours sends a megabyte per second.
        assert!(
            flooded.t99_ns < quiet.t99_ns.map(|ns| 3 * ns),
            "{strategy}: {flooded:?}"
        );
    }
}

#[test]
fn pieces_that_add_nothing_are_refused_and_their_senders_reported() {
    for (strategy, mode) in CODES {
        let outcome = attacked(strategy, mode, "kind = \"grief\"");
        let Adversity {
            refused, accused, ..
        } = &outcome.adversity;
        assert_eq!(outcome.summary().delivered_pct, 100.0, "{strategy} {mode}");
        let useless: u64 = ["dependent", "generation_full", "expired", "useless"]
            .iter()
            .map(|reason| count(refused, reason))
            .sum();
        assert!(useless > 1000, "{strategy} {mode}: {refused:?}");
        // A repeated piece is valid: bad policy, but not proof.
        assert_eq!(*accused, 0);
    }
}

#[test]
fn lies_about_what_is_held_harm_the_liars() {
    for (strategy, mode) in CODES {
        let outcome = attacked(strategy, mode, "kind = \"false_feedback\"");
        assert_eq!(outcome.summary().delivered_pct, 100.0, "{strategy} {mode}");
        assert_eq!(outcome.adversity.accused, 0);
    }
}

#[test]
fn two_payloads_of_one_duty_are_evidence_at_every_node() {
    let fault = "[[fault]]\nkind = \"equivocate\"\nnodes = [5]\n";
    for (strategy, mode) in CODES {
        let scenario = broadcast(strategy, &format!("mode = \"{mode}\"\n{fault}"));
        let outcome =
            run(&scenario, 7, &mut ()).unwrap_or_else(|error| panic!("{strategy}: {error}"));
        assert_eq!(outcome.nodes[5].role, "equivocate");
        assert_eq!(outcome.adversity.evidence, 63, "{strategy} {mode}");
        assert_eq!(
            outcome.adversity.accused, 0,
            "the source lies, not who passes it on"
        );
        // Half of the nodes heard of the other payload first. The source chooses which node gets which,
        // and not all need get one, because pieces of the second header are not forwarded.
        let delivered = outcome.summary().delivered_pct;
        assert!(delivered > 50.0, "{strategy} {mode}: {delivered}");
    }
    // On a mesh both payloads reach every node, on a grid some, and without relays none.
    for (protocol, delivered, evidence) in [
        ("gossip", 100.0, 99),
        ("grid", 100.0, 41),
        ("direct", 100.0, 0),
    ] {
        let scenario = scenario(100, protocol, &format!("[traffic]\nbytes = 20000\n{fault}"));
        let outcome =
            run(&scenario, 7, &mut ()).unwrap_or_else(|error| panic!("{protocol}: {error}"));
        assert_eq!(outcome.summary().delivered_pct, delivered, "{protocol}");
        assert_eq!(outcome.adversity.evidence, evidence, "{protocol}");
    }
}

#[test]
fn who_has_enough_of_no_payload_convicts_its_source() {
    for (strategy, mode) in CODES {
        let fault =
            format!("mode = \"{mode}\"\n[[fault]]\nkind = \"non_codeword_source\"\nnodes = [5]\n");
        let outcome = run(&broadcast(strategy, &fault), 7, &mut ()).unwrap();
        assert_eq!(outcome.summary().delivered_pct, 0.0, "{strategy} {mode}");
        assert_eq!(outcome.adversity.evidence, 63, "{strategy} {mode}");
        assert!(
            outcome.adversity.reports.is_empty(),
            "nobody blames a neighbour"
        );
    }
}

#[test]
fn sources_that_hold_back_deliver_nothing_and_blame_nobody() {
    for (strategy, mode) in CODES {
        let fault = format!(
            "mode = \"{mode}\"\n[[fault]]\nkind = \"rank_deficient_source\"\nnodes = [5]\n"
        );
        let outcome = run(&broadcast(strategy, &fault), 7, &mut ()).unwrap();
        assert_eq!(outcome.summary().delivered_pct, 0.0, "{strategy} {mode}");
        assert_eq!(outcome.adversity.accused, 0, "{strategy} {mode}");
        assert_eq!(outcome.nodes[5].role, "rank_deficient_source");
    }
}

#[test]
fn what_an_adversary_cannot_be_is_refused() {
    let refused = |scenario: &Scenario| run(scenario, 7, &mut ()).unwrap_err().to_string();
    for (fault, protocol) in [
        ("kind = \"non_codeword_source\"", "gossip"),
        ("kind = \"rank_deficient_source\"", "grid"),
        (
            "kind = \"invalid_flood\"\nfails_at = \"signature\"\nrate = 5",
            "direct",
        ),
    ] {
        let more = format!("[[fault]]\nshare_pct = 10\n{fault}\n");
        let error = refused(&scenario(100, protocol, &more));
        let expected = format!("does not exist for protocol {protocol}");
        assert!(error.contains(&expected), "{error}");
    }
    let more = "[[fault]]\nshare_pct = 10\nkind = \"false_feedback\"\nrate = 3\n";
    let error = refused(&broadcast("rlnc", more));
    assert!(
        error.contains("does not exist for protocol broadcast"),
        "{error}"
    );
}
