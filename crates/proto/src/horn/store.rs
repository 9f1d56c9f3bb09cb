//! Data that the state machines of a process share: signer sets, rank tables, and decoded messages with
//! values derived from them. A state machine on its own has its own store.

use alphorn_scheme::Bytes;
use alphorn_types::interned::{Interned, digest_of};
use alphorn_types::{Bitfield, DecodeError, Supports};
use std::borrow::Cow;
use std::fmt;
use std::ops::Deref;
use std::sync::{Arc, OnceLock};

use super::ranks::Ranks;
use crate::wire::{
    Aggregate, Block, Context, Entry, NetworkDigest, References, WireFormat, digest,
};

/// Signer sets and messages, each stored once and for as long as a state machine holds it. A node has one
/// store, a simulation has one for all of its nodes.
///
/// A message is found by its bytes, immediately if they are the same allocation. Each state machine
/// decodes what refers to the chain ([`Context::Chain`]) itself.
#[derive(Default)]
pub struct Store {
    pub(super) supports: Arc<Supports>,
    pub(super) ranks: Arc<Ranks>,
    aggregates: Interned<Received<Aggregate>>,
    blocks: Interned<Received<Block>>,
    network: OnceLock<(NetworkDigest, WireFormat)>,
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Store")
    }
}

/// A message as received, decoded, with derived values that are the same for all nodes.
pub(super) struct Received<M: Message> {
    /// The message on the wire.
    pub(super) data: Bytes,
    message: M,
    content: OnceLock<[u8; 32]>,
    claims: OnceLock<M::Claims>,
}

/// A message that many state machines hold.
pub(super) trait Message: Sized {
    /// Its claims about votes.
    type Claims;

    fn decode(
        data: &[u8],
        format: &WireFormat,
        references: References<'_>,
    ) -> Result<Self, DecodeError>;

    /// What its sender signs, without the network.
    fn content(&self, network: NetworkDigest, format: &WireFormat) -> [u8; 32];

    fn claims(&self, format: &WireFormat, supports: &Supports) -> Self::Claims;

    /// The messages of this type that a store knows.
    fn known(store: &Store) -> &Interned<Received<Self>>;
}

/// An entry of a block, or the content of a collection without its collector.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Claimed {
    pub(super) entry: Entry,
    /// [`Entry::digest`].
    pub(super) digest: Arc<[u8; 32]>,
    pub(super) signers: Arc<Bitfield>,
}

impl Claimed {
    pub(super) fn new(entry: Entry, format: &WireFormat, supports: &Supports) -> Arc<Self> {
        let signers = supports.intern(Cow::Owned(entry.evidence.support.signers()));
        let digest = Arc::new(entry.digest(format));
        Arc::new(Self {
            entry,
            digest,
            signers,
        })
    }
}

impl Message for Aggregate {
    type Claims = Arc<Claimed>;

    fn decode(
        data: &[u8],
        format: &WireFormat,
        references: References<'_>,
    ) -> Result<Self, DecodeError> {
        Self::decode(data, format, references)
    }

    fn content(&self, network: NetworkDigest, format: &WireFormat) -> [u8; 32] {
        digest::aggregate_message(network, self, format)
    }

    fn claims(&self, format: &WireFormat, supports: &Supports) -> Arc<Claimed> {
        Claimed::new(Entry::from(self), format, supports)
    }

    fn known(store: &Store) -> &Interned<Received<Self>> {
        &store.aggregates
    }
}

impl Message for Block {
    type Claims = Vec<Arc<Claimed>>;

    fn decode(
        data: &[u8],
        format: &WireFormat,
        references: References<'_>,
    ) -> Result<Self, DecodeError> {
        Self::decode(data, format, references)
    }

    /// Its root: the network is in its genesis block.
    fn content(&self, _: NetworkDigest, _: &WireFormat) -> [u8; 32] {
        self.header.root()
    }

    fn claims(&self, format: &WireFormat, supports: &Supports) -> Vec<Arc<Claimed>> {
        let claimed = |entry: &Entry| Claimed::new(entry.clone(), format, supports);
        self.body.entries.iter().map(claimed).collect()
    }

    fn known(store: &Store) -> &Interned<Received<Self>> {
        &store.blocks
    }
}

impl<M: Message> Received<M> {
    pub(super) fn new(data: Bytes, message: M) -> Arc<Self> {
        Arc::new(Self {
            data,
            message,
            content: OnceLock::new(),
            claims: OnceLock::new(),
        })
    }

    /// What its sender signed, or the root of a block.
    pub(super) fn content(&self, network: NetworkDigest, format: &WireFormat) -> &[u8; 32] {
        let content = || self.message.content(network, format);
        self.content.get_or_init(content)
    }

    pub(super) fn claims(&self, format: &WireFormat, store: &Store) -> &M::Claims {
        let claims = || self.message.claims(format, &store.supports);
        self.claims.get_or_init(claims)
    }
}

impl<M: Message> Deref for Received<M> {
    type Target = M;

