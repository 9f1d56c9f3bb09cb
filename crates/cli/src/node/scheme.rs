//! The schemes of a node: built once for its own lanes, and again in the processes of prove lanes.

use super::files::{NetworkFile, NodeEntry};
use super::layers::{Layers, falcon_scheme, make_circuits, xmss_scheme};
use super::{Args, lane};
use crate::calibration::{self, Kernel};
use crate::error::{Error, Result};
use crate::files::marks::KeyMarks;
use crate::files::validators::{Hosted, KeystoreOptions, PublicKeys};
use crate::options::Plain;
use alphorn_bls::{Bls, Costs, Registry, Signers};
use alphorn_exec::Exec;
use alphorn_falcon::Flavour;
use alphorn_node::safety::KeyId;
use alphorn_proto::horn::SchemeInfo;
use alphorn_scheme::{BRANCHES_MAX, EPOCHS_MAX, Env, Op, Scheme};
use alphorn_types::{Layout, Validator};
use alphorn_worker::ChildCommand;
use alphorn_worker::child::SETUP_BYTES_MAX;
use alphorn_xmss::{Purpose, Set};
use anyhow::{Context, anyhow};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

/// A scheme with the keys of a network.
pub(super) struct Parts {
    pub(super) ids: BTreeMap<Validator, KeyId>,
    pub(super) keys_digest: [u8; 32],
    /// What the roles know about the scheme.
    pub(super) info: SchemeInfo,
    /// The scheme with all validators' public keys and this node's secret keys.
    pub(super) env: Env,
    /// The marks next to keystores whose keys sign once per slot.
    pub(super) marks: KeyMarks,
    /// The measured kernels of the scheme's crate, one of them selected.
    pub(super) kernels: Vec<Kernel>,
    /// How to start the process of a prove lane, if proofs are made in one.
    pub(super) child: Option<ChildCommand>,
}

impl SchemeCosts for Parts {
    fn info(&self, _: &Layout) -> SchemeInfo {
        self.info.clone()
    }

    fn cost_ns(&self, op: Op, n: u64, m: u64) -> u64 {
        self.env.cost(op, n, m).ns
    }
}

/// Scheme queries needed before a network starts.
pub(crate) trait SchemeCosts {
    /// Returns what the roles know about it.
    fn info(&self, layout: &Layout) -> SchemeInfo;

    /// Returns the cost of an operation on the kernel in use, in nanoseconds of one core
    /// ([`Scheme::cost`]).
    fn cost_ns(&self, op: Op, n: u64, m: u64) -> u64;
}

impl<S: Scheme> SchemeCosts for S {
    fn info(&self, layout: &Layout) -> SchemeInfo {
        SchemeInfo::of(self, layout)
    }

    fn cost_ns(&self, op: Op, n: u64, m: u64) -> u64 {
        self.cost(op, n, m).ns
    }
}

/// Returns the scheme of a network.
pub(crate) fn scheme_costs(network: &NetworkFile, common: &Plain) -> Result<Box<dyn SchemeCosts>> {
    let layers = network.alphorn_layers;
    match network.alphorn_scheme.as_str() {
        "bls" => {
            let kernel = common.kernel(&alphorn_bls::KERNELS)?;
            Ok(Box::new(Bls::new(kernel, Costs::measure(kernel))))
        }
        "falcon" => {
            let kernel = common.kernel(&alphorn_labrador::KERNELS)?;
            Ok(Box::new(falcon_scheme(layers, kernel)))
        }
        "xmss" => {
            let scheme = xmss_scheme(layers, common.kernel(&alphorn_stark::KERNELS)?);
            scheme
                .check_layout(&network.layout()?)
                .context("config.yaml")?;
            Ok(Box::new(scheme))
        }
        other => Err(unknown(other)),
    }
}

/// Returns what the roles know about the scheme of a network.
pub(crate) fn info(network: &NetworkFile, common: &Plain) -> Result<SchemeInfo> {
    Ok(scheme_costs(network, common)?.info(&network.layout()?))
}

/// Returns the error for an unknown scheme.
fn unknown(scheme: &str) -> Error {
    anyhow!("config.yaml: ALPHORN_SCHEME {scheme}, must be bls, falcon or xmss").into()
}

fn id(key: &[u8]) -> KeyId {
    Sha256::digest(key).into()
}

/// Checks that a process of a prove lane takes the keys and the committees of a network: otherwise it would be found
/// out with the first job, of a node that runs.
fn check_setup(keys_bytes: usize, validators: u32) -> Result<()> {
    // A position of a committee is four bytes, and a table has all of them; what else there is of it fits in the page.
    let tables = EPOCHS_MAX + BRANCHES_MAX;
    let bytes = keys_bytes + tables * (4 * validators as usize + (4 << 10));
    if bytes > SETUP_BYTES_MAX {
        return Err(anyhow!(
            "a process of the prove lane takes at most {} MiB of keys and committees, and those of {validators} \
             validators have up to {} MiB: use --isolation thread",
            SETUP_BYTES_MAX >> 20,
            (bytes >> 20) + 1
        )
        .into());
    }
    Ok(())
}

