//! Messages that wait for a verdict.

use super::DenseId;
use alphorn_proto::Token;

/// Bits of a token that hold the slot; the rest counts how often the slot was used.
const PLACE_BITS: u32 = 16;

/// Waiting messages, at most 2^15; `X` is the note that a state machine attaches to each.
#[derive(Debug)]
pub(super) struct Inbox<P, X> {
    /// Identity of the message in each slot, which is all that a duplicate reads.
    ids: Vec<Option<DenseId>>,
    entries: Vec<Entry<P, X>>,
    free: Vec<u16>,
    /// Upper bound on the uses of slots since removed, so that no token is issued twice.
    uses: u64,
}

#[derive(Debug)]
struct Entry<P, X> {
    uses: u64,
    content: Option<(P, X)>,
}

impl<P, X> Default for Inbox<P, X> {
    fn default() -> Self {
        Self {
            ids: Vec::new(),
            entries: Vec::new(),
            free: Vec::new(),
            uses: 0,
        }
    }
}

impl<P, X> Inbox<P, X> {
    /// Number of waiting messages.
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.ids.len() - self.free.len()
    }

    /// Frees the memory of messages that no longer wait.
    pub(super) fn shrink(&mut self) {
        if self.len() == 0 {
            // A verdict for a message that waited before can still come: its token must match nothing after the
            // slots are reused.
            let uses = self.entries.iter().map(|entry| entry.uses);
            self.uses = uses.max().unwrap_or(self.uses).max(self.uses);
            self.ids = Vec::new();
            self.entries = Vec::new();
            self.free = Vec::new();
        }
    }

    /// The note of a waiting message.
    #[inline]
    pub(super) fn find(&mut self, id: &DenseId) -> Option<&mut X> {
        let index = self.ids.iter().position(|waiting| *waiting == Some(*id))?;
        let content = self.entries[index].content.as_mut();
        content.map(|(_, note)| note)
    }

    /// The notes of all waiting messages.
    pub(super) fn notes(&self) -> impl Iterator<Item = &X> {
        let contents = self
            .entries
            .iter()
            .filter_map(|entry| entry.content.as_ref());
        contents.map(|(_, note)| note)
    }

    /// Adds a message to wait for a verdict.
    pub(super) fn wait(&mut self, id: DenseId, payload: P, note: X) -> Token {
        let index = match self.free.pop() {
            Some(index) => usize::from(index),
            None => {
                self.ids.push(None);
                self.entries.push(Entry {
                    uses: self.uses,
                    content: None,
                });
                self.ids.len() - 1
            }
        };
        self.ids[index] = Some(id);
        let entry = &mut self.entries[index];
        entry.content = Some((payload, note));
        Token(entry.uses << PLACE_BITS | index as u64)
    }

    /// Removes a waiting message.
    pub(super) fn take(&mut self, token: Token) -> Option<(DenseId, P, X)> {
        // Truncated to the slot bits on purpose; the remaining bits are compared below.
        let index = token.0 as u16;
        let entry = self.entries.get_mut(usize::from(index))?;
        if entry.uses != token.0 >> PLACE_BITS {
            return None;
        }
        let (payload, note) = entry.content.take()?;
        entry.uses += 1;
        let id = self.ids[usize::from(index)].take()?;
        self.free.push(index);
        Some((id, payload, note))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_good_once() {
        let mut inbox: Inbox<char, u8> = Inbox::default();
        let a = inbox.wait(DenseId(1), 'a', 10);
        let b = inbox.wait(DenseId(2), 'b', 20);
        assert_eq!(inbox.find(&DenseId(2)), Some(&mut 20));
        assert_eq!(inbox.find(&DenseId(3)), None);
        assert_eq!(inbox.take(a), Some((DenseId(1), 'a', 10)));
        assert_eq!((inbox.take(a), inbox.len()), (None, 1));
        let c = inbox.wait(DenseId(3), 'c', 30);
        assert_ne!(a, c);
        assert_eq!((inbox.take(a), inbox.find(&DenseId(1))), (None, None));
        assert_eq!(inbox.notes().copied().sum::<u8>(), 50);
        assert_eq!(inbox.take(c), Some((DenseId(3), 'c', 30)));
        assert_eq!(inbox.take(b), Some((DenseId(2), 'b', 20)));
        assert_eq!((inbox.take(Token(u64::MAX)), inbox.len()), (None, 0));
        let before = inbox.wait(DenseId(4), 'd', 40);
        assert!(inbox.take(before).is_some());
        inbox.shrink();
        let after = inbox.wait(DenseId(5), 'e', 50);
        assert_ne!(before, after);
        inbox.shrink();
        assert_eq!((inbox.take(before), inbox.len()), (None, 1));
        assert_eq!(inbox.take(after), Some((DenseId(5), 'e', 50)));
    }
}
