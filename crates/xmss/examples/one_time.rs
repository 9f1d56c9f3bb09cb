//! A vote, and why there is no second one in its slot: `cargo run --release -p alphorn-xmss --example
//! one_time`.

use alphorn_exec::Exec;
use alphorn_scheme::{MemoryWatermark, Role, SignItem, Watermark};
use alphorn_types::{Slot, Validator};
use alphorn_xmss::{Item, Purpose, SecretKey, Set, verify};
use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    let backend = alphorn_stark::KERNELS.measured();
    let exec = Exec::new(backend, None);
    // A key that anyone can compute, for 64 slots; its other leaves are padding.
    let key = SecretKey::interop(Set::Compact, Purpose::Vote, 7, 0..64, exec)?;
    let marks = MemoryWatermark::new(8);
    let message = [42; 32];
    let vote = SignItem::new(Validator(7), Role::Vote, message);
    let permit = marks.reserve(Slot(5), &vote)?;
    let signature = key.sign(permit, exec)?;
    let item = Item {
        key: key.public_key(),
        index: 5,
        message: &message,
        signature: &signature,
    };
    println!("valid: {}", verify(item, backend));
    match marks.reserve(Slot(5), &vote) {
        Ok(_) => Err("an index was given out twice".into()),
        Err(refused) => {
            println!("again: {refused}");
            Ok(())
        }
    }
}
