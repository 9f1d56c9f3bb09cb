//! Placement of the names of marks, so that all are readable.

use super::{Frame, LETTER, Mark, WIDTH};

/// Marks closer together than this share their name.
const MARK_GAP: f64 = 8.0;

/// Where the name of a mark starts: next to it, or as far to the left as needed to fit in the picture.
pub(super) fn name_at(mark: &Mark, frame: &Frame) -> f64 {
    let width = LETTER * mark.name.chars().count() as f64;
    (frame.at_x(mark.at) + 3.0).min(WIDTH - width).max(0.0)
}

/// Merges marks of one kind that are too close together under one name, at the first of them.
pub(super) fn joined(marks: &[Mark], frame: &Frame) -> Vec<Mark> {
    let mut order: Vec<&Mark> = marks.iter().collect();
    order.sort_by(|a, b| a.at.total_cmp(&b.at));
    let mut names: Vec<Mark> = Vec::new();
    for mark in order {
        let near = |other: &&mut Mark| {
            let gap = frame.at_x(mark.at) - frame.at_x(other.at);
            other.bound == mark.bound && gap < MARK_GAP
        };
        match names.iter_mut().rev().find(near) {
            Some(other) => {
                other.name.push_str(", ");
                other.name.push_str(&mark.name);
            }
            None => names.push(mark.clone()),
        }
    }
    names
}

/// The text line of each mark, chosen so that no name covers another and no mark crosses one: a name is placed
/// above those of the marks that it extends over.
pub(super) fn stagger(marks: &[Mark], frame: &Frame) -> Vec<usize> {
    let mut order: Vec<usize> = (0..marks.len()).collect();
    order.sort_by(|&a, &b| marks[b].at.total_cmp(&marks[a].at));
    let mut rows = vec![0; marks.len()];
    for (done, &i) in order.iter().enumerate() {
        let width = 10.0 + LETTER * marks[i].name.chars().count() as f64;
        let end = name_at(&marks[i], frame) + width;
        let begin = |other: &usize| {
            frame
                .at_x(marks[*other].at)
                .min(name_at(&marks[*other], frame))
        };
        let below = order[..done].iter().filter(|other| begin(other) < end);
        rows[i] = below.map(|&other| rows[other] + 1).max().unwrap_or(0);
    }
    rows
}