    fn deref(&self) -> &M {
        &self.message
    }
}

impl Store {
    /// Checks that only state machines of one network share a store.
    ///
    /// # Panics
    ///
    /// If the store belongs to another network.
    pub(super) fn join(&self, network: NetworkDigest, format: &WireFormat) {
        let first = self.network.get_or_init(|| (network, format.clone()));
        assert!(
            first.0 == network && first.1 == *format,
            "a store of another network"
        );
    }

    /// Returns the message encoded by `data`, decoded once for all holders.
    ///
    /// # Errors
    ///
    /// If the bytes do not decode.
    pub(super) fn read<M: Message>(
        &self,
        data: &Bytes,
        format: &WireFormat,
        references: References<'_>,
    ) -> Result<Arc<Received<M>>, DecodeError> {
        let known = M::known(self);
        let is_shared = format.context == Context::None;
        let found = known.find(place(data), |one| Arc::ptr_eq(&one.data, data));
        let equal = || known.find(digest_of(&**data), |one| one.data == *data);
        match found.or_else(equal).filter(|_| is_shared) {
            Some(found) => Ok(found),
            None => {
                let message = M::decode(data, format, references)?;
                Ok(self.keep(data.clone(), message, format))
            }
        }
    }

    /// Stores a message with its bytes, for all future holders.
    pub(super) fn keep<M: Message>(
        &self,
        data: Bytes,
        message: M,
        format: &WireFormat,
    ) -> Arc<Received<M>> {
        let received = Received::new(data, message);
        // What these bytes mean depends on the chain, so another state machine must not find the result.
        if format.context != Context::None {
            return received;
        }
        let (known, data) = (M::known(self), &received.data);
        let by_bytes = known.intern(
            digest_of(&**data),
            |one| one.data == *data,
            || received.clone(),
        );
        // Stored under a second key, the address of the bytes, so that holders of the same allocation
        // need no hash of it.
        let same = |one: &Received<M>| Arc::ptr_eq(&one.data, &by_bytes.data);
        known.intern(place(&by_bytes.data), same, || by_bytes.clone())
    }
}

/// Address of the bytes. Unique as long as they are held, and used only for lookup.
fn place(data: &Bytes) -> u64 {
    data.as_ptr().addr() as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::horn::config::{Config, SchemeInfo};
    use crate::wire::{Body, Header, no_references};
    use alphorn_scheme::model::{CostTable, Model};
    use alphorn_types::Layout;

    fn format() -> WireFormat {
        let layout = Layout::new(16, 2, 2).unwrap();
        let info = SchemeInfo::of(&Model::new(CostTable::example()).unwrap(), &layout);
        Config::new(layout, &info).format(&info)
    }

    fn block(format: &WireFormat, filler: u8) -> (Block, Bytes) {
        let body = Body {
            entries: Vec::new(),
            bundle: Bytes::from([]),
            filler: vec![filler; 3].into(),
        };
        let encoded = body.encode(format, &no_references).unwrap();
        let header = Header {
            body: digest::body_digest(&encoded),
            ..Header::default()
        };
        let signature = vec![0; format.duty_signature_bytes].into();
        let block = Block {
            header,
            signature,
            body,
        };
        let data = block.encode(format, &no_references).unwrap();
        (block, data.into())
    }

    fn read(store: &Store, data: &Bytes, format: &WireFormat) -> Arc<Received<Block>> {
        store.read(data, format, &no_references).unwrap()
    }

    #[test]
    fn equal_bytes_are_one_message_wherever_they_are() {
        let (store, format) = (Store::default(), format());
        let (one, data) = block(&format, 1);
        let first = read(&store, &data, &format);
        assert_eq!(first.message, one);
        let copy = Bytes::from(data.to_vec());
        assert!(Arc::ptr_eq(&first, &read(&store, &data, &format)));
        assert!(Arc::ptr_eq(&first, &read(&store, &copy, &format)));
        let (other, other_data) = block(&format, 2);
        let own = store.keep(other_data.clone(), other, &format);
        assert!(!Arc::ptr_eq(&first, &own));
        assert!(Arc::ptr_eq(&own, &read(&store, &other_data, &format)));
        assert_eq!(store.blocks.count(), 4, "each by its bytes and its place");
        drop((first, own));
        assert_eq!(store.blocks.count(), 0);
        assert_eq!(read(&store, &copy, &format).message, one);
    }

    #[test]
    fn what_refers_to_the_chain_is_decoded_by_each() {
        let (store, mut format) = (Store::default(), format());
        format.context = Context::Chain;
        let (_, data) = block(&format, 1);
        let [a, b] = [(); 2].map(|()| read(&store, &data, &format));
        assert!(!Arc::ptr_eq(&a, &b) && a.message == b.message);
    }

    #[test]
    #[should_panic(expected = "another network")]
    fn networks_share_no_store() {
        let (store, format) = (Store::default(), format());
        store.join(NetworkDigest([1; 4]), &format);
        store.join(NetworkDigest([2; 4]), &format);
    }
}
