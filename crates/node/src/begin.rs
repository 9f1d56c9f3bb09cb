//! Where a node starts: at its stored checkpoint, or one that it was given, or at genesis, followed by the later blocks
//! that it verified before.

use crate::blocks::{Blocks, BlocksError};
use crate::record::Recorder;
use alphorn_proto::chain::AnchorError;
use alphorn_proto::horn::Horn;
use alphorn_types::Slot;

/// What startup found.
#[derive(Debug, Default)]
pub(crate) struct Begun {
    /// The final slot at which the chain starts, if that is not genesis.
    pub(crate) checkpoint: Option<Slot>,
    /// Blocks accepted.
    pub(crate) blocks: u64,
    /// Why the stored checkpoint is unusable.
    pub(crate) refused: Option<AnchorError>,
}

/// Restores the roles to the end of the last run: from the later of the stored and the given checkpoint, followed by
/// blocks, oldest first. A block that no longer fits is on an abandoned branch.
pub(crate) fn begin(
    horn: &mut Horn,
    blocks: &Blocks,
    given: Option<&[u8]>,
    mut recorder: Option<&mut Recorder>,
) -> Result<Begun, BlocksError> {
    let mut begun = Begun::default();
    let kept = blocks.checkpoint()?;
    let kept = kept.as_ref().map(|kept| &kept.bytes[..]);
    let mut best: Option<(Slot, &[u8])> = None;
    for bytes in [kept, given].into_iter().flatten() {
        match horn
            .read_anchor(bytes)
            .map(|anchor| anchor.finalised().slot)
        {
            Ok(slot) if best.is_none_or(|(best, _)| slot > best) => best = Some((slot, bytes)),
            Ok(_) => {}
            Err(error) => begun.refused = Some(error),
        }
    }
    if let Some((slot, bytes)) = best {
        match horn.begin_at(bytes) {
            Ok(()) => begun.checkpoint = Some(slot),
            Err(error) => begun.refused = Some(error),
        }
        if let Some(recorder) = &mut recorder {
            recorder.began_at(bytes);
        }
    }
    let mut after = None;
    loop {
        let part = blocks.after(after)?;
        let Some(last) = part.last() else {
            return Ok(begun);
        };
        after = Some((last.slot, last.root));
        for block in part {
            if let Some(recorder) = &mut recorder {
                recorder.restored(&block.data);
            }
            begun.blocks += u64::from(horn.restore(&block.data).is_ok());
        }
    }
}
