//! Members in rows and columns.

use std::sync::Arc;

/// The other members of a member's row and column, each list in ascending order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Links<T> {
    /// Members in the same row.
    pub row: Arc<[T]>,
    /// Members in the same column.
    pub column: Arc<[T]>,
}

impl Links<u32> {
    /// The links of member `index` out of `members`, in rows of width floor(sqrt(members)). The last
    /// row may be shorter; members without a counterpart there are reached through the column.
    ///
    /// # Panics
    ///
    /// If `index` is not below `members`.
    pub(crate) fn of(index: u32, members: u32) -> Self {
        assert!(index < members, "member {index} of {members}");
        let width = members.isqrt();
        let row = index / width * width;
        let others = |list: &mut dyn Iterator<Item = u32>| list.filter(|i| *i != index).collect();
        Self {
            row: others(&mut (row..members.min(row.saturating_add(width)))),
            column: others(&mut (index % width..members).step_by(width as usize)),
        }
    }
}

impl<T> Links<T> {
    /// The same links with renamed members; `name` must preserve the order.
    pub(crate) fn map<U>(&self, name: impl Fn(&T) -> U) -> Links<U> {
        Links {
            row: self.row.iter().map(&name).collect(),
            column: self.column.iter().map(&name).collect(),
        }
    }
}

impl<T: Ord> Links<T> {
    /// Whether the member is in the row or the column; both lists are ascending.
    pub(crate) fn have(&self, other: &T) -> bool {
        let lists = [&self.row, &self.column];
        lists.iter().any(|list| list.binary_search(other).is_ok())
    }
}
