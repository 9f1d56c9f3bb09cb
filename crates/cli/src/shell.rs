//! `alphorn completions` and `alphorn man`: completions for a shell and pages for `man`, generated from
//! the parser itself.

use crate::error::Result;
use crate::report::write_whole;
use anyhow::Context;
use clap::Command;
use clap_complete::Shell;
use clap_mangen::Man;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// The release named in the footer of each page.
const RELEASE: &str = concat!("alphorn ", env!("CARGO_PKG_VERSION"));

/// Print a shell completion script for commands and options to standard output
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  alphorn completions bash > ~/.local/share/bash-completion/completions/alphorn
  alphorn completions zsh > ~/.zfunc/_alphorn
  alphorn completions fish > ~/.config/fish/completions/alphorn.fish

For zsh, the folder must be in fpath before compinit runs.")]
pub(crate) struct CompletionsArgs {
    /// Shell to complete for
    #[arg(value_enum, value_name = "SHELL")]
    shell: Shell,
}

/// Write manual pages, one per command, into a folder
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  alphorn man ~/.local/share/man/man1
  man alphorn-sim-run

Existing pages are replaced.")]
pub(crate) struct ManArgs {
    /// Folder for the pages; created if missing
    #[arg(value_name = "DIR")]
    dir: PathBuf,
}

/// Prints the script of one shell.
pub(crate) fn completions(command: Command, args: &CompletionsArgs) -> Result<()> {
    let mut script = Vec::new();
    let mut command = shown(&command);
    clap_complete::generate(args.shell, &mut command, "alphorn", &mut script);
    print(&script)
}

/// Writes `alphorn.1`, and `alphorn-COMMAND.1` for each command and each of its commands.
pub(crate) fn man(command: Command, args: &ManArgs) -> Result<()> {
    let named = || format!("cannot make the folder {}", args.dir.display());
    std::fs::create_dir_all(&args.dir).with_context(named)?;
    let mut command = shown(&command).disable_help_subcommand(true);
    command.build();
    let pages = write_pages(command, &args.dir)?;
    print(format!("{pages} pages in {}\n", args.dir.display()).as_bytes())
}

/// Returns the command without its internal subcommands.
fn shown(command: &Command) -> Command {
    let mut shown = Command::new("alphorn").version(env!("CARGO_PKG_VERSION"));
    if let Some(about) = command.get_about() {
        shown = shown.about(about.clone());
    }
    let below = command.get_subcommands().filter(|each| !each.is_hide_set());
    shown.subcommands(below.cloned())
}

fn write_pages(command: Command, dir: &Path) -> Result<usize> {
    let mut pages = 1;
    for below in command.get_subcommands().filter(|each| !each.is_hide_set()) {
        pages += write_pages(below.clone(), dir)?;
    }
    let page = Man::new(command).source(RELEASE).manual("alphorn");
    let mut text = Vec::new();
    page.render(&mut text)?;
    write_whole(&dir.join(page.get_filename()), &text)?;
    Ok(pages)
}

/// Prints to standard output; a closed pipe is not an error.
fn print(bytes: &[u8]) -> Result<()> {
    match io::stdout().write_all(bytes) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(anyhow::anyhow!("cannot print: {error}").into())
        }
        _ => Ok(()),
    }
}
