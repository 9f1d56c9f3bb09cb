//! Traces the inputs and outputs of nodes, one record each.

use super::span::Span;
use super::tracer::{Traced, node_name, signed};
use super::{Probe, World};
use crate::role::{Input, Output, Role, Wire};
use alphorn_proto::Peer;
use alphorn_types::trace::{Event, Name, Record};

impl<R: Role, W: Probe<R>> World<R, W> {
    /// From now on traces these nodes in full; `None` stops the trace.
    pub(crate) fn trace(&mut self, of: Option<Traced>) {
        for span in &mut self.spans {
            span.tracer.of = of;
        }
    }

    /// From now on record times count from a genesis this long before the start of the run.
    pub(crate) fn trace_from(&mut self, begin_ns: u64) {
        for span in &mut self.spans {
            span.tracer.begin_ns = begin_ns;
        }
    }

    /// Time up to which the trace is complete.
    pub(crate) fn told_ns(&self) -> u64 {
        self.told.closed_ns
    }

    /// Takes the records since the last call, from nodes and from the probe, up to the end of the last closed
    /// window, in time order.
    pub(crate) fn take_trace(&mut self) -> Vec<Record> {
        std::mem::take(&mut self.told.records)
    }

    /// Sorts the records of a window by time.
    pub(super) fn close_trace(&mut self) {
        self.told.closed_ns = self.now_ns;
        let told = &mut self.told.records;
        let before = told.len();
        // Done at each window, so it does not matter when the trace is taken.
        told.append(&mut self.probe.told(self.now_ns));
        for span in &mut self.spans {
            told.append(&mut span.tracer.records);
        }
        told[before..].sort_by_key(|record| record.t);
    }
}

impl<R: Role> Span<R> {
    #[inline]
    pub(super) fn is_traced(&self, node: u32) -> bool {
        self.tracer.of.is_some_and(|of| of.contains(node))
    }

    #[inline]
    pub(super) fn trace_input(&mut self, node: u32, input: &Input<R>) {
        if self.is_traced(node) {
            self.tell_input(node, input);
        }
    }

    #[inline]
    pub(super) fn trace_output(&mut self, node: u32, output: &Output<R>) {
        if self.is_traced(node) {
            self.tell_output(node, output);
        }
    }

    #[cold]
    fn tell_input(&mut self, node: u32, input: &Input<R>) {
        let (what, from, kind, bytes): (_, _, Name, _) = match input {
            Input::Message { from, message } => (
                "message",
                Some(*from),
                R::Message::KINDS[message.kind()].into(),
                message.wire_bytes(),
            ),
            Input::SendReady { peer } => ("ready", Some(*peer), "".into(), 0),
            Input::PeerUp { peer } => ("peer_up", Some(*peer), "".into(), 0),
            Input::PeerDown { peer } => ("peer_down", Some(*peer), "".into(), 0),
            Input::Finished { end, .. } => ("job", None, format!("{end:?}").into(), 0),
            Input::Deadline => ("deadline", None, "".into(), 0),
            Input::Command(command) => ("command", None, format!("{command:?}").into(), 0),
        };
        let event = Event::Input {
            event: self.events,
            what: what.into(),
            from: from.and_then(|peer| self.number_of(node, peer)),
            kind,
            bytes,
        };
        self.tell(node, event);
    }

    #[cold]
    fn tell_output(&mut self, node: u32, output: &Output<R>) {
        let one = |peer: &Peer| self.number_of(node, *peer).into_iter().collect();
        let (what, to, kind, amount): (_, Vec<u32>, Name, _) = match output {
            Output::Send { to, message, .. } => (
                "send",
                to.iter()
                    .filter_map(|peer| self.number_of(node, peer))
                    .collect(),
                R::Message::KINDS[message.kind()].into(),
                message.wire_bytes(),
            ),
            Output::Cancel { peer, .. } => ("cancel", one(peer), "".into(), 0),
            Output::Spawn { .. } => ("spawn", Vec::new(), "".into(), 0),
            Output::Spend { cost_ns } => ("spend", Vec::new(), "".into(), *cost_ns),
            Output::CancelSession { .. } => ("cancel_session", Vec::new(), "".into(), 0),
            Output::Deliver(delivery) => ("deliver", Vec::new(), format!("{delivery:?}").into(), 0),
            Output::Report { peer, reason } => ("report", one(peer), (*reason).into(), 0),
            Output::Evidence => ("evidence", Vec::new(), "".into(), 0),
        };
        let event = Event::Output {
            event: self.events,
            what: what.into(),
            to,
            kind,
            amount,
        };
        self.tell(node, event);
    }

    /// The node behind a node's own number for a neighbour.
    pub(super) fn number_of(&self, node: u32, peer: Peer) -> Option<u32> {
        let end = self.net.graph.end(node, peer.0)?;
        Some(self.net.graph.peer(end))
    }

    pub(super) fn tell(&mut self, node: u32, event: Event) {
        self.tracer.records.push(Record {
            t: signed(self.now_ns.saturating_add(self.tracer.begin_ns)),
            n: node_name(node).into(),
            event,
        });
    }
}
