//! Writes the seeds of every target into `corpus-local/`, where libFuzzer starts from.
#![forbid(unsafe_code)]

use std::path::Path;

fn main() -> std::io::Result<()> {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus-local");
    for target in alphorn_fuzz::TARGETS {
        let folder = corpus.join(target.name);
        std::fs::create_dir_all(&folder)?;
        let seeds = (target.seeds)();
        for (index, seed) in seeds.iter().enumerate() {
            std::fs::write(folder.join(format!("seed-{index:03}")), seed)?;
        }
        println!("{}: {} seeds", target.name, seeds.len());
    }
    Ok(())
}
