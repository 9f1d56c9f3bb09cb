//! `alphorn sim import-beamsim`: a configuration of BEAMSIM (qdrvm/beamsim) as a scenario.

mod yaml;

use super::source::{read, shell};
use crate::error::Result;
use crate::report::write_whole;
use alphorn_sim::scenario::{Scenario, TEXT_BYTES_MAX};
use anyhow::{Context, anyhow, bail};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// A configuration of BEAMSIM as a scenario of the two-level model
#[derive(clap::Args, Debug)]
pub(super) struct Args {
    /// Configuration, as example.yaml of qdrvm/beamsim
    file: PathBuf,
    /// File of the scenario; the name without .toml becomes the scenario's. Standard output by default
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

pub(super) fn run(args: &Args) -> Result<()> {
    let text = read(&args.file, TEXT_BYTES_MAX as u64)?;
    let stem = args.out.as_ref().unwrap_or(&args.file).file_stem();
    let name = stem.unwrap_or_default().to_string_lossy();
    let scenario = import(&text, &name).with_context(|| args.file.display().to_string())?;
    match &args.out {
        None => print!("{scenario}"),
        Some(out) => {
            write_whole(out, scenario.as_bytes())?;
            println!("run: alphorn sim run {}", shell(&out.display().to_string()));
        }
    }
    Ok(())
}

/// The values of a configuration that nobody has taken yet.
struct Keys(BTreeMap<String, (usize, String)>);

impl Keys {
    /// Takes a value and reads it; the default of BEAMSIM if it is absent.
    fn take<T>(
        &mut self,
        path: &str,
        default: T,
        parse: impl Fn(&str) -> Option<T>,
    ) -> anyhow::Result<T> {
        match self.0.remove(path) {
            None => Ok(default),
            Some((line, text)) => {
                parse(&text).ok_or_else(|| anyhow!("line {line}: {path} = {text:?} cannot be read"))
            }
        }
    }

    fn number(&mut self, path: &str, default: u64) -> anyhow::Result<u64> {
        self.take(path, default, |text| text.parse().ok())
    }

    fn flag(&mut self, path: &str, default: bool) -> anyhow::Result<bool> {
        self.take(path, default, |text| match text {
            "true" => Some(true),
            "false" => Some(false),
            _ => None,
        })
    }

    /// A switch of which the two-level model has one position alone.
    fn fixed(&mut self, path: &str, default: bool, only: bool, why: &str) -> anyhow::Result<()> {
        match self.flag(path, default)? == only {
            true => Ok(()),
            false => Err(anyhow!("{path} = {}: {why}; give {only}", !only)),
        }
    }

    /// A share, in whole percent, rounded down.
    fn share(&mut self, path: &str, default_pct: u64) -> anyhow::Result<u64> {
        self.take(path, default_pct, |text| {
            let share: f64 = text.parse().ok()?;
            // 0.29 is a little less than 29 hundredths.
            (0.0..=1.0)
                .contains(&share)
                .then_some((share * 100.0 + 1e-9) as u64)
        })
    }

    /// A time, in microseconds.
    fn time(&mut self, path: &str, default_us: u64) -> anyhow::Result<u64> {
        self.take(path, default_us, |text| {
            let (number, unit) = match text.strip_suffix("ms") {
                Some(number) => (number, 1000),
                None => (text.strip_suffix("us")?, 1),
            };
            number.parse::<u64>().ok()?.checked_mul(unit)
        })
    }

