//! How a child process of a prove lane builds its environment, and the child's side.
//!
//! A child gets only public data: scheme and keys from its embedder, and the committees of the
//! prepared epochs. It recreates the key tables itself.

use crate::committees;
use alphorn_scheme::{BRANCHES_MAX, Ctx, EPOCHS_MAX, Env, Scratch, Work};
use alphorn_types::{Assignment, DecodeError, Reader, Writer};
use std::process::ExitCode;
use std::sync::Arc;

/// Maximum bytes for scheme and keys.
const BASE_BYTES_MAX: usize = 256 << 20;
/// Maximum number of key tables: as many as an [`Env`] keeps.
const TABLES_MAX: u32 = (EPOCHS_MAX + BRANCHES_MAX) as u32;

/// The bytes of a child's environment: the embedder's own, then each epoch's committees.
fn encode<'a>(base: &[u8], epochs: impl Iterator<Item = &'a Assignment>) -> Vec<u8> {
    let epochs: Vec<&Assignment> = epochs.collect();
    let mut w = Writer::with_capacity(base.len() + 64);
    w.bytes_u32_prefixed(base);
    w.u32(epochs.len() as u32);
    epochs
        .into_iter()
        .for_each(|assignment| committees::put(&mut w, assignment));
    w.into_vec()
}

/// The inverse of [`encode`].
fn decode(bytes: &[u8]) -> Result<(Vec<u8>, Vec<Assignment>), String> {
    let mut r = Reader::new(bytes);
    let text = |error: DecodeError| error.to_string();
    let base = r.bytes_u32_prefixed(BASE_BYTES_MAX).map_err(text)?.to_vec();
    let count = r.u32_at_most("key tables", TABLES_MAX).map_err(text)?;
    let assignments = (0..count).map(|_| committees::read(&mut r));
    let assignments = assignments.collect::<Result<_, _>>();
    let assignments = assignments.map_err(|error| error.to_string())?;
    r.finish().map_err(text)?;
    Ok((base, assignments))
}

/// The data from which a child builds the same environment: `base`, and the committees of the key
/// tables.
pub(super) fn setup(base: &[u8], env: &Env) -> Arc<[u8]> {
    encode(base, env.assignments()).into()
}

/// Serves the prove lane that started this process, until it closes standard input. `make` builds
/// scheme and registry, without signers, from the bytes that the node passes to its children.
pub fn serve_child(make: impl FnOnce(&[u8]) -> Result<Env, String>) -> ExitCode {
    alphorn_worker::serve_child::<Work>(|setup| environment(setup, make))
}

fn environment(
    setup: &[u8],
    make: impl FnOnce(&[u8]) -> Result<Env, String>,
) -> Result<Env, String> {
    let (base, assignments) = decode(setup)?;
    // The worker verifies its results.
    let mut env = make(&base)?.with_self_verify(false);
    let mut scratch = Scratch::default();
    for assignment in assignments {
        let epoch = assignment.epoch();
        let keys = env.make_keys(&Arc::new(assignment), &mut Ctx::single(&mut scratch));
        let keys = keys.map_err(|error| format!("key table of epoch {}: {error}", epoch.0))?;
        env.insert_keys(epoch, keys);
    }
    Ok(env)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alphorn_scheme::model::{CostTable, Model, ModelRegistry};
    use alphorn_types::{Epoch, Layout};

    fn model(base: &[u8]) -> Result<Env, String> {
        assert_eq!(base, [7, 8]);
        let scheme = Model::new(CostTable::example()).map_err(|error| error.to_string())?;
        let registry = Arc::new(ModelRegistry { validators: 8 });
        Ok(Env::new(Arc::new(scheme), registry, [1; 32]))
    }

    fn assignment(epoch: u64) -> Arc<Assignment> {
        let layout = Layout::new(8, 1, 2).unwrap();
        let members = (0..8).map(|i| (i + epoch as u32) % 8).collect();
        Arc::new(Assignment::new(Epoch(epoch), layout, members).unwrap())
    }

    #[test]
    fn a_child_gets_scheme_and_key_tables() {
        let mut env = model(&[7, 8]).unwrap_or_else(|why| panic!("{why}"));
        for epoch in 1..6 {
            let mut scratch = Scratch::default();
            let made = env.make_keys(&assignment(epoch), &mut Ctx::single(&mut scratch));
            env.insert_keys(Epoch(epoch), made.unwrap());
        }
        let bytes = setup(&[7, 8], &env);
        let there = environment(&bytes, model).unwrap_or_else(|why| panic!("{why}"));
        for epoch in (1..6).map(Epoch) {
            let of = |env: &Env| env.assignment(epoch).cloned();
            assert_eq!(of(&there), of(&env), "{epoch:?}");
            assert_eq!(of(&there).is_some(), epoch > Epoch(2));
        }
        for cut in 0..bytes.len() {
            assert!(decode(&bytes[..cut]).is_err(), "cut at {cut}");
        }
        let mut many = bytes.to_vec();
        many[6] = 10;
        assert!(decode(&many).is_err(), "more tables than are kept");
    }
}
