//! `alphorn keys new`: new keys from the operating system's random generator, or interop keys.

use super::{KdfOptions, duty_path, public_key_entry, public_keys_file};
use crate::error::Result;
use crate::files::document::{INTEROP_WARNING, PublicKeyEntry};
use crate::files::fields::to_json;
use crate::files::hex::Hex;
use crate::files::input::check_count;
use crate::files::keyfile::{KeyPair, interop_file};
use crate::files::keystore::Keystore;
use crate::files::output::{Access, Staged, create_folder};
use crate::files::scheme::FileScheme;
use crate::files::secret::Password;
use crate::files::{FileOptions, SecretOptions, shown};
use crate::progress::Bars;
use crate::report::Report;
use alphorn_types::VALIDATORS_MAX;
use anyhow::{Context, ensure};
use serde_json::json;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// File with all public keys of a folder.
const PUBLIC_KEYS: &str = "public-keys.json";

/// Create keys: one keystore per key, and a file with all public keys and proofs of possession
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  alphorn keys new --out keys --password-file password.txt
  pass show validators | alphorn keys new --out keys --count 4 --password-file -
  alphorn keys new --out test-keys --count 1000 --interop 0
  alphorn keys new --scheme xmss --out keys --password-file password.txt \\
      --slots 131072
  alphorn keys new --scheme xmss --out keys --password-file password.txt \\
      --slots 4096 --duties

Real keys come from the operating system's random generator; there is no seed. Each is written to
DIR/keystore-<i>.json (EIP-2335, mode 0600). Interop keys can be computed by anyone from their
index: DIR/interop-<index>.json holds no secret and no password, and such keys are for tests only.
DIR/public-keys.json lists the public keys with their proofs of possession, for `verify --keys`.

An XMSS key signs once in each of its slots, and creating it takes time in proportion to their
number. Next to KEY.json are KEY.tree, which can be rebuilt, and KEY.mark, without which the key
does not sign: the mark records which slots are used. Never restore an old copy of a mark; move a
key with `keys import`. A network validator needs a second XMSS key for blocks, aggregates and
collections: with --duties it is in DIR/keystore-<i>-duty.json, and public-keys.json lists both.")]
pub(super) struct Args {
    #[command(flatten)]
    pub(super) options: FileOptions,
    /// Folder for the files; created if missing
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Number of keys, 1 to 2^20
    #[arg(long, value_name = "N", default_value_t = 1)]
    count: usize,
    #[command(flatten)]
    origin: Origin,
    /// First slot of an XMSS key
    #[arg(long, value_name = "SLOT")]
    first_slot: Option<u64>,
    /// Number of slots of an XMSS key (default: 131072, or 64 for an interop key)
    #[arg(long, value_name = "N")]
    slots: Option<u64>,
    /// Also create, for each XMSS key, one for a network validator's duties; takes eight times as long
    #[arg(long, requires = "password_file")]
    duties: bool,
    #[command(flatten)]
    kdf: KdfOptions,
    #[command(flatten)]
    secret: SecretOptions,
    /// Replace existing files; keys in them are lost
    #[arg(long)]
    force: bool,
}

#[derive(clap::Args, Debug)]
#[group(required = true, multiple = false)]
struct Origin {
    /// Create real keys, under the password in this file (- for standard input)
    #[arg(long, value_name = "FILE")]
    password_file: Option<PathBuf>,
    /// Create insecure test keys, for the validators from this index on
    #[arg(long, value_name = "FIRST", conflicts_with_all = ["kdf", "kdf_cost"])]
    interop: Option<u32>,
}

impl Args {
    /// Returns the password file.
    pub(super) fn secrets(&self) -> Vec<PathBuf> {
        self.origin.password_file.iter().cloned().collect()
    }
}

pub(super) fn run<S: FileScheme>(args: &Args) -> Result<()> {
    let report = Report::begin("keys new", 0);
    let sink = args.options.sink();
    check_count("keys", args.count)?;
    let names = names(args)?;
    let slots = slots::<S>(args)?;
    ensure_duties::<S>(args)?;
    let password = match &args.origin.password_file {
        Some(file) => Some(Password::read_new(file, args.secret.permissions())?),
        None => None,
    };
    let scheme: S = args.options.open()?;
    create_folder(&args.out)?;
    let mut staged = Staged::new(args.force);
    let public_path = args.out.join(PUBLIC_KEYS);
    let access = match args.origin.interop {
        Some(_) => Access::Public,
        None => Access::Private,
    };
    for path in &names {
        staged.check(path, access)?;
    }
    staged.check(&public_path, Access::Public)?;
    for path in names.iter().filter(|_| args.duties) {
        staged.check(&duty_path(path), Access::Private)?;
    }
    staged.remove_when_signalled()?;
    let mut bars = Bars::new();
    let mut public = Vec::with_capacity(args.count);
    for (i, path) in names.iter().enumerate() {
        bars.show("keys", i as u64, args.count as u64);
        public.push(add_key(
            &scheme,
            args,
            i,
            KeyTarget {
                path,
                slots: slots.clone(),
            },
            password.as_ref(),
            &mut staged,
            &mut bars,
        )?);
    }
    bars.clear();
    let listed: Vec<Hex<true>> = public
        .iter()
        .map(|entry| entry.public_key.clone())
        .collect();
    let file = public_keys_file::<S>(public);
    staged.add(&public_path, Access::Public, &to_json(&file)?)?;
    staged.commit()?;

    let insecure = args.origin.interop.is_some();
    sink.say(&made::<S>(args, &names));
    if insecure {
        sink.say(INTEROP_WARNING);
    }
    let fields =
        json!({ "insecure": insecure, "public_keys": listed, "file": shown(&public_path) });
    let config = json!({
        "out": shown(&args.out),
        "count": args.count,
        "interop": args.origin.interop,
        "slots": slots.map(|slots| json!({ "first": slots.start, "end": slots.end })),
    });
    args.options.write(&scheme, &report, &sink, config, fields)
}