    /// A bandwidth, in whole megabits a second.
    fn megabits(&mut self, path: &str, default: u64) -> anyhow::Result<u64> {
        self.take(path, default, |text| match text.strip_suffix("Mbps") {
            Some(number) => number.parse().ok(),
            None => {
                let bits: u64 = text.parse().ok()?;
                bits.is_multiple_of(1_000_000).then_some(bits / 1_000_000)
            }
        })
    }
}

/// What a configuration says, in the units of the two-level model.
struct Model {
    way: String,
    pull: bool,
    seed: u64,
    groups: u64,
    members: u64,
    globals: u64,
    local_pct: u64,
    signatures_direct: bool,
    mesh: u64,
    lazy: u64,
    signing_us: u64,
    signature_bytes: u64,
    proof_bytes: u64,
    local_start_pct: u64,
    final_pct: u64,
    signatures_per_s: u64,
    proofs_per_s: u64,
    verify_signature_us: u64,
    verify_proof_us: u64,
    mbps: u64,
}

/// The scenario that a configuration means; `name` becomes its name. Keys that are absent have the defaults
/// of BEAMSIM; keys and values that the model does not have are errors.
fn import(text: &str, name: &str) -> anyhow::Result<String> {
    let mut keys = Keys(yaml::scalars(text)?);
    let model = Model::read(&mut keys)?;
    if let Some((path, (line, _))) = keys.0.first_key_value() {
        bail!("line {line}: {path} is not known, or the two-level model has nothing like it");
    }
    let text = model.scenario(name)?;
    Scenario::parse(&text, &[]).context("as a scenario")?;
    Ok(text)
}

/// Takes the switches of which the two-level model has one position alone.
fn switches(keys: &mut Keys, way: &str) -> anyhow::Result<()> {
    let why = "all nodes are equally far from each other here";
    keys.fixed("shuffle", false, false, why)?;
    let why = "a global aggregator takes the first proof of a group here";
    keys.fixed("snark1_group_once", true, true, why)?;
    let why = "proofs are announced when they are made here";
    keys.fixed("snark1_pull_early", false, false, why)?;
    let why = "proofs are passed on by the way of the topology here";
    keys.fixed("snark1_global_smart_push", false, false, why)?;
    let why = "proofs are spread among global aggregators alone here";
    keys.fixed("snark1_half_direct", way == "direct", true, why)?;
    let why = "nobody refuses copies ahead here";
    if keys.0.contains_key("gossip.idontwant") {
        keys.fixed("gossip.idontwant", true, false, why)?;
    }
    Ok(())
}

impl Model {
    fn read(keys: &mut Keys) -> anyhow::Result<Self> {
        let bandwidth = |text: &str| ["ns3", "ns3-direct"].contains(&text).then_some(());
        let why = "its backends delay and queue have no bandwidth";
        keys.take("backend", (), bandwidth).context(why)?;
        let known = |text: &str| {
            let known = ["direct", "gossip", "grid"].contains(&text);
            known.then(|| text.to_owned())
        };
        let way = keys.take("topology", "gossip".to_owned(), known)?;
        switches(keys, &way)?;
        let members = keys.number("roles.group_validator_count", 3)?;
        let local_pct = local_share(keys, members)?;
        let locals = members * local_pct / 100;
        let direct_to = keys.number("signature_half_direct", 0)?;
        if direct_to != 0 && direct_to != locals {
            let why = "signatures that go to local aggregators go to all of their group here";
            bail!("signature_half_direct = {direct_to}: {why}; give 0 or {locals}");
        }
        let signing_us = keys.time("consts.signature_time", 20_000)?;
        if signing_us % 1000 != 0 {
            bail!("consts.signature_time = {signing_us}us: give whole milliseconds");
        }
        let last_rate = "consts.snark_recursion_aggregation_rate_per_sec";
        Ok(Model {
            way,
            pull: keys.flag("snark1_pull", true)?,
            seed: keys.number("random_seed", 0)?,
            groups: keys.number("roles.group_count", 4)?,
            members,
            globals: keys.number("roles.global_aggregator_count", 1)?,
            local_pct,
            signatures_direct: direct_to > 0,
            mesh: keys.number("gossip.mesh_n", 4)?,
            lazy: keys.number("gossip.non_mesh_n", 4)?,
            signing_us,
            signature_bytes: keys.number("consts.signature_size", 1536)?,
            proof_bytes: keys.number("consts.snark_size", 131_072)?,
            local_start_pct: keys.share("consts.snark1_threshold", 100)?,
            final_pct: keys.share("consts.snark2_threshold", 66)?,
            signatures_per_s: keys.number("consts.aggregation_rate_per_sec", 40)?,
            proofs_per_s: keys.number(last_rate, 40)?,
            verify_signature_us: keys.time("consts.pq_signature_verification_time", 1000)?,
            verify_proof_us: keys.time("consts.snark_proof_verification_time", 10_000)?,
            mbps: keys.megabits("network.max_bitrate", 100)?,
        })
    }

