//! Shows a probe what was seen in a window. Nodes run one after the other within a window, so sightings are kept
//! during it and then shown in time order.

use super::seen::{Seen, Sight};
use super::{Probe, World};
use crate::role::Role;

impl<R: Role, W: Probe<R>> World<R, W> {
    /// From now on shows the probe the messages handed to nodes.
    pub(crate) fn show_arrivals(&mut self) {
        for span in &mut self.spans {
            span.arrived = Some(Vec::new());
        }
    }

    /// Shows the probe everything seen since the last call, by time and then by node.
    pub(crate) fn show(&mut self) {
        for span in &mut self.spans {
            for message in span
                .arrived
                .iter_mut()
                .flat_map(|arrived| arrived.drain(..))
            {
                self.probe.arrived(&message);
            }
        }
        let mut seen = std::mem::take(&mut self.spans[0].seen);
        for span in &mut self.spans[1..] {
            seen.append(&mut span.seen);
        }
        // Stable: what a node shows at one instant stays in order.
        seen.sort_by_key(|seen| (seen.now_ns, seen.node));
        for Seen {
            now_ns,
            node,
            sight,
        } in seen.drain(..)
        {
            match sight {
                Sight::Delivered(delivery) => self.probe.delivered(now_ns, node, &delivery),
                Sight::Reported { about, reason } => {
                    self.probe.reported(now_ns, node, about, reason);
                }
                Sight::Evidence => self.probe.evidence(now_ns, node),
            }
        }
        // Keeps the memory for the next window.
        self.spans[0].seen = seen;
    }
}
