//! Feeds arbitrary bytes to every decoder and state machine.
//!
//! A target is a plain function over bytes that must return for every input; what it asserts is a
//! property of the decoder, not only the absence of a panic. [`TARGETS`] lists all of them: the
//! replay test (`tests/replay.rs`) runs seeds, corpus and mutations through each on stable Rust,
//! and a three-line file in `fuzz_targets/` gives each to libFuzzer.
#![forbid(unsafe_code)]

mod anchor;
mod bls;
mod broadcast;
mod falcon;
mod horn;
mod ipa;
mod key_cache;
mod lattice;
mod locate;
mod mutate;
mod net;
mod proofs;
mod proto;
mod record;
mod sums;
mod trace;
mod types;
mod worker;
mod xmss;

pub use anchor::chain_anchor;
pub use bls::bls_bytes;
pub use broadcast::{broadcast_message, broadcast_roles};
pub use falcon::{falcon_bytes, falcon_evidence};
pub use horn::{horn_aggregator, horn_combiner, horn_gate, horn_proposer, horn_voter};
pub use ipa::ipa_proof;
pub use key_cache::key_cache;
pub use lattice::lattice_proof;
pub use locate::bad_items;
pub use mutate::Mutator;
pub use net::{broadcast_frame, reqresp_frame};
pub use proofs::{stark_proof, xmss_evidence, xmss_merge, xmss_proof};
pub use proto::{proto_message, topic_name};
pub use record::node_inputs;
pub use sums::sum_methods;
pub use trace::trace_line;
pub use types::{codec_reader, support_code};
pub use worker::{bisect_ops, child_frame, plan_ops};
pub use xmss::{xmss_bytes, xmss_files};

/// One fuzz target.
#[derive(Clone, Copy)]
pub struct Target {
    /// Name of the function, of its binary and of its folder in `corpus/`.
    pub name: &'static str,
    /// Runs one input and says whether the decoder accepted it; panics if a property does not hold.
    pub run: fn(&[u8]) -> bool,
    /// Inputs that are accepted, made by the encoders, from which mutations start.
    pub seeds: fn() -> Vec<Vec<u8>>,
    /// Mutations that the replay test runs; all targets together stay below some seconds.
    pub mutations: u32,
}

/// All targets, sorted by name.
pub const TARGETS: &[Target] = &[
    Target {
        name: "bad_items",
        run: bad_items,
        seeds: locate::bad_items_seeds,
        mutations: 100,
    },
    Target {
        name: "bisect_ops",
        run: bisect_ops,
        seeds: worker::bisect_ops_seeds,
        mutations: 2_000,
    },
    Target {
        name: "bls_bytes",
        run: bls_bytes,
        seeds: bls::bls_bytes_seeds,
        mutations: 100_000,
    },
    Target {
        name: "broadcast_frame",
        run: broadcast_frame,
        seeds: net::broadcast_frame_seeds,
        mutations: 50_000,
    },
    Target {
        name: "broadcast_message",
        run: broadcast_message,
        seeds: broadcast::broadcast_message_seeds,
        mutations: 4_000,
    },
    Target {
        name: "broadcast_roles",
        run: broadcast_roles,
        seeds: broadcast::broadcast_roles_seeds,
        mutations: 20_000,
    },
    Target {
        name: "chain_anchor",
        run: chain_anchor,
        seeds: anchor::chain_anchor_seeds,
        mutations: 5_000,
    },
    Target {
        name: "child_frame",
        run: child_frame,
        seeds: worker::child_frame_seeds,
        mutations: 50_000,
    },
    Target {
        name: "codec_reader",
        run: codec_reader,
        seeds: types::codec_reader_seeds,
        mutations: 200_000,
    },
    Target {
        name: "falcon_bytes",
        run: falcon_bytes,
        seeds: falcon::falcon_bytes_seeds,
        mutations: 20_000,
    },
    Target {
        name: "falcon_evidence",
        run: falcon_evidence,
        seeds: falcon::falcon_evidence_seeds,
        mutations: 40,
    },
    Target {
        name: "horn_aggregator",
        run: horn_aggregator,
        seeds: horn::horn_aggregator_seeds,
        mutations: 1_000,
    },
    Target {
        name: "horn_combiner",
        run: horn_combiner,
        seeds: horn::horn_combiner_seeds,
        mutations: 1_000,
    },
    Target {
        name: "horn_gate",
        run: horn_gate,
        seeds: horn::horn_gate_seeds,
        mutations: 1_000,
    },
    Target {
        name: "horn_proposer",
        run: horn_proposer,
        seeds: horn::horn_proposer_seeds,
        mutations: 1_000,
    },
    Target {
        name: "horn_voter",
        run: horn_voter,
        seeds: horn::horn_voter_seeds,
        mutations: 1_000,
    },
    Target {
        name: "ipa_proof",
        run: ipa_proof,
        seeds: ipa::ipa_proof_seeds,
        mutations: 2_000,
    },
    Target {
        name: "key_cache",
        run: key_cache,
        seeds: key_cache::key_cache_seeds,
        mutations: 50_000,
    },
    Target {
        name: "lattice_proof",
        run: lattice_proof,
        seeds: lattice::lattice_proof_seeds,
        mutations: 60,
    },
    Target {
        name: "node_inputs",
        run: node_inputs,
        seeds: record::node_inputs_seeds,
        mutations: 1_000,
    },
    Target {
        name: "plan_ops",
        run: plan_ops,
        seeds: worker::plan_ops_seeds,
        mutations: 1_000,
    },
    Target {
        name: "proto_message",
        run: proto_message,
        seeds: proto::proto_message_seeds,
        mutations: 200_000,
    },
    Target {
        name: "reqresp_frame",
        run: reqresp_frame,
        seeds: net::reqresp_frame_seeds,
        mutations: 50_000,
    },
    Target {
        name: "stark_proof",
        run: stark_proof,
        seeds: proofs::stark_proof_seeds,
        mutations: 2_000,
    },
    Target {
        name: "sum_methods",
        run: sum_methods,
        seeds: sums::sum_methods_seeds,
        mutations: 500,
    },
    Target {
        name: "support_code",
        run: support_code,
        seeds: types::support_code_seeds,
        mutations: 50_000,
    },
    Target {
        name: "topic_name",
        run: topic_name,
        seeds: proto::topic_name_seeds,
        mutations: 200_000,
    },
    Target {
        name: "trace_line",
        run: trace_line,
        seeds: trace::trace_line_seeds,
        mutations: 20_000,
    },
    Target {
        name: "xmss_bytes",
        run: xmss_bytes,
        seeds: xmss::xmss_bytes_seeds,
        mutations: 50_000,
    },
    Target {
        name: "xmss_evidence",
        run: xmss_evidence,
        seeds: proofs::xmss_evidence_seeds,
        mutations: 10_000,
    },
    Target {
        name: "xmss_files",
        run: xmss_files,
        seeds: xmss::xmss_files_seeds,
        mutations: 5_000,
    },
    Target {
        name: "xmss_merge",
        run: xmss_merge,
        seeds: proofs::xmss_merge_seeds,
        mutations: 60,
    },
    Target {
        name: "xmss_proof",
        run: xmss_proof,
        seeds: proofs::xmss_proof_seeds,
        mutations: 60,
    },
];
