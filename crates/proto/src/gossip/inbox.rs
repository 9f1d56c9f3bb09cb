//! Messages that wait for a verdict, and the names of all that came.

use super::MessageId;
use crate::Token;

/// Names seen and messages waiting; `X` is what a machine notes beside a waiting message.
#[derive(Debug)]
pub(super) struct Inbox<I: MessageId, P, X> {
    pub(super) seen: I::Seen,
    // Three columns of one table: a duplicate searches names only, and there are few.
    ids: Vec<I>,
    tokens: Vec<u64>,
    waiting: Vec<(P, X)>,
    next_token: u64,
}

impl<I: MessageId, P, X> Default for Inbox<I, P, X> {
    fn default() -> Self {
        Self {
            seen: I::Seen::default(),
            ids: Vec::new(),
            tokens: Vec::new(),
            waiting: Vec::new(),
            next_token: 0,
        }
    }
}

impl<I: MessageId, P, X> Inbox<I, P, X> {
    /// Number of waiting messages.
    pub(super) fn len(&self) -> usize {
        self.ids.len()
    }

    /// The note on a waiting message.
    #[inline]
    pub(super) fn find(&mut self, id: &I) -> Option<&mut X> {
        let at = self.ids.iter().position(|waiting| waiting == id)?;
        Some(&mut self.waiting[at].1)
    }

    /// Lets a message wait.
    pub(super) fn wait(&mut self, id: I, payload: P, note: X) -> Token {
        let token = self.next_token;
        self.next_token += 1;
        self.ids.push(id);
        self.tokens.push(token);
        self.waiting.push((payload, note));
        Token(token)
    }

    /// Ends the waiting.
    pub(super) fn take(&mut self, token: Token) -> Option<(I, P, X)> {
        let at = self.tokens.iter().position(|&waiting| waiting == token.0)?;
        self.tokens.swap_remove(at);
        let id = self.ids.swap_remove(at);
        let (payload, note) = self.waiting.swap_remove(at);
        Some((id, payload, note))
    }
}
