//! `alphorn sim export-shadow`: the network of a scenario for the Shadow simulator.

use super::source::Asked;
use crate::error::Result;
use alphorn_sim::scenario::{Program, shadow};
use anyhow::{Context, anyhow};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The network of a scenario for the Shadow simulator, with the programs that you name
#[derive(clap::Args, Debug)]
pub(super) struct Args {
    #[command(flatten)]
    asked: Asked,
    /// New folder for shadow.yaml, graph.gml and peers
    folder: PathBuf,
    /// Program that each host runs
    #[arg(long, value_name = "FILE")]
    program: String,
    /// Its arguments; {node}, {peers} and {seed} stand for the host's number, the file with name and
    /// address of its peers, and the seed
    #[arg(
        long,
        value_name = "TEXT",
        default_value = "",
        allow_hyphen_values = true
    )]
    args: String,
    /// Virtual seconds
    #[arg(long, value_name = "N", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    seconds: u64,
}

pub(super) fn run(args: &Args) -> Result<()> {
    let scenario = args.asked.load()?;
    let program = Program {
        path: args.program.clone(),
        args: args.args.clone(),
        seconds: args.seconds,
    };
    let seed = scenario.sim.seeds.first;
    let files = shadow(&scenario, seed, &program)?;
    let folder = &args.folder;
    if folder.exists() {
        return Err(anyhow!("{} is there already", folder.display()).into());
    }
    let write = || -> io::Result<()> {
        let parent = folder
            .parent()
            .filter(|parent| !parent.as_os_str().is_empty());
        let parent = parent.unwrap_or(Path::new("."));
        fs::create_dir_all(parent)?;
        let new = tempfile::Builder::new()
            .prefix(".alphorn-")
            .tempdir_in(parent)?;
        let place = new.path().join("shadow");
        fs::create_dir_all(place.join("peers"))?;
        fs::write(place.join("shadow.yaml"), &files.yaml)?;
        fs::write(place.join("graph.gml"), &files.gml)?;
        for (node, peers) in files.peers.iter().enumerate() {
            fs::write(place.join(format!("peers/node{node}.txt")), peers)?;
        }
        fs::rename(&place, folder)
    };
    write().with_context(|| format!("cannot write {}", folder.display()))?;
    println!(
        "{} hosts: shadow {}/shadow.yaml, run in that folder",
        files.peers.len(),
        folder.display()
    );
    Ok(())
}
