//! The digit tree: from points labelled with patterns of bits to one sum per bit.
//!
//! Every item is a point with a w-bit *value*; bit j of the value says whether the point belongs to the sum of
//! column j. Three steps, each one kernel call for all groups of a batch, lead to the w sums:
//!
//! - *merge*: items of equal value are added, so that at most min(n, 2^w) items remain;
//! - *halve*: a value of w bits is cut into two digits, and items of equal digit are added, digit by digit. An
//!   item takes part in both halves, unless its digit is 0;
//! - *bits*: a digit of at most four bits ends in one sum per bit.
//!
//! The transposed four-Russians method does not merge 2^16 patterns before halving. Of 32,768 random patterns
//! of 16 bits about 25,800 are different, so 7,000 + 2 x 25,800 additions do the work of 2 x 32,768.

use core::ops::Range;

use super::segments::{Entry, Points, SegmentList, SumBuffers, SumKernel, sum_segments};

/// Maximum number of columns of one group.
pub(crate) const WIDTH_MAX: usize = 16;
/// Values are sparse if there are fewer items than this per value.
const SPARSE_ITEMS: usize = 2;
/// Flag set in the slot of a key whose segment has begun; the other bits say where its next entry goes.
const BEGUN: u32 = 1 << 31;
/// Digits of at most this many bits are not halved: 2^4 items are cheaper than another step.
const BITS_WIDTH_MAX: u8 = 4;

/// A point and its pattern.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Item {
    pub(crate) value: u16,
    pub(crate) entry: Entry,
}

impl Item {
    /// Placeholder in a list until an item is written there.
    const NONE: Item = Item {
        value: 0,
        entry: Entry::NONE,
    };
}

/// A group of columns, or part of one, being processed by the tree.
#[derive(Clone, Debug)]
struct Digit {
    items: Range<usize>,
    /// Bits of the values.
    width: u8,
    /// Whether all values are distinct.
    merged: bool,
    /// Slot of the sum of bit 0.
    slot: usize,
}

/// Points made by a run. The memory behind them stays initialised from run to run, because a kernel overwrites
/// it: megabytes are neither cleared nor copied.
pub(crate) struct Sums<P> {
    points: Vec<P>,
    made: usize,
}

impl<P: Copy> Sums<P> {
    fn new() -> Self {
        Sums {
            points: Vec::new(),
            made: 0,
        }
    }

    fn clear(&mut self) {
        self.made = 0;
    }

    pub(crate) fn len(&self) -> usize {
        self.made
    }

    pub(crate) fn made(&self) -> &[P] {
        &self.points[..self.made]
    }

    pub(crate) fn push(&mut self, point: P) {
        self.grow(1, point).1[0] = point;
    }

    /// Returns the points made before, and slots with arbitrary contents for `count` more.
    fn grow(&mut self, count: usize, anything: P) -> (&[P], &mut [P]) {
        let start = self.made;
        self.made += count;
        if self.points.len() < self.made {
            self.points.resize(self.made, anything);
        }
        let (before, places) = self.points.split_at_mut(start);
        (before, &mut places[..count])
    }
}

/// The tree of one thread: filled group by group, then run for all groups at once.
pub(crate) struct Tree<K: SumKernel> {
    pub(crate) buffers: SumBuffers<K>,
    items: Vec<Item>,
    items_next: Vec<Item>,
    digits: Vec<Digit>,
    digits_next: Vec<Digit>,
    list: SegmentList,
    /// Number of entries, then next slot, of each key.
    places: Vec<u32>,
    /// Items whose pattern occurred before, with the position of the first one.
    repeats: Vec<(u32, Entry)>,
    /// Patterns seen so far, one bit each.
    seen: Vec<u64>,
    /// Slots that this step fills with sums.
    targets: Vec<usize>,
    /// All sums made so far.
    pub(crate) sums: Sums<K::Point>,
    /// The sum of each column; `None` is the identity.
    pub(crate) slots: Vec<Option<Entry>>,
    /// Point additions so far.
    pub(crate) additions: u64,
}

