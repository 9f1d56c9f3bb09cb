//! Rows of a cost table: costs of operations at some sizes, with linear interpolation in between.

use super::error::{ROWS_MAX, SCHEMA, TableError};
use crate::Cost;
use serde::{Deserialize, Serialize};

/// Time and memory of one operation at one size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Row<O> {
    /// The operation.
    pub op: O,
    /// Its first size.
    pub n: u64,
    /// Its second size.
    pub m: u64,
    /// Nanoseconds of one core.
    pub ns: u64,
    /// Peak working memory in bytes.
    pub memory_bytes: u64,
}

/// Checks version, number and order of rows; `others` count as rows.
pub(super) fn check<O: Ord + Copy>(
    schema: u32,
    rows: &[Row<O>],
    others: usize,
) -> Result<(), TableError> {
    if schema != SCHEMA {
        return Err(TableError::Schema(schema));
    }
    if rows.len() + others > ROWS_MAX {
        return Err(TableError::Rows(rows.len() + others));
    }
    let key = |row: &Row<O>| (row.op, row.n, row.m);
    let disorder = |pair: &[Row<O>]| key(&pair[0]) >= key(&pair[1]);
    match rows.windows(2).position(disorder) {
        Some(i) => Err(TableError::Order(i + 1)),
        None => Ok(()),
    }
}

/// Cost of an operation: a line over m for each n of its rows, then a line over n. Zero without rows.
pub(super) fn cost<O: Copy + PartialEq>(rows: &[Row<O>], op: O, n: u64, m: u64) -> Cost {
    let rows: Vec<&Row<O>> = rows.iter().filter(|row| row.op == op).collect();
    let read = |value: fn(&Row<O>) -> u64| {
        let at_m = |group: &[&Row<O>]| {
            let line: Vec<(u64, u64)> = group.iter().map(|row| (row.m, value(row))).collect();
            (group[0].n, interpolate(&line, m))
        };
        let by_n: Vec<(u64, u64)> = rows.chunk_by(|a, b| a.n == b.n).map(at_m).collect();
        interpolate(&by_n, n)
    };
    Cost {
        ns: read(|row| row.ns),
        memory_bytes: read(|row| row.memory_bytes),
    }
}

/// Straight lines between points (ascending in x), continued beyond both ends; a single point holds everywhere. Below
/// the first point it is never less than its proportional share, beyond the last point never less than the last value:
/// a falling line would reach 0, and work would be free. Uses only integers, so every platform charges the same.
pub(super) fn interpolate(points: &[(u64, u64)], x: u64) -> u64 {
    let (a, b) = match points {
        [] => return 0,
        [only] => return only.1,
        _ => {
            let after = points
                .partition_point(|point| point.0 < x)
                .clamp(1, points.len() - 1);
            (points[after - 1], points[after])
        }
    };
    let wide = |value: u64| i128::from(value);
    let (dx, dy) = (wide(b.0) - wide(a.0), wide(b.1) - wide(a.1));
    // Rows ascend, but sizes of evidence may have two points for one number of signers.
    if dx == 0 {
        return a.1;
    }
    // The product of two differences of 64 bits may exceed 127 bits.
    let rise = dy.saturating_mul(wide(x) - wide(a.0)) / dx;
    let least = match x {
        // Not a division by zero, as a.0 exceeds x.
        x if x < a.0 => wide(a.1).saturating_mul(wide(x)) / wide(a.0),
        x if x > b.0 => wide(b.1),
        _ => 0,
    };
    let y = wide(a.1).saturating_add(rise).max(least);
    u64::try_from(y).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_between_points_and_beyond() {
        assert_eq!(interpolate(&[], 5), 0);
        assert_eq!(interpolate(&[(3, 7)], 100), 7);
        let line = [(10, 100), (20, 200), (21, 900)];
        assert_eq!(interpolate(&line, 10), 100);
        assert_eq!(interpolate(&line, 15), 150);
        assert_eq!(interpolate(&line, 20), 200);
        assert_eq!(
            interpolate(&line, 21),
            900,
            "a padding step has a point on both sides"
        );
        assert_eq!(interpolate(&line, 22), 1600);
        assert_eq!(interpolate(&line, 0), 0);
        assert_eq!(
            interpolate(&[(0, 0), (1, u64::MAX)], u64::MAX),
            u64::MAX,
            "saturates"
        );
        assert_eq!(
            interpolate(&[(0, 1), (1, u64::MAX)], u64::MAX),
            u64::MAX,
            "saturates above a value that is not 0"
        );
    }

    #[test]
    fn no_size_is_free() {
        // 4.8 ms of 118,750 bytes and 48 ms of a million: the line is below 0 at 13,000 bytes.
        let steep = [(118_750, 4_800_000), (1_000_000, 48_000_000)];
        assert_eq!(interpolate(&steep, 11_875), 480_000);
        let flat = [(100, 50), (200, 60)];
        assert_eq!(
            interpolate(&flat, 50),
            45,
            "what does not shrink with the size"
        );
        let falling = [(8, 90), (64, 30)];
        assert_eq!(
            (interpolate(&falling, 1), interpolate(&falling, 500)),
            (97, 30)
        );
    }
}