/// Returns how to start the processes of prove lanes, if there are any: jobs that make proofs run there.
fn child(
    args: &Args,
    network: &NetworkFile,
    kernel: &str,
    keys: Vec<u8>,
) -> Result<Option<ChildCommand>> {
    let proofs = network.alphorn_layers != Layers::ListList;
    if !proofs || !args.lanes.has_processes() {
        return Ok(None);
    }
    check_setup(keys.len(), network.layout()?.validators())?;
    let options = lane::options(&network.alphorn_scheme, network.alphorn_layers, kernel);
    Ok(Some(ChildCommand {
        program: std::env::current_exe()?,
        args: options.into_iter().map(Into::into).collect(),
        // Public keys alone: a child gets no secret.
        setup: keys.into(),
    }))
}

/// The public keys of a network whose validators have their own keys, and the location of this node's keys.
struct Own<'a> {
    public: PublicKeys,
    options: &'a KeystoreOptions,
    folder: &'a Path,
    node: &'a str,
    validators: Vec<Validator>,
}

impl Own<'_> {
    fn hosted(&self) -> Hosted<'_> {
        Hosted {
            node: self.node,
            validators: &self.validators,
        }
    }
}

/// Returns none if validators have interop keys.
fn own<'a>(args: &'a Args, network: &NetworkFile, node: &'a NodeEntry) -> Result<Option<Own<'a>>> {
    let Some(name) = &network.alphorn_keys else {
        return Ok(None);
    };
    let public = PublicKeys::read(&network.alphorn_scheme, &args.genesis.join(name))?;
    let (found, count) = (public.len(), network.validator_count);
    if found != count as usize {
        let what = "config.yaml: VALIDATOR_COUNT";
        return Err(anyhow!("{what} {count}, {name} has {found} public keys").into());
    }
    let Some(folder) = &args.keys.keystores else {
        let what = "config.yaml: ALPHORN_KEYS: validators have keys of their own";
        return Err(anyhow!("{what}: --keystores and --password-file").into());
    };
    Ok(Some(Own {
        public,
        options: &args.keys,
        folder,
        node: &node.name,
        validators: node.hosted().collect(),
    }))
}

/// Opens the keystores of a node as at startup, and returns the number of validators whose keys it then
/// has;
/// none where validators have interop keys.
///
/// # Errors
/// The same as at startup: invalid public keys, a wrong password, or a keystore that is missing or does
/// not belong to the node.
pub(super) fn open_keystores(
    args: &Args,
    network: &NetworkFile,
    node: &NodeEntry,
) -> Result<usize> {
    let Some(own) = own(args, network, node)? else {
        return Ok(0);
    };
    let (options, folder) = (own.options, own.folder);
    match network.alphorn_scheme.as_str() {
        "bls" => {
            let kernel = args.common.kernel(&alphorn_bls::KERNELS)?;
            own.public.bls(Exec::new(kernel, None))?;
            options.bls(folder, &own.public, own.hosted())?;
        }
        "falcon" => {
            let kernel = args.common.kernel(&alphorn_labrador::KERNELS)?;
            options.falcon(folder, &own.public, own.hosted(), kernel)?;
        }
        _ => {
            let kernel = args.common.kernel(&alphorn_stark::KERNELS)?;
            options.xmss(folder, &own.public, own.hosted(), kernel)?;
        }
    }
    Ok(own.validators.len())
}

/// Builds the scheme of a network, with its keys.
///
/// # Errors
/// If keys cannot be loaded or the scheme does not exist.
pub(super) fn parts(args: &Args, network: &NetworkFile, node: &NodeEntry) -> Result<Parts> {
    match network.alphorn_scheme.as_str() {
        "bls" => bls(args, network, node),
        "falcon" => falcon(args, network, node),
        "xmss" => xmss(args, network, node),
        other => Err(unknown(other)),
    }
}

fn env<S: Scheme>(scheme: S, registry: S::Registry, signers: S::Signers) -> Result<Env> {
    let (scheme, registry) = (Arc::new(scheme), Arc::new(registry));
    Ok(Env::signing(
        scheme,
        registry,
        Arc::new(signers),
        super::entropy::secret()?,
    ))
}

fn bls(args: &Args, network: &NetworkFile, node: &NodeEntry) -> Result<Parts> {
    let kernel = args.common.kernel(&alphorn_bls::KERNELS)?;
    let (registry, signers) = match own(args, network, node)? {
        None => bls_interop(network.validator_count, kernel, node)?,
        Some(own) => {
            let registry = own.public.bls(Exec::new(kernel, None))?;
            let keys = own.options.bls(own.folder, &own.public, own.hosted())?;
            (registry, Signers::real(keys))
        }
    };
    let keys = registry.keys();
    let ids = node
        .hosted()
        .map(|v| (v, id(&keys[v.0 as usize].to_bytes())));
    let scheme = Bls::new(kernel, Costs::measure(kernel));
    Ok(Parts {
        ids: ids.collect::<BTreeMap<Validator, KeyId>>(),
        keys_digest: *registry.digest(),
        info: SchemeInfo::of(&scheme, &network.layout()?),
        env: env(scheme, registry, signers)?,
        marks: KeyMarks::default(),
        kernels: calibration::of(&alphorn_bls::KERNELS, &args.common.compute)?,
        child: None,
    })
}

