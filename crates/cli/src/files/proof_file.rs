//! Files with an aggregate of XMSS signatures that is a proof.

use super::choice::Choice;
use super::document::{Document, scheme_of};
use super::fields::Signers;
use super::input::{LIST_BYTES_MAX, Opened};
use super::xmss::{CompactSet, ProdSet, SetType, TestSet, Xmss};
use crate::error::Result;
use alphorn_types::Bitfield;
use alphorn_xmss::Set;
use anyhow::anyhow;
use std::path::Path;

/// The content of a file with an aggregate of XMSS signatures.
pub(crate) struct ProofFile {
    /// The parameter set.
    pub(crate) set: Set,
    /// The slot that was signed in.
    pub(crate) slot: Option<u64>,
    /// The signed message, in hex digits.
    pub(crate) message: String,
    /// The signers, by positions in the registry: a public key file, or the signers themselves.
    pub(crate) signers: Bitfield,
    /// The digest of the public key file; none if the signers are listed.
    pub(crate) keys_digest: Option<[u8; 32]>,
    /// The tag and proofs.
    pub(crate) evidence: Vec<u8>,
}

/// Returns the set named in a file's bytes; anything that is not an XMSS file is rejected as one of the
/// default set.
fn named(bytes: &[u8]) -> Set {
    match scheme_of(bytes) {
        Some(Choice::Xmss(set)) => set,
        _ => Set::Compact,
    }
}

/// Returns the set that a file names.
pub(super) fn set_named(path: &Path) -> Result<Set> {
    Ok(named(&Opened::read(path, LIST_BYTES_MAX)?.bytes))
}

/// Reads an aggregate of the set that it names.
pub(crate) fn read(path: &Path) -> Result<ProofFile> {
    let opened = Opened::read(path, LIST_BYTES_MAX)?;
    match named(&opened.bytes) {
        Set::Prod => read_as::<ProdSet>(&opened.bytes, path),
        Set::Test => read_as::<TestSet>(&opened.bytes, path),
        Set::Compact => read_as::<CompactSet>(&opened.bytes, path),
    }
}

fn read_as<P: SetType>(bytes: &[u8], path: &Path) -> Result<ProofFile> {
    let file = match Document::parse::<Xmss<P>>(bytes, path)? {
        Document::Aggregate(file) => file,
        other => {
            let (path, kind) = (path.display(), other.kind());
            return Err(anyhow!("{path}: no aggregate, but a file of kind {kind}").into());
        }
    };
    let (signers, keys_digest) = match file.signers::<Xmss<P>>()? {
        Signers::Listed(listed) => (Bitfield::ones(listed.len()), None),
        Signers::Registered { digest, support } => (support.signers(), Some(digest)),
    };
    if file.signature.0.first() == Some(&alphorn_scheme::list::TAG_LIST) {
        let path = path.display();
        return Err(anyhow!("{path}: a list of signatures, no proof: `verify` checks it").into());
    }
    Ok(ProofFile {
        set: P::SET,
        slot: file.slot,
        message: file.message.to_string(),
        signers,
        keys_digest,
        evidence: file.signature.0,
    })
}
