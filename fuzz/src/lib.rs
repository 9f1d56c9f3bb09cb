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

pub use mutate::Mutator;

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

/// [`TARGETS`], each from its module, its function, the function of its seeds and its number of mutations.
macro_rules! targets {
    ($($module:ident::$run:ident, $seeds:ident, $mutations:literal;)*) => {
        $(pub use $module::$run;)*

        /// All targets, sorted by name.
        pub const TARGETS: &[Target] = &[$(Target {
            name: stringify!($run),
            run: $run,
            seeds: $module::$seeds,
            mutations: $mutations,
        }),*];
    };
}

targets! {
    locate::bad_items, bad_items_seeds, 100;
    worker::bisect_ops, bisect_ops_seeds, 2_000;
    bls::bls_bytes, bls_bytes_seeds, 100_000;
    net::broadcast_frame, broadcast_frame_seeds, 50_000;
    broadcast::broadcast_message, broadcast_message_seeds, 4_000;
    broadcast::broadcast_roles, broadcast_roles_seeds, 20_000;
    anchor::chain_anchor, chain_anchor_seeds, 5_000;
    worker::child_frame, child_frame_seeds, 50_000;
    types::codec_reader, codec_reader_seeds, 200_000;
    falcon::falcon_bytes, falcon_bytes_seeds, 20_000;
    falcon::falcon_evidence, falcon_evidence_seeds, 40;
    horn::horn_aggregator, horn_aggregator_seeds, 1_000;
    horn::horn_combiner, horn_combiner_seeds, 1_000;
    horn::horn_gate, horn_gate_seeds, 1_000;
    horn::horn_proposer, horn_proposer_seeds, 1_000;
    horn::horn_voter, horn_voter_seeds, 1_000;
    ipa::ipa_proof, ipa_proof_seeds, 2_000;
    key_cache::key_cache, key_cache_seeds, 50_000;
    lattice::lattice_proof, lattice_proof_seeds, 60;
    record::node_inputs, node_inputs_seeds, 1_000;
    worker::plan_ops, plan_ops_seeds, 1_000;
    proto::proto_message, proto_message_seeds, 200_000;
    net::reqresp_frame, reqresp_frame_seeds, 50_000;
    proofs::stark_proof, stark_proof_seeds, 2_000;
    sums::sum_methods, sum_methods_seeds, 500;
    types::support_code, support_code_seeds, 50_000;
    proto::topic_name, topic_name_seeds, 200_000;
    trace::trace_line, trace_line_seeds, 20_000;
    xmss::xmss_bytes, xmss_bytes_seeds, 50_000;
    proofs::xmss_evidence, xmss_evidence_seeds, 10_000;
    xmss::xmss_files, xmss_files_seeds, 5_000;
    proofs::xmss_merge, xmss_merge_seeds, 60;
    proofs::xmss_proof, xmss_proof_seeds, 60;
}
