//! What a machine of broadcasts keeps, as the allocator counts it, stays below what it says.
#![forbid(unsafe_code)]

use alphorn_broadcast::rlnc::{
    Coding, Distribution, Generators, KERNELS, Published, Ristretto, Rs, Strategy, Subject,
};
use alphorn_broadcast::{Announce, Broadcast, Config, Input, Message, Output, Product, Work};
use alphorn_scheme::JobId;
use alphorn_types::{Peer, Time};
use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use std::alloc::System;
use std::sync::Arc;

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const SUBJECT: Subject = Subject {
    kind: 1,
    slot: 7,
    source: 0,
    index: 0,
};
const NOW: Time = Time::from_millis(1);
const PEERS: u64 = 16;
const PAYLOAD_BYTES: usize = 3_000_000;
/// Tables of peers, queues, and jobs on their way.
const BESIDE_BYTES: u64 = 1 << 20;
/// Pieces that come while a batch is verified: more than are needed of a generation.
const PER_BATCH: u32 = 200;

/// A node that gets pieces faster than it verifies them.
struct Sink<C: Coding> {
    code: C,
    machine: Broadcast<C>,
    jobs: Vec<(JobId, Work<C>)>,
    is_delivered: bool,
    region: Region<'static, System>,
    /// The most that was kept, and the least room that was left below what the machine says.
    most: u64,
    room: i64,
}

impl<C: Coding> Sink<C> {
    fn new(code: C, config: Config) -> Self {
        let region = Region::new(ALLOCATOR);
        let everybody = Arc::new(|_: &Subject| true);
        let mut sink = Sink {
            machine: Broadcast::new(code.clone(), Arc::new(config), everybody, [7; 32]),
            code,
            jobs: Vec::new(),
            is_delivered: false,
            region,
            most: 0,
            room: i64::MAX,
        };
        for peer in (0..PEERS).map(Peer) {
            sink.handle(Input::PeerUp { peer });
        }
        sink
    }

    fn handle(&mut self, input: Input<C>) {
        self.machine.handle(NOW, input);
        while let Some(output) = self.machine.poll_output() {
            match output {
                Output::Spawn { job, work, .. } => self.jobs.push((job, *work)),
                Output::Send { peer, priority, .. } if priority.is_piece() => {
                    self.machine.handle(NOW, Input::SendReady { peer });
                }
                Output::Deliver { .. } => self.is_delivered = true,
                _ => {}
            }
        }
        self.look();
    }

    fn receive(&mut self, from: u64, message: Message<C>) {
        let from = Peer(from);
        self.handle(Input::Message { from, message });
    }

    fn look(&mut self) {
        let change = self.region.change();
        let kept = (change.bytes_allocated - change.bytes_deallocated) as u64;
        self.most = self.most.max(kept);
        let said = self.machine.memory_bytes() + BESIDE_BYTES;
        self.room = self.room.min(said as i64 - kept as i64);
    }

    fn work(&mut self) {
        for (job, work) in std::mem::take(&mut self.jobs) {
            let product = match &work {
                Work::VerifyHeader { .. } => Some(Product::Header(true)),
                work => work.run(&self.code),
            };
            drop(work);
            self.look();
            self.handle(Input::Finished { job, product });
        }
    }
}

