//! `alphorn lane`: the process of a prove lane. It is started by a node and has no other use.

use crate::error::{Error, Result};
use crate::node::layers::{Layers, falcon_scheme, make_circuits, xmss_scheme};
use crate::options::Plain;
use alphorn_exec::Exec;
use alphorn_falcon::{Flavour, KeyForm, PublicKey};
use alphorn_node::lanes::serve_child;
use alphorn_scheme::{Env, Scheme};
use alphorn_xmss::Set;
use std::process::ExitCode;
use std::sync::Arc;

/// Run as the process of a prove lane, started by a node
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    #[command(flatten)]
    common: Plain,
    /// Signature scheme
    #[arg(long, value_parser = ["falcon", "xmss"])]
    scheme: String,
    /// Form of aggregates and of collections
    #[arg(long, value_enum)]
    layers: Layers,
}

/// Returns the options that start a lane of this scheme.
pub(super) fn options(scheme: &str, layers: Layers, kernel: &str) -> Vec<String> {
    let options = [
        "lane",
        "--scheme",
        scheme,
        "--layers",
        layers.name(),
        "--kernel",
        kernel,
    ];
    options.map(str::to_owned).into()
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let code = match args.scheme.as_str() {
        "falcon" => {
            let kernel = args.common.kernel(&alphorn_labrador::KERNELS)?;
            serve_child(|keys| {
                let keys = split(keys, alphorn_falcon::PUBLIC_KEY_BYTES)?;
                let keys = PublicKey::from_bytes_batch(
                    Flavour::default(),
                    &keys.collect::<Vec<_>>(),
                    KeyForm::Values,
                    Exec::new(kernel, None),
                );
                let keys = keys.into_iter().collect::<std::result::Result<_, _>>();
                let keys = keys.map_err(|error| error.to_string())?;
                let registry = alphorn_falcon::Registry::new(keys);
                env(falcon_scheme(args.layers, kernel), registry)
            })
        }
        _ => {
            let kernel = args.common.kernel(&alphorn_stark::KERNELS)?;
            serve_child(|keys| {
                let length = Set::Compact.params().public_key_bytes;
                let decode = |bytes| {
                    let key = alphorn_xmss::PublicKey::from_bytes(Set::Compact, bytes);
                    key.map_err(|error| error.to_string())
                };
                let keys = split(keys, length)?.map(decode);
                let mut votes = keys.collect::<std::result::Result<Vec<_>, String>>()?;
                if votes.len() % 2 != 0 {
                    return Err(format!("{} keys, two for each validator", votes.len()));
                }
                // The node sends all vote keys and then all duty keys.
                let duties = votes.split_off(votes.len() / 2);
                let registry = alphorn_xmss::Registry::new(votes, duties);
                make_circuits(args.layers);
                env(xmss_scheme(args.layers, kernel), registry)
            })
        }
    };
    match code == ExitCode::SUCCESS {
        true => Ok(()),
        false => Err(Error::Check("the lane ended with an error".into())),
    }
}

/// Splits concatenated keys of equal length.
fn split(
    bytes: &[u8],
    length: usize,
) -> std::result::Result<std::slice::ChunksExact<'_, u8>, String> {
    let keys = bytes.chunks_exact(length);
    match keys.remainder().is_empty() {
        true => Ok(keys),
        false => Err(format!(
            "{} bytes are no keys of {length} bytes",
            bytes.len()
        )),
    }
}

fn env<S: Scheme>(scheme: S, registry: S::Registry) -> std::result::Result<Env, String> {
    let secret = super::entropy::secret().map_err(|error| error.to_string())?;
    Ok(Env::new(Arc::new(scheme), Arc::new(registry), secret))
}