fn bls_interop(
    count: u32,
    kernel: alphorn_exec::Backend,
    own: &NodeEntry,
) -> Result<(Registry, Signers)> {
    let mut bars = crate::progress::Bars::new();
    let exec = Exec::new(kernel, None);
    let registry = crate::keycache::interop_registry(count, exec, &mut bars)?.registry;
    // Keys of other validators in between are computed too, as anyone can.
    let first = own.first_validator;
    let end = own.hosted().last().map_or(first, |last| last.0 + 1);
    Ok((registry, Signers::interop(first..end, exec)))
}

fn falcon(args: &Args, network: &NetworkFile, node: &NodeEntry) -> Result<Parts> {
    let kernel = args.common.kernel(&alphorn_labrador::KERNELS)?;
    let count = network.validator_count;
    let (signers, registry) = match own(args, network, node)? {
        None => alphorn_falcon::Signers::interop(Flavour::default(), count, Exec::serial()),
        Some(own) => {
            let registry = own.public.falcon(kernel)?;
            let (options, folder) = (own.options, own.folder);
            let signers = options.falcon(folder, &own.public, own.hosted(), kernel)?;
            (signers, registry)
        }
    };
    // The salts of a node that signs for a network must not be predictable.
    let signers = signers.with_secret(super::entropy::secret()?);
    let key = |v: u32| registry.key(Validator(v)).map(|key| key.bytes().to_vec());
    let all: Vec<Vec<u8>> = (0..count).filter_map(key).collect();
    let ids = (0..count).zip(&all).map(|(v, key)| (Validator(v), id(key)));
    let scheme = falcon_scheme(network.alphorn_layers, kernel);
    Ok(Parts {
        ids: ids.collect(),
        keys_digest: alphorn_node::genesis::keys_digest(all.iter().map(Vec::as_slice)),
        info: SchemeInfo::of(&scheme, &network.layout()?),
        child: child(args, network, kernel.name(), all.concat())?,
        env: env(scheme, registry, signers)?,
        marks: KeyMarks::default(),
        kernels: calibration::of(&alphorn_labrador::KERNELS, &args.common.compute)?,
    })
}

fn xmss(args: &Args, network: &NetworkFile, node: &NodeEntry) -> Result<Parts> {
    let kernel = args.common.kernel(&alphorn_stark::KERNELS)?;
    let count = network.validator_count;
    let (signers, registry, marks) = match own(args, network, node)? {
        None => {
            let slots = 0..network.alphorn_key_slots;
            let exec = alphorn_exec::Exec::new(kernel, None);
            let made = alphorn_xmss::Signers::interop(Set::Compact, count, slots, exec)?;
            (made.0, made.1, KeyMarks::default())
        }
        Some(own) => {
            let registry = own.public.xmss(kernel)?;
            let (options, folder) = (own.options, own.folder);
            let (signers, marks) = options.xmss(folder, &own.public, own.hosted(), kernel)?;
            (signers, registry, marks)
        }
    };
    let keys = |purpose| -> Vec<Vec<u8>> {
        let key = |v| {
            registry
                .key(purpose, Validator(v))
                .map(|key| key.to_bytes())
        };
        (0..count).filter_map(key).collect()
    };
    let (votes, duties) = (keys(Purpose::Vote), keys(Purpose::Duty));
    // A mark covers both keys: paired with another partner, neither is known.
    let pairs = (0..count).zip(votes.iter().zip(&duties));
    let ids = pairs.map(|(v, (vote, duty))| (Validator(v), id(&[vote.as_slice(), duty].concat())));
    let ids = ids.collect();
    let both = [votes, duties].concat();
    let scheme = xmss_scheme(network.alphorn_layers, kernel);
    make_circuits(network.alphorn_layers);
    Ok(Parts {
        ids,
        keys_digest: alphorn_node::genesis::keys_digest(both.iter().map(Vec::as_slice)),
        info: SchemeInfo::of(&scheme, &network.layout()?),
        child: child(args, network, kernel.name(), both.concat())?,
        env: env(scheme, registry, signers)?,
        marks,
        kernels: calibration::of(&alphorn_stark::KERNELS, &args.common.compute)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_that_no_process_takes_are_refused_before_the_start() {
        assert!(check_setup(897 << 17, 1 << 17).is_ok());
        let error = check_setup(897 << 20, 1 << 20).unwrap_err();
        let text = "takes at most 256 MiB of keys and committees, and those of 1048576 validators have up to 934 MiB";
        assert!(error.to_string().contains(text), "{error}");
    }
}