/// Describes what was made.
fn made<S: FileScheme>(args: &Args, names: &[PathBuf]) -> String {
    let duties = if args.duties {
        ", each with one for duties"
    } else {
        ""
    };
    let possession = if S::POSSESSION_BYTES > 0 {
        " and proofs of possession"
    } else {
        ""
    };
    format!(
        "{} {} in {}: {} to {}{duties}, public keys{possession} in {PUBLIC_KEYS}",
        args.count,
        if args.count == 1 { "key" } else { "keys" },
        args.out.display(),
        file_name(&names[0]),
        file_name(&names[names.len() - 1]),
    )
}

/// Returns the file of each key.
fn names(args: &Args) -> Result<Vec<PathBuf>> {
    let Some(first) = args.origin.interop else {
        let name = |i| args.out.join(format!("keystore-{i}.json"));
        return Ok((0..args.count).map(name).collect());
    };
    let end = u32::try_from(args.count)
        .ok()
        .and_then(|count| first.checked_add(count))
        .filter(|end| *end <= VALIDATORS_MAX)
        .with_context(|| {
            let count = args.count;
            format!(
                "--interop {first}: {count} keys from there on: indices are below {VALIDATORS_MAX}"
            )
        })?;
    let name = |index| args.out.join(format!("interop-{index}.json"));
    Ok((first..end).map(name).collect())
}

/// Returns the slots of the keys, if the scheme's keys have any.
fn slots<S: FileScheme>(args: &Args) -> anyhow::Result<Option<Range<u64>>> {
    let Some(limits) = S::SLOTS else {
        ensure!(
            args.first_slot.is_none(),
            "--first-slot: {} has no slots",
            S::NAME
        );
        ensure!(args.slots.is_none(), "--slots: {} has no slots", S::NAME);
        return Ok(None);
    };
    let Some(ranges) = limits.ranges else {
        let given = [("--first-slot", args.first_slot), ("--slots", args.slots)];
        for (option, value) in given {
            ensure!(
                value.is_none(),
                "{option}: a key of {} signs in all slots",
                S::NAME
            );
        }
        return Ok(None);
    };
    let (max, default) = match args.origin.interop {
        Some(_) => (ranges.interop_max, ranges.interop_default),
        None => (ranges.key_max, ranges.key_default),
    };
    let (first, max) = (args.first_slot.unwrap_or(0), max.min(limits.end));
    ensure!(
        first < limits.end,
        "--first-slot {first}: must be below {}",
        limits.end
    );
    let count = args.slots.unwrap_or(default.min(limits.end - first));
    ensure!(
        (1..=max).contains(&count),
        "--slots {count}: allowed are 1 to {max}"
    );
    ensure!(
        count <= limits.end - first,
        "--slots {count} from {first} on: slots are below {}",
        limits.end
    );
    Ok(Some(first..first + count))
}

/// The path of a key, and the slots in which it signs.
struct KeyTarget<'a> {
    path: &'a Path,
    slots: Option<Range<u64>>,
}

/// Makes key `i`, and its duty key if wanted, and adds their files. Files next to a key come before the
/// key.
fn add_key<S: FileScheme>(
    scheme: &S,
    args: &Args,
    i: usize,
    target: KeyTarget<'_>,
    password: Option<&Password>,
    staged: &mut Staged,
    bars: &mut Bars,
) -> Result<PublicKeyEntry> {
    let KeyTarget { path, slots } = target;
    let Some(password) = password else {
        let index = args.origin.interop.unwrap_or(0) + i as u32;
        let pair = KeyPair::of(scheme, scheme.interop(index, slots.clone())?);
        S::add_mark(&pair.key, path, None, staged)?;
        S::add_beside(&pair.key, path, staged)?;
        let file = to_json(&interop_file::<S>(index, slots.as_ref(), &pair.public))?;
        staged.add(path, Access::Public, &file)?;
        return Ok(public_key_entry(pair.public, None));
    };
    let pair = KeyPair::of(scheme, scheme.generate(slots.clone(), bars)?);
    add_keystore(args, &pair, path, password, staged)?;
    let duty = match args.duties {
        true => {
            let duty = KeyPair::of(scheme, scheme.generate_duty(slots, bars)?);
            add_keystore(args, &duty, &duty_path(path), password, staged)?;
            Some(duty.public)
        }
        false => None,
    };
    Ok(public_key_entry(pair.public, duty))
}

/// Adds a keystore and the files next to it.
fn add_keystore<S: FileScheme>(
    args: &Args,
    pair: &KeyPair<S>,
    path: &Path,
    password: &Password,
    staged: &mut Staged,
) -> Result<()> {
    S::add_mark(&pair.key, path, None, staged)?;
    S::add_beside(&pair.key, path, staged)?;
    let keystore = Keystore::seal(
        &pair.secret,
        &pair.public.public_key,
        password,
        args.kdf.protection(),
        S::about(&pair.key),
        S::KEYSTORE.declared,
    )?;
    staged.add(path, Access::Private, &to_json(&keystore)?)
}

fn ensure_duties<S: FileScheme>(args: &Args) -> anyhow::Result<()> {
    ensure!(
        !args.duties || S::DUTY_KEYS,
        "--duties: {} signs duties with the key of votes",
        S::NAME
    );
    Ok(())
}

fn file_name(path: &std::path::Path) -> String {
    path.file_name()
        .map(|name| name.to_string_lossy().into_owned())
        .unwrap_or_default()
}
