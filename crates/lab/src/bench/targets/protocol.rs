//! Rows of the protocol: bytes of coded collections, votes lost to griefing, a whole slot.

use super::super::codec;
use super::{Args, Row, Unit};
use crate::error::Result;
use crate::horn;
use crate::progress::Bars;
use crate::slot;
use std::time::Instant;

/// KiB of the 512 coded collections of a slot, and milliseconds of decoding them.
const CODED: (f64, f64) = (80.0, 25.0);
/// Honest votes lost at most with each rule; none for what stands beside them.
const LOST: [(&str, Option<f64>); 3] = [
    ("quorum3", Some(0.0025)),
    ("union", Some(0.0)),
    ("best1", None),
];
/// A whole slot with cached keys, in seconds.
const SLOT_S: f64 = 100.0;

/// All rows, none of which depends on the kernel of a comparison.
pub(super) fn rows(args: &Args, bars: &mut Bars) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    bars.show("codes", 0, 3);
    for share in [0.95, 0.99] {
        let coded = codec::coded(&args.common, args.validators, share, args.runs)?;
        let name = |what: &str| {
            format!(
                "{} collections {what}, chain context, {} %",
                coded.collections,
                share * 100.0
            )
        };
        rows.push(Row {
            agrees: coded.equal,
            ..Row::plain(name("coded"), Unit::Kib, coded.kib, args.of_horn(CODED.0))
        });
        let decode_s = coded.decode_ms * 1e-3;
        rows.push(Row::plain(
            name("decoded"),
            Unit::Seconds,
            decode_s,
            args.of_horn(CODED.1 * 1e-3),
        ));
    }
    bars.show("griefing", 1, 3);
    for (attack, splits) in [("simple", vec![1]), ("split", vec![2, 3, 4, 6])] {
        for (rule, loss) in horn::griefing_losses(&args.common, splits)? {
            let target = LOST.iter().find(|(name, _)| *name == rule);
            rows.push(Row::plain(
                format!("honest votes lost, {attack} attack, {rule}"),
                Unit::Share,
                loss,
                target.and_then(|(_, target)| *target),
            ));
        }
    }
    if args.slot {
        bars.show("slot", 2, 3);
        rows.push(whole_slot(args)?);
    }
    Ok(rows)
}

fn whole_slot(args: &Args) -> Result<Row> {
    // One kernel is enough for a run of minutes: the last of the list.
    let kernels = args.common.kernels(&alphorn_bls::KERNELS)?;
    let common = match kernels.last() {
        Some(&kernel) => args.common.on(kernel),
        None => args.common.clone(),
    };
    let slot = slot::Args::sized(common, args.validators);
    let clock = Instant::now();
    let executed = slot::execute(&slot)?;
    let whole_s = clock.elapsed().as_secs_f64();
    Ok(Row {
        threads: args.common.threads()?,
        agrees: executed.check().is_ok(),
        ..Row::plain(
            "whole slot, every vote signed and verified",
            Unit::Seconds,
            whole_s,
            args.of_horn(SLOT_S),
        )
    })
}
