//! A payload from any sufficiently many of its shards: `cargo run --release -p alphorn-rlnc --example
//! shards -- 100000` for that many bytes.

use alphorn_rlnc::{Coding, Cut, Distribution, Id, Rs, Strategy, Subject, Weights};
use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::SeedableRng;
use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    let len: usize = std::env::args()
        .nth(1)
        .map_or(Ok(100_000), |text| text.parse())?;
    let payload: Vec<u8> = (0..len).map(|i| (i * 31 + i / 7) as u8).collect();
    let code = Rs::new(1 << 24);
    let subject = Subject {
        kind: 1,
        slot: 7,
        source: 3,
        index: 0,
    };
    let cut = Cut::auto(Strategy::Rs, payload.len());
    let source = code.publish(subject, &payload, cut)?;
    let header = &source.header;
    let mut rng = ChaCha20Rng::seed_from_u64(1);
    let mut weights = Weights::new(&[0; 32], &Id([0; 32]), 0);
    let mut decoder = code.decoder(header);
    let (mut taken, mut bytes) = (0, 0);
    // The last shards, as if all others were lost.
    for index in (0..cut.shards_total).rev() {
        if code.is_full(&decoder) {
            break;
        }
        let drawn = code.draw(&source.decoder, index, Distribution::Fresh, &mut rng);
        let shard = drawn.ok_or("a source has all shards")?;
        bytes += code.piece_bytes(header, &shard);
        let valid = code.verify(header, &(), std::slice::from_ref(&shard), &mut weights);
        assert_eq!(valid.valid, [true], "a shard of the source");
        code.accept(&mut decoder, shard);
        taken += 1;
    }
    let (decoded, _) = code.decode(header, &decoder)?;
    assert_eq!(decoded, payload);
    println!(
        "{len} bytes from {taken} of {} shards, {bytes} bytes on the wire",
        cut.shards_total
    );
    Ok(())
}