impl<K: SumKernel> Default for Tree<K> {
    fn default() -> Self {
        Tree {
            buffers: SumBuffers::default(),
            items: Vec::new(),
            items_next: Vec::new(),
            digits: Vec::new(),
            digits_next: Vec::new(),
            list: SegmentList::default(),
            places: Vec::new(),
            repeats: Vec::new(),
            seen: Vec::new(),
            targets: Vec::new(),
            sums: Sums::new(),
            slots: Vec::new(),
            additions: 0,
        }
    }
}

impl<K: SumKernel> Tree<K> {
    /// Clears groups and sums but keeps the memory.
    pub(crate) fn clear(&mut self) {
        self.items.clear();
        self.digits.clear();
        self.sums.clear();
        self.slots.clear();
        self.additions = 0;
    }

    /// Adds a group of `width` columns whose items `fill` pushes, and returns its first slot. Values are below
    /// 2^width and not 0.
    pub(crate) fn push_group(&mut self, width: usize, fill: impl FnOnce(&mut Vec<Item>)) -> usize {
        assert!(
            (1..=WIDTH_MAX).contains(&width),
            "a group has 1 to {WIDTH_MAX} columns"
        );
        let (start, slot) = (self.items.len(), self.slots.len());
        fill(&mut self.items);
        self.slots.resize(slot + width, None);
        let items = start..self.items.len();
        self.digits.push(Digit {
            items,
            width: width as u8,
            merged: width == 1,
            slot,
        });
        slot
    }

    /// Number of items pending for the next run.
    pub(crate) fn items_len(&self) -> usize {
        self.items.len()
    }

    /// Adds slots without items, whose sums are the identity, and returns the first.
    pub(crate) fn push_empty(&mut self, columns: usize) -> usize {
        let slot = self.slots.len();
        self.slots.resize(slot + columns, None);
        slot
    }

    /// Runs all groups to completion. Afterwards `slots` holds the sums, and more groups may follow.
    ///
    /// # Panics
    /// If there are more items than entries can refer to sums of: 2^28 and more in one batch.
    pub(crate) fn run(&mut self, kernel: K, table: &[K::Point]) {
        while !self.digits.is_empty() {
            // A step makes at most two sums, and two list entries, for each of its items.
            let indices = table.len() + self.sums.len() + 2 * self.items.len();
            assert!(
                indices <= Entry::INDEX_END,
                "{} items in one batch",
                self.items.len()
            );
            self.list.clear();
            self.items_next.clear();
            self.digits_next.clear();
            self.targets.clear();
            let (base, made) = (table.len() + self.sums.len(), self.sums.len());
            for i in 0..self.digits.len() {
                self.step(self.digits[i].clone(), base);
            }
            self.sum_list(kernel, table);
            if self.sums.made()[made..].iter().any(K::is_infinity) {
                self.drop_infinities(table.len());
            }
            core::mem::swap(&mut self.items, &mut self.items_next);
            core::mem::swap(&mut self.digits, &mut self.digits_next);
        }
    }

