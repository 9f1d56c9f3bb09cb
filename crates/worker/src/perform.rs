//! One run of a task: the work, the check of its result by the public verifier, and the search for
//! bad inputs. Used by both lane threads and child processes.

use crate::Bisect;
use alphorn_scheme::{Ctx, Task, TaskError};

/// Outcome of a run.
#[derive(Debug)]
pub(crate) enum Made<O> {
    /// A result, with its bytes if it has any.
    Done(O, Option<Vec<u8>>),
    /// Bad inputs, ascending.
    Invalid(Vec<usize>),
    /// It cannot be done here.
    Refused(String),
    /// It was asked to stop.
    Stopped,
    /// The result failed the public verifier although every input is good.
    Faulty,
}

/// Runs a task to its end. Its result is encoded, decoded and passed to the public verifier, and
/// the decoded result is delivered: nothing unverified leaves the worker.
pub(crate) fn perform<T: Task>(
    task: &T,
    env: &T::Env,
    seed: u64,
    ctx: &mut Ctx<'_, T::Scratch>,
) -> Made<T::Output> {
    if ctx.checkpoint().is_err() {
        return Made::Stopped;
    }
    // A proof is expensive: its inputs are tested first.
    if task.isolate(env)
        && let Some(bad) = bad_inputs(task, env, seed, ctx)
        && !bad.is_empty()
    {
        return Made::Invalid(bad);
    }
    if ctx.stopped() {
        return Made::Stopped;
    }
    let output = match task.run(env, ctx) {
        Ok(output) => output,
        Err(TaskError::Stopped) => return Made::Stopped,
        Err(TaskError::Invalid(bad)) => return Made::Invalid(bad),
        Err(TaskError::Refused(reason)) => return Made::Refused(reason),
        Err(TaskError::SelfVerifyFailed) => return Made::Faulty,
    };
    let bytes = task.encode_output(&output);
    let read = match &bytes {
        Some(bytes) => task.decode_output(bytes).ok(),
        None => Some(output),
    };
    if let Some(read) = read
        && task.verify_output(env, &read, ctx)
    {
        return Made::Done(read, bytes);
    }
    // A verifier that was stopped gives no information about the result, nor a search about the
    // inputs.
    if ctx.stopped() {
        return Made::Stopped;
    }
    let bad = bad_inputs(task, env, seed, ctx);
    match bad {
        _ if ctx.stopped() => Made::Stopped,
        Some(bad) if !bad.is_empty() => Made::Invalid(bad),
        Some(_) | None => Made::Faulty,
    }
}

/// The bad inputs of a task, ascending: as found by the task itself, or by group tests in an order
/// drawn from `seed`. None if its inputs cannot be tested, or if it was stopped.
fn bad_inputs<T: Task>(
    task: &T,
    env: &T::Env,
    seed: u64,
    ctx: &mut Ctx<'_, T::Scratch>,
) -> Option<Vec<usize>> {
    let inputs = task.features(env).inputs;
    if inputs == 0 {
        return Some(Vec::new());
    }
    let prepared = task.prepare(env, ctx)?;
    if let Some(bad) = task.locate(env, &prepared, ctx) {
        return (!ctx.stopped()).then_some(bad);
    }
    ctx.checkpoint().ok()?;
    // Usually all are good, and then nothing has to be prepared in another order.
    if task.check(env, &prepared, 0..inputs as usize) {
        return Some(Vec::new());
    }
    let mut search = Bisect::new(inputs, seed);
    let shuffled = task.prepare_in(env, search.order(), ctx);
    if shuffled.is_none() {
        search = Bisect::in_order(inputs);
    }
    let prepared = shuffled.unwrap_or(prepared);
    while let Some(range) = search.next() {
        ctx.checkpoint().ok()?;
        search.answer(task.check(env, &prepared, range));
    }
    Some(search.bad().into_iter().map(|i| i as usize).collect())
}
