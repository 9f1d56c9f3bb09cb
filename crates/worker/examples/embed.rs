//! A foreign client with its own loop: open a session, submit, receive.
//!
//! Its scheme multiplies: an input is a number, a result the product, zero is a bad signature.

use alphorn_scheme::{Class, Ctx, Features, Group, Outcome, SessionId, Task, TaskError};
use alphorn_types::{DecodeError, Slot};
use alphorn_worker::{Request, Session, Worker, WorkerConfig, steady_time};
use std::ops::Range;
use std::time::Duration;

struct Product(Vec<u64>);

#[rustfmt::skip]
impl Task for Product {
    type Env = ();
    type Output = u64;
    type Scratch = ();
    type Prepared = Vec<u64>;

    fn features(&self, (): &()) -> Features {
        let inputs = self.0.len() as u32;
        Features { kind: 0, class: 0, inputs, prior_ns: 1000 * u64::from(inputs), memory_bytes: 0 }
    }
    fn part(&self, inputs: Range<usize>) -> Option<Self> { self.0.get(inputs).map(|part| Product(part.to_vec())) }
    fn run(&self, (): &(), ctx: &mut Ctx<'_, ()>) -> Result<u64, TaskError> {
        ctx.checkpoint()?;
        Ok(self.0.iter().fold(1, |product, input| product.wrapping_mul(*input)))
    }
    fn prepare(&self, (): &(), _: &mut Ctx<'_, ()>) -> Option<Vec<u64>> { Some(self.0.clone()) }
    fn check(&self, (): &(), inputs: &Vec<u64>, range: Range<usize>) -> bool { !inputs[range].contains(&0) }
    fn locate(&self, (): &(), _: &Vec<u64>, _: &mut Ctx<'_, ()>) -> Option<Vec<usize>> { None }
    fn verify_output(&self, (): &(), output: &u64, _: &mut Ctx<'_, ()>) -> bool { *output != 0 }
    fn isolate(&self, (): &()) -> bool { false }
    fn encode(&self) -> Option<Vec<u8>> { None }
    fn decode(_: &[u8]) -> Result<Self, DecodeError> {
        Err(DecodeError::Missing { what: "bytes of a product" })
    }
}

pub(crate) fn main() {
    let this = std::thread::current();
    let (time, config) = (steady_time(), WorkerConfig::for_this_machine());
    let worker = Worker::start((), config, time.clone(), move || this.unpark());
    let worker: Worker<Product> = worker.expect("threads can be started");
    let open = time();
    let soft = open.saturating_add_ns(800_000_000);
    let hard = open.saturating_add_ns(20_000_000_000);
    let (slot, message, subcommittee) = (Slot(1), [1; 32], None);
    let id = SessionId { slot, seq: 0 };
    #[rustfmt::skip]
    worker.open(Session { id, open, soft, hard }).expect("the first session");
    for (committee, inputs) in [vec![2, 3, 7], vec![5, 0, 11, 0]].into_iter().enumerate() {
        let committee = Some(committee as u16);
        let (votes, bytes) = (inputs.len() as u32, 8 * inputs.len() as u64);
        let (replaces, class, work) = (Some(0), Class::Current, Product(inputs));
        #[rustfmt::skip]
        let group = Group { slot, message, committee, subcommittee };
        #[rustfmt::skip]
        let request = Request { client: 0, session: id, group, replaces, class, soft, hard, votes, bytes, work };
        worker.submit(request).expect("an empty queue has room");
    }
    let mut results = [None, None];
    while results.contains(&None) {
        // The client's own loop: here it does its other duties.
        std::thread::park_timeout(Duration::from_millis(100));
        while let Some(finished) = worker.try_recv() {
            results[usize::from(finished.group.committee.unwrap_or(0))] = Some(finished.outcome);
        }
    }
    assert_eq!(results[0], Some(Outcome::Done(42)));
    assert_eq!(results[1], Some(Outcome::Invalid(vec![1, 3])));
    println!("{results:?} after {:?}", worker.status().counts);
}