    /// Drops all sums except those referenced by slots and `others`. A job of many columns runs in parts, and
    /// the intermediate sums of one part are of no use to the next.
    pub(crate) fn forget_others<'e>(
        &mut self,
        table_len: usize,
        others: impl Iterator<Item = &'e mut Entry>,
    ) {
        let mut kept = Vec::new();
        let mut keep = |entry: &mut Entry| {
            if let Some(sum) = entry.index().checked_sub(table_len) {
                kept.push(self.sums.made()[sum]);
                *entry = Entry::new(table_len + kept.len() - 1, entry.is_negative());
            }
        };
        self.slots.iter_mut().flatten().for_each(&mut keep);
        others.for_each(keep);
        self.sums.clear();
        kept.into_iter().for_each(|point| self.sums.push(point));
    }

    /// Appends the sums of further segments, listed by `fill`; the sum of segment i becomes point
    /// `table.len() + sums.len()` (before the call) + i.
    pub(crate) fn sum_extra(
        &mut self,
        kernel: K,
        table: &[K::Point],
        fill: impl FnOnce(&mut SegmentList),
    ) {
        self.list.clear();
        fill(&mut self.list);
        self.sum_list(kernel, table);
    }

    fn sum_list(&mut self, kernel: K, table: &[K::Point]) {
        let (sums, fresh) = self.sums.grow(self.list.len(), kernel.identity());
        let points = Points { table, sums };
        sum_segments(kernel, points, &self.list, &mut self.buffers, fresh);
        self.additions += self
            .list
            .iter()
            .map(|segment| segment.len().saturating_sub(1) as u64)
            .sum::<u64>();
    }

    fn step(&mut self, digit: Digit, base: usize) {
        let merge = !digit.merged && (digit.width <= 8 || self.merging_pays(&digit));
        if merge {
            self.merge(&digit, base);
        } else if digit.width <= BITS_WIDTH_MAX {
            self.bits(&digit, base);
        } else {
            self.halve(&digit, base);
        }
    }

    /// Returns whether merging equal values first takes fewer additions than halving at once, by count.
    fn merging_pays(&mut self, digit: &Digit) -> bool {
        let low_mask = (1u16 << (digit.width / 2)) - 1;
        let seen = &mut self.seen;
        seen.clear();
        // Called for more than eight bits only, so there are whole words.
        seen.resize(1usize << (digit.width - 6), 0);
        // Branchless: which values repeat is unpredictable.
        let (mut repeated, mut saved) = (0, 0);
        for item in &self.items[digit.items.clone()] {
            let (word, bit) = (usize::from(item.value >> 6), item.value & 63);
            let again = seen[word] >> bit & 1;
            // To merge a repeat costs an addition, and saves one in each half where its digit is not 0.
            repeated += again;
            saved += again * u64::from(item.value & low_mask != 0);
            saved += again * u64::from(item.value & !low_mask != 0);
            seen[word] |= 1 << bit;
        }
        saved > repeated
    }

    fn merge(&mut self, digit: &Digit, base: usize) {
        let start = self.items_next.len();
        if digit.items.len() < SPARSE_ITEMS << digit.width {
            self.merge_sparse(digit, base);
        } else {
            self.distribute(digit, digit.width, |value| value, base);
        }
        let items = start..self.items_next.len();
        self.digits_next.push(Digit {
            items,
            merged: true,
            ..*digit
        });
    }

    fn halve(&mut self, digit: &Digit, base: usize) {
        let (low, high) = (digit.width / 2, digit.width - digit.width / 2);
        let mask = (1u16 << low) - 1;
        let start = self.items_next.len();
        self.distribute(digit, low, |value| value & mask, base);
        let middle = self.items_next.len();
        self.distribute(digit, high, |value| value >> low, base);
        let end = self.items_next.len();
        let (slot, merged) = (digit.slot, true);
        self.digits_next.push(Digit {
            items: start..middle,
            width: low,
            merged,
            slot,
        });
        let slot = slot + usize::from(low);
        self.digits_next.push(Digit {
            items: middle..end,
            width: high,
            merged,
            slot,
        });
    }

    /// Makes one item per distinct value where few items share a value. The first of them stays in its position
    /// and refers to the sum of all.
    fn merge_sparse(&mut self, digit: &Digit, base: usize) {
        /// A value that has not occurred yet.
        const NEW: u32 = u32::MAX;
        let Self {
            items,
            items_next,
            list,
            places,
            repeats,
            ..
        } = self;
        let items = &items[digit.items.clone()];
        places.clear();
        places.resize(1 << digit.width, NEW);
        let start = items_next.len();
        items_next.resize(start + items.len(), Item::NONE);
        repeats.clear();
        repeats.resize(items.len(), (0, Item::NONE.entry));
        // Every item is written to both lists, and only one of them grows, because the processor cannot predict
        // which values repeat.
        let (mut kept, mut repeated) = (0, 0);
        for item in items {
            let place = &mut places[usize::from(item.value)];
            let new = *place == NEW;
            items_next[start + kept] = *item;
            repeats[repeated] = (*place, item.entry);
            *place = if new { kept as u32 } else { *place };
            kept += usize::from(new);
            repeated += usize::from(!new);
        }
        items_next.truncate(start + kept);
        repeats.truncate(repeated);
        places.clear();
        places.resize(kept, 0);
        for (first, _) in repeats.iter() {
            places[*first as usize] += 1;
        }
        for (first, entry) in repeats.iter() {
            let place = &mut places[*first as usize];
            if *place & BEGUN == 0 {
                let item = &mut items_next[start + *first as usize];
                let at = list.entries.len();
                list.entries.push(item.entry);
                list.entries.resize(at + 1 + *place as usize, *entry);
                list.close();
                item.entry = Entry::new(base + list.len() - 1, false);
                // The first item and this repeat have their slots; the next repeat goes to the third.
                *place = BEGUN | (at as u32 + 2);
            } else {
                list.entries[(*place & !BEGUN) as usize] = *entry;
                *place += 1;
            }
        }
    }

    /// Makes one item per distinct key below 2^`width`. A single entry for a key is kept as it is; several
    /// become a segment and an item that refers to its sum. Key 0 belongs to no column.
    ///
    /// Segments, and the entries in each, stay in the order of the items, so that lanes walking their segments
    /// side by side read the table from neighbouring pages.
    fn distribute(&mut self, digit: &Digit, width: u8, key: impl Fn(u16) -> u16, base: usize) {
        let Self {
            items,
            items_next,
            list,
            places,
            ..
        } = self;
        let items = &items[digit.items.clone()];
        places.clear();
        places.resize(1 << width, 0u32);
        for item in items {
            places[usize::from(key(item.value))] += 1;
        }
        for item in items {
            let value = key(item.value);
            let place = &mut places[usize::from(value)];
            if value == 0 {
                continue;
            }
            if *place == 1 {
                items_next.push(Item {
                    value,
                    entry: item.entry,
                });
            } else if *place & BEGUN == 0 {
                let start = list.entries.len();
                list.entries.resize(start + *place as usize, item.entry);
                list.close();
                items_next.push(Item {
                    value,
                    entry: Entry::new(base + list.len() - 1, false),
                });
                *place = BEGUN | (start as u32 + 1);
            } else {
                list.entries[(*place & !BEGUN) as usize] = item.entry;
                *place += 1;
            }
        }
    }

    fn bits(&mut self, digit: &Digit, base: usize) {
        let Self {
            items,
            list,
            slots,
            targets,
            ..
        } = self;
        for bit in 0..usize::from(digit.width) {
            let before = list.entries.len();
            let chosen = items[digit.items.clone()]
                .iter()
                .filter(|item| item.value >> bit & 1 == 1);
            list.entries.extend(chosen.map(|item| item.entry));
            slots[digit.slot + bit] = match list.entries.len() - before {
                0 => None,
                // A sum of one point is the point itself.
                1 => list.entries.pop(),
                _ => {
                    list.close();
                    targets.push(digit.slot + bit);
                    Some(Entry::new(base + list.len() - 1, false))
                }
            };
        }
    }

    /// Removes sums that are the identity from the next items and from the slots.
    fn drop_infinities(&mut self, table_len: usize) {
        let Self {
            items_next,
            digits_next,
            sums,
            slots,
            targets,
            ..
        } = self;
        let infinite = |entry: &Entry| {
            entry
                .index()
                .checked_sub(table_len)
                .is_some_and(|i| K::is_infinity(&sums.made()[i]))
        };
        let mut kept = 0;
        for digit in digits_next.iter_mut() {
            let start = kept;
            for i in digit.items.clone() {
                if !infinite(&items_next[i].entry) {
                    items_next[kept] = items_next[i];
                    kept += 1;
                }
            }
            digit.items = start..kept;
        }
        items_next.truncate(kept);
        for target in targets.iter() {
            let slot = &mut slots[*target];
            *slot = slot.filter(|entry| !infinite(entry));
        }
    }
}