    fn scenario(&self, name: &str) -> anyhow::Result<String> {
        let Model {
            way,
            pull,
            seed,
            groups,
            members,
            globals,
            local_pct,
            mesh,
            lazy,
            signature_bytes,
            proof_bytes,
            local_start_pct,
            final_pct,
            signatures_per_s,
            proofs_per_s,
            verify_signature_us,
            verify_proof_us,
            mbps,
            ..
        } = self;
        let nodes = groups
            .checked_mul(*members)
            .ok_or_else(|| anyhow!("roles: {groups} groups of {members} are too many"))?;
        let signatures = if self.signatures_direct {
            "direct"
        } else {
            way
        };
        let signing_ms = self.signing_us / 1000;
        let protocol = format!(
            "groups = {groups}\nlocal_aggregators_pct = {local_pct}\nglobal_aggregators = {globals}\n\
             signatures = \"{signatures}\"\nproofs = \"{way}\"\npull = {pull}\nmesh = {mesh}\nlazy = {lazy}\n\
             signing_ms = {signing_ms}\nsignature_bytes = {signature_bytes}\nproof_bytes = {proof_bytes}\n\
             local_start_pct = {local_start_pct}\nsignatures_per_s = {signatures_per_s}\n\
             final_pct = {final_pct}\nproofs_per_s = {proofs_per_s}\n\
             verify_signature_us = {verify_signature_us}\nverify_proof_us = {verify_proof_us}\n"
        );
        Ok(format!(
            "name = \"{name}\"\nschema = 1\n\
             about = \"Two levels of proofs of {nodes} signers, from a configuration of BEAMSIM\"\n\n\
             [sim]\nseeds = \"{seed}\"\nnodes = {nodes}\n\n{NETWORK}\n\
             [[class]]\nname = \"validator\"\nshare_pct = 100\ndown_mbps = {mbps}\nup_mbps = {mbps}\ncores = 1\n\n\
             [protocol]\nkind = \"two_level\"\n{protocol}\n\
             [compute]\nhandle_ns = 0\n\n[output]\ntrace = \"none\"\n"
        ))
    }
}

/// What a configuration does not say.
const NETWORK: &str = "\
# Configurations of BEAMSIM leave latency to its network; the two-level model was examined at 50 to 80 ms.
[latency]
kind = \"constant\"
ms = 65

# TCP as NS-3 has it by default: segments of 536 bytes, ten of them at first.
[link]
transport = \"window\"
initial_window_bytes = 5360
";

/// The share of a group that aggregates, in whole percent; given as a number of nodes or in percent.
fn local_share(keys: &mut Keys, members: u64) -> anyhow::Result<u64> {
    let path = "roles.group_local_aggregator_count";
    let text = keys.take(path, "1".to_owned(), |text| Some(text.to_owned()))?;
    let wrong =
        || anyhow!("{path} = {text:?}: expected a number of nodes, or whole percent as 10%");
    let pct = match text.strip_suffix('%') {
        Some(pct) => pct.trim().parse::<u64>().map_err(|_| wrong())?,
        None => {
            let count: u64 = text.parse().map_err(|_| wrong())?;
            // The least share that gives so many, rounded down.
            let pct = (count * 100).div_ceil(members.max(1));
            let least_one = |pct: u64| (members * pct / 100).max(1);
            if count > members || least_one(pct) != count {
                let near = least_one(pct);
                bail!(
                    "{path} = {count}: groups have whole percent of aggregators, as {near} of {members}"
                );
            }
            pct
        }
    };
    match (1..=100).contains(&pct) {
        true => Ok(pct),
        false => Err(wrong()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alphorn_sim::scenario::Protocol;

    /// The model of the published run.
    const PUBLISHED: &str = "backend: ns3-direct\ntopology: gossip\nsnark1_pull: true\nsnark1_half_direct: true\n\
        random_seed: 3\n\nroles:\n  group_count: 8\n  group_validator_count: 1024\n  global_aggregator_count: 102\n\
        \x20 group_local_aggregator_count: 10%\n\ngossip:\n  mesh_n: 8\n  non_mesh_n: 4\n\nconsts:\n  signature_time: 20ms\n\
        \x20 signature_size: 3072\n  snark_size: 131072\n  snark1_threshold: 0.9\n  snark2_threshold: 0.66\n\
        \x20 aggregation_rate_per_sec: 1000\n  snark_recursion_aggregation_rate_per_sec: 10\n\
        \x20 pq_signature_verification_time: 16us\n  snark_proof_verification_time: 6ms\n\nnetwork:\n  max_bitrate: 100Mbps\n";

    #[test]
    fn the_published_configuration_is_the_preset() {
        let text = import(PUBLISHED, "mine").unwrap();
        let scenario = Scenario::parse(&text, &[]).unwrap();
        let preset = super::super::presets::find("beamsim-8192").unwrap();
        let mut preset = Scenario::parse(preset.text, &[]).unwrap();
        if let Protocol::TwoLevel(model) = &mut preset.protocol {
            model.published_ms = 0;
        }
        assert_eq!(scenario.canonical(), preset.canonical());
        assert_eq!(
            (scenario.name.as_str(), scenario.sim.seeds.first),
            ("mine", 3)
        );
    }

    #[test]
    fn absent_keys_have_the_defaults_of_beamsim() {
        let text = import(
            "topology: direct\nroles:\n  group_validator_count: 100\n",
            "d",
        )
        .unwrap();
        for line in [
            "nodes = 400",
            "signature_bytes = 1536",
            "local_start_pct = 100",
            "final_pct = 66",
            "signatures_per_s = 40",
            "verify_signature_us = 1000",
            "up_mbps = 100",
            "local_aggregators_pct = 1\n",
            "pull = true",
        ] {
            assert!(text.contains(line), "{line}\n{text}");
        }
    }

    #[test]
    fn what_the_model_does_not_have_is_named() {
        for (from, to, part) in [
            ("backend: ns3-direct", "backend: queue", "no bandwidth"),
            ("topology: gossip", "topology: star", "topology = \"star\""),
            (
                "snark1_pull: true",
                "snark1_pull: maybe",
                "snark1_pull = \"maybe\"",
            ),
            (
                "snark1_half_direct: true",
                "snark1_half_direct: false",
                "give true",
            ),
            ("random_seed: 3", "shuffle: true", "give false"),
            (
                "random_seed: 3",
                "randomseed: 3",
                "line 5: randomseed is not known",
            ),
            (
                "random_seed: 3",
                "signature_half_direct: 2",
                "give 0 or 102",
            ),
            ("mesh_n: 8", "mesh_n: 8\n  idontwant: true", "give false"),
            (
                "max_bitrate: 100Mbps",
                "max_bitrate: 1500000",
                "cannot be read",
            ),
            (
                "max_bitrate: 100Mbps",
                "gml: x.bin",
                "network.gml is not known",
            ),
            ("aggregator_count: 10%", "aggregator_count: 7", "of 1024"),
            (
                "signature_time: 20ms",
                "signature_time: 20s",
                "cannot be read",
            ),
            (
                "snark1_threshold: 0.9",
                "snark1_threshold: 1.9",
                "cannot be read",
            ),
            ("group_count: 8", "group_count: 4000", "as a scenario"),
        ] {
            let text = PUBLISHED.replace(from, to);
            assert_ne!(text, PUBLISHED, "{from}");
            let error = format!("{:#}", import(&text, "x").unwrap_err());
            assert!(error.contains(part), "{to}: {error}");
        }
        let direct = PUBLISHED.replace("random_seed: 3", "signature_half_direct: 102");
        assert!(
            import(&direct, "x")
                .unwrap()
                .contains("signatures = \"direct\"")
        );
    }
}
