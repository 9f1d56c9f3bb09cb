//! Request bodies in JSON: the fields of the SSZ containers, bytes in hexadecimal after `0x`,
//! participants as ascending positions.
//!
//! A list is rejected as soon as it exceeds the maximum number of entries: an empty text of three bytes
//! would take eight times as many in memory before the number of entries is known.

use crate::job::{ENTRIES_MAX, Entry, Kind, Votes, Work};
use crate::ssz::{self, Lookup};
use alphorn_types::Bitfield;
use alphorn_xmss::COMMITTEE_MAX;
use axum::body::Bytes;
use serde::de::{Error, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use std::fmt;
use std::marker::PhantomData;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct VotesText {
    registry: String,
    slot: u64,
    message: String,
    #[serde(deserialize_with = "members")]
    participants: Vec<u32>,
    #[serde(deserialize_with = "members")]
    signatures: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct EntryText {
    registry: String,
    slot: u64,
    message: String,
    #[serde(deserialize_with = "members")]
    participants: Vec<u32>,
    #[serde(default)]
    proof_data: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct EntriesText {
    #[serde(deserialize_with = "few")]
    entries: Vec<EntryText>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct BundledText {
    #[serde(deserialize_with = "few")]
    entries: Vec<EntryText>,
    proof_data: String,
}

/// A registry to be uploaded.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RegistryText {
    pub(crate) set: String,
    #[serde(default)]
    pub(crate) number: u32,
    #[serde(deserialize_with = "members")]
    pub(crate) keys: Vec<String>,
}

/// A list with a maximum length.
struct AtMost<T>(usize, PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for AtMost<T> {
    type Value = Vec<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a list of at most {}", self.0)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Vec<T>, A::Error> {
        let mut list = Vec::new();
        while let Some(one) = seq.next_element()? {
            if list.len() == self.0 {
                let max = self.0;
                return Err(A::Error::custom(format!("more than {max} in a list")));
            }
            list.push(one);
        }
        Ok(list)
    }
}

/// Deserialises a list with one entry per member of a registry.
fn members<'de, T: Deserialize<'de>, D: Deserializer<'de>>(from: D) -> Result<Vec<T>, D::Error> {
    from.deserialize_seq(AtMost(COMMITTEE_MAX as usize, PhantomData))
}

/// Deserialises the entries of a job.
fn few<'de, T: Deserialize<'de>, D: Deserializer<'de>>(from: D) -> Result<Vec<T>, D::Error> {
    from.deserialize_seq(AtMost(ENTRIES_MAX, PhantomData))
}

/// Decodes hexadecimal bytes after `0x`.
pub(crate) fn unhex(what: &str, text: &str) -> Result<Vec<u8>, String> {
    let digits = text.strip_prefix("0x");
    let bytes = digits.and_then(|digits| hex::decode(digits).ok());
    bytes.ok_or_else(|| format!("{what}: must be hexadecimal digits after 0x, two for each byte"))
}

/// Decodes exactly this many bytes.
pub(crate) fn unhex_array<const N: usize>(what: &str, text: &str) -> Result<[u8; N], String> {
    let bytes = unhex(what, text)?;
    let length = bytes.len();
    bytes
        .try_into()
        .map_err(|_| format!("{what} has {length} bytes, must have {N}"))
}

/// Concatenates texts of equal length.
pub(crate) fn joined(what: &str, texts: &[String], each: usize) -> Result<Bytes, String> {
    let mut bytes = Vec::new();
    for (i, text) in texts.iter().enumerate() {
        let one = unhex(&format!("{what} {i}"), text)?;
        if one.len() != each {
            let length = one.len();
            return Err(format!("{what} {i} has {length} bytes, must have {each}"));
        }
        bytes.extend_from_slice(&one);
    }
    Ok(bytes.into())
}

fn parsed<'a, T: Deserialize<'a>>(body: &'a [u8]) -> Result<T, String> {
    // Fields are identified by name only, so a list is not a valid request.
    if body.trim_ascii_start().first() != Some(&b'{') {
        return Err("the body must be an object in JSON".to_owned());
    }
    serde_json::from_slice(body).map_err(|error| error.to_string())
}

/// Decodes the registry of a body.
pub(crate) fn registry(body: &[u8]) -> Result<RegistryText, String> {
    parsed(body)
}

/// Decodes the work that a body requests.
///
/// # Errors
/// What is wrong with it, with the value and its bound.
pub(crate) fn decode(
    kind: Kind,
    body: &[u8],
    kept: usize,
    lookup: Lookup<'_>,
) -> Result<Work, String> {
    Ok(match kind {
        Kind::Prove => Work::Prove(votes(parsed(body)?, lookup)?),
        Kind::VerifySignatures => Work::VerifySignatures(votes(parsed(body)?, lookup)?),
        Kind::Merge => ssz::merged(proved(parsed(body)?, lookup)?)?,
        Kind::Bundle => Work::Bundle(proved(parsed(body)?, lookup)?),
        Kind::Verify => Work::Verify(proved(parsed(body)?, lookup)?),
        Kind::Split => {
            let (entries, proof) = bundled(parsed(body)?, lookup)?;
            ssz::split(entries, proof, kept)?
        }
        Kind::VerifyBundle => {
            let (entries, proof) = bundled(parsed(body)?, lookup)?;
            Work::VerifyBundle { entries, proof }
        }
    })
}

fn positions(positions: &[u32], members: usize) -> Result<Bitfield, String> {
    let mut field = Bitfield::new(members);
    // Positions that ascend are also named once each, and match the order of the signatures.
    if let Some(pair) = positions.windows(2).find(|pair| pair[0] >= pair[1]) {
        let (before, after) = (pair[0], pair[1]);
        return Err(format!(
            "participants: {after} comes after {before}, must ascend"
        ));
    }
    for position in positions {
        if *position as usize >= members {
            return Err(format!(
                "participants: {position}, the registry has {members} keys"
            ));
        }
        field.set(*position as usize);
    }
    Ok(field)
}

fn votes(text: VotesText, lookup: Lookup<'_>) -> Result<Votes, String> {
    let digest = unhex_array("registry", &text.registry)?;
    let message = unhex_array("message", &text.message)?;
    let about = ssz::about(&digest, text.slot, message, lookup)?;
    let participants = positions(&text.participants, about.registry.len())?;
    let each = about.registry.set.params().signature_bytes;
    let signatures = joined("signature", &text.signatures, each)?;
    ssz::voted(about, participants, signatures)
}

fn entries(texts: &[EntryText], lookup: Lookup<'_>) -> Result<Vec<Entry>, String> {
    ssz::counted(texts.len())?;
    let entries = texts.iter().enumerate().map(|(i, text)| {
        let entry = || {
            let digest = unhex_array("registry", &text.registry)?;
            let message = unhex_array("message", &text.message)?;
            let about = ssz::about(&digest, text.slot, message, lookup)?;
            let proof = match text.proof_data.as_str() {
                "" => Vec::new(),
                text => unhex("proof_data", text)?,
            };
            Ok(Entry {
                participants: positions(&text.participants, about.registry.len())?,
                about,
                proof: ssz::bounded(proof.into())?,
            })
        };
        entry().map_err(|why: String| format!("entry {i}: {why}"))
    });
    entries.collect()
}

fn proved(text: EntriesText, lookup: Lookup<'_>) -> Result<Vec<Entry>, String> {
    let entries = entries(&text.entries, lookup)?;
    match entries.iter().position(|entry| entry.proof.is_empty()) {
        None => Ok(entries),
        Some(i) => Err(format!("entry {i} has no proof")),
    }
}

fn bundled(text: BundledText, lookup: Lookup<'_>) -> Result<(Vec<Entry>, Bytes), String> {
    let entries = entries(&text.entries, lookup)?;
    ssz::without_proofs(&entries)?;
    let proof = unhex("proof_data", &text.proof_data)?;
    Ok((entries, ssz::bounded(proof.into())?))
}