/// The most that a node keeps of one broadcast that comes to it from all sides at once.
fn keeps<C: Coding>(code: C) -> u64 {
    let config = Config {
        draw_elements_max: 1 << 12,
        unverified_peer_max: 64,
        ..Config::default()
    };
    let payload: Vec<u8> = (0..PAYLOAD_BYTES).map(|i| (i * 31 % 251) as u8).collect();
    let policy = config.policy_for(PAYLOAD_BYTES as u32);
    let cut = policy.cut(code.strategy(), PAYLOAD_BYTES);
    let source = code.publish(SUBJECT, &payload, cut).unwrap();
    let Published {
        header,
        commitments,
        ..
    } = &source;
    let id = header.id(&[0; 32]);
    let mut sink = Sink::new(code.clone(), config);
    let along = (code.commitment_lists(header) == 1).then(|| commitments[0].clone());
    let announce = Announce::new(&code, id, header.clone(), [0; 8].into(), along);
    sink.receive(0, Message::Header(Arc::new(announce)));
    sink.work();
    let mut rng = ChaCha20Rng::seed_from_u64(1);
    let selectors = match header.strategy {
        Strategy::Rlnc => u32::from(header.generations),
        Strategy::Rs => u32::from(header.shards_total),
    };
    for count in 1_u32.. {
        let selector = (rng.next_u32() % selectors) as u16;
        let piece = code.draw(&source.decoder, selector, Distribution::Fresh, &mut rng);
        let message = Message::piece(&code, header, id, piece.unwrap());
        sink.receive(rng.next_u64() % PEERS, message);
        if count.is_multiple_of(PER_BATCH) {
            sink.work();
        }
        if sink.is_delivered {
            break;
        }
        assert!(count < 20_000, "nothing is delivered");
    }
    let (strategy, most, room) = (header.strategy, sink.most, sink.room);
    println!("{strategy:?}: {most} bytes kept, {room} left");
    assert!(room >= 0, "{strategy:?}: {} bytes too many", -room);
    most
}

/// The most that a node keeps of headers that wait to be verified: every peer makes up as many as may wait
/// of it, and all of them bring one with an authenticator of their own.
fn keeps_of_headers<C: Coding>(code: C, memory_bytes_max: u64) -> u64 {
    let config = Config {
        payload_bytes_max: 4 << 20,
        memory_bytes_max,
        ..Config::default()
    };
    let auth_bytes = usize::from(config.limits.header_auth_bytes_max);
    let payload: Vec<u8> = vec![7; PAYLOAD_BYTES];
    let policy = config.policy_for(PAYLOAD_BYTES as u32);
    let cut = policy.cut(code.strategy(), PAYLOAD_BYTES);
    let source = code.publish(SUBJECT, &payload, cut).unwrap();
    let along = (code.commitment_lists(&source.header) == 1).then(|| source.commitments[0].clone());
    let bytes = |index: u64, peer: u64| {
        let mut header = source.header.clone();
        header.subject.index = index as u32;
        let auth = vec![peer as u8; auth_bytes].into();
        let id = header.id(&[0; 32]);
        let announce = Announce::new(&code, id, header.clone(), auth, along.clone());
        Message::Header(Arc::new(announce)).encode(&code, &header)
    };
    let mut sink = Sink::new(code.clone(), config);
    for index in 0..8 {
        for peer in 0..PEERS {
            for bytes in [bytes(PEERS * index + peer + 1, peer), bytes(0, peer)] {
                let from = Peer(peer);
                if let Ok(message) = sink.machine.decode(from, &bytes) {
                    sink.handle(Input::Message { from, message });
                }
            }
            assert!(sink.machine.memory_bytes() <= memory_bytes_max);
        }
    }
    let (strategy, most, room) = (source.header.strategy, sink.most, sink.room);
    println!("{strategy:?}: {most} bytes kept of headers, {room} left");
    assert!(room >= 0, "{strategy:?}: {} bytes too many", -room);
    most
}

/// One test alone: the allocator counts for the whole process.
#[test]
fn what_is_kept_of_a_broadcast_is_what_is_said() {
    let max = 4 << 20;
    // Above two payloads: the worst is met, and not far below what is said.
    assert!(keeps(Rs::new(max)) > 2 * PAYLOAD_BYTES as u64);
    let generators = Generators::new(KERNELS.measured(), 2_048);
    let ristretto = Ristretto::new(generators, max);
    assert!(keeps(ristretto.clone()) > 2 * PAYLOAD_BYTES as u64);
    // Headers count too, and have a part of the bound that they do not exceed.
    assert!(keeps_of_headers(Rs::new(max), 4 << 30) > 400_000);
    assert!(keeps_of_headers(ristretto.clone(), 4 << 30) > 8_000_000);
    assert!(keeps_of_headers(ristretto, 64 << 20) < (4 << 20) + BESIDE_BYTES);
}
