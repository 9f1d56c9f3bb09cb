//! The costs of all coding operations, per kernel level, beside curve25519-dalek in the same process.
//!
//! ```text
//! cargo run --release -p alphorn-rlnc --example bench -- [CHUNKS] [ELEMENTS]
//! ```
//!
//! Default 10 chunks of 380 elements: the 118.75 KiB of the published proof of concept
//! (ethresear.ch 21370), whose constants are printed as cited. Columns are the least and the median time of
//! at least 30 runs in microseconds; ratios compare least times, which a busy machine disturbs least.

use std::hint::black_box;
use std::time::{Duration, Instant};

use alphorn_rlnc::{
    Backend, Chunk, Coding, Cut, Generators, Header, Law, Published, Ristretto, Row, Rs, Scalar,
    Subject, Weights,
};
use curve25519_dalek::ristretto::{
    CompressedRistretto, RistrettoPoint, VartimeRistrettoPrecomputation,
};
use curve25519_dalek::scalar::Scalar as DalekScalar;
use curve25519_dalek::traits::{MultiscalarMul, VartimePrecomputedMultiscalarMul};
use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

type Error = Box<dyn std::error::Error>;
type Piece = <Ristretto as Coding>::Piece;

const SUBJECT: Subject = Subject {
    kind: 1,
    slot: 1,
    source: 1,
    index: 0,
};
const SAMPLES_MIN: usize = 30;
const TIME_PER_OP: Duration = Duration::from_millis(250);

/// What the proof of concept takes (measured by this project's authors on a 2-core Zen 5, not here).
const CITED: [(&str, f64); 5] = [
    ("propose", 26_500.0),
    ("verify 1", 2_810.0),
    ("recode", 332.0),
    ("decode", 3_540.0),
    ("receive all", 31_000.0),
];

/// Microseconds.
#[derive(Clone, Copy)]
struct Times {
    least: f64,
    median: f64,
}

impl Times {
    fn scaled(self, factor: f64) -> Times {
        Times {
            least: self.least * factor,
            median: self.median * factor,
        }
    }

    fn plus(self, other: Times) -> Times {
        Times {
            least: self.least + other.least,
            median: self.median + other.median,
        }
    }
}

/// The times of `op` over inputs that `prepare` makes outside the clock.
fn measure<I, O>(mut prepare: impl FnMut() -> I, mut op: impl FnMut(&I) -> O) -> Times {
    let mut samples = Vec::new();
    let start = Instant::now();
    let warm = prepare();
    black_box(op(&warm));
    while samples.len() < SAMPLES_MIN || start.elapsed() < TIME_PER_OP {
        let input = prepare();
        let before = Instant::now();
        black_box(op(&input));
        samples.push(before.elapsed().as_secs_f64() * 1e6);
    }
    samples.sort_by(f64::total_cmp);
    Times {
        least: samples[0],
        median: samples[samples.len() / 2],
    }
}

struct Bench {
    chunks: u16,
    payload: Vec<u8>,
    rng: ChaCha20Rng,
}

impl Bench {
    fn new(chunks: u16, elements: u32) -> Bench {
        let mut payload = vec![0; 31 * usize::from(chunks) * elements as usize];
        let mut rng = ChaCha20Rng::seed_from_u64(1);
        rng.fill_bytes(&mut payload);
        Bench {
            chunks,
            payload,
            rng,
        }
    }

    fn weights(&mut self) -> Weights {
        Weights::new(&[1; 32], &alphorn_rlnc::Id([0; 16]), self.rng.next_u64())
    }

    /// All operations of the random linear code with one kernel level.
    fn rlnc(&mut self, backend: Backend, elements: u32) -> Result<Vec<(String, Times)>, Error> {
        let mut out: Vec<(String, Times)> = Vec::new();
        let mut note = |name: &str, us: Times| out.push((name.to_owned(), us));
        let start = Instant::now();
        let generators = Generators::new(backend, elements);
        let us = start.elapsed().as_secs_f64() * 1e6;
        note(
            "tables build (once)",
            Times {
                least: us,
                median: us,
            },
        );
        let code = Ristretto::new(generators, 32 << 20);
        let cut = Cut::rlnc(self.chunks);
        let payload = self.payload.clone();
        let us = measure(
            || (),
            |()| code.publish(SUBJECT, &payload, cut).map(|p| p.header),
        );
        note("propose", us);

        let source = code.publish(SUBJECT, &payload, cut)?;
        let Published {
            header,
            anchors,
            basket,
        } = &source;
        let mut draw_rng = ChaCha20Rng::seed_from_u64(2);
        let mut draw = || {
            code.draw(basket, 0, Law::Fresh, &mut draw_rng)
                .expect("a full basket")
        };
        let full = usize::from(self.chunks);
        for count in [1, 2, full, 64] {
            let us = measure(
                || (0..count).map(|_| draw()).collect::<Vec<Piece>>(),
                |pieces| {
                    code.verify(header, &anchors[0], pieces, &mut self.weights())
                        .sums
                },
            );
            note(&format!("verify {count}"), us);
        }
        let us = measure(
            || {
                let mut pieces: Vec<Piece> = (0..full).map(|_| draw()).collect();
                pieces[full / 2] = spoiled(&pieces[full / 2]);
                pieces
            },
            |pieces| {
                code.verify(header, &anchors[0], pieces, &mut self.weights())
                    .sums
            },
        );
        note(&format!("verify {full}, one bad"), us);

        self.coding(&code, &source, &mut draw, &mut note);
        Ok(out)
    }

    /// The operations that need no more than linear algebra, and all of them together.
    fn coding(
        &mut self,
        code: &Ristretto,
        source: &Published<Ristretto>,
        mut draw: impl FnMut() -> Piece,
        mut note: impl FnMut(&str, Times),
    ) {
        let (header, full) = (&source.header, usize::from(self.chunks));
        let relay = filled(code, header, &mut draw);
        let mut rng = ChaCha20Rng::seed_from_u64(3);
        let us = measure(|| (), |()| code.draw(&relay, 0, Law::Fresh, &mut rng));
        note("recode", us);
        let us = measure(
            || (0..full).map(|_| draw()).collect::<Vec<Piece>>(),
            |pieces| {
                let mut basket = code.basket(header);
                pieces
                    .iter()
                    .filter(|&piece| code.accept(&mut basket, piece.clone()))
                    .count()
            },
        );
        note("echelon, all inserts", us);
        let us = measure(
            || (),
            |()| code.decode(header, &relay).map(|(payload, _)| payload),
        );
        note("decode", us);
        let us = measure(
            || encoded(code, header, (0..2 * full).map(|_| draw()).collect()),
            |bodies| receive(code, source, bodies, &mut self.weights()),
        );
        note("receive all", us);
    }

    /// The same sums with curve25519-dalek: name, plain, precomputed.
    fn dalek(&mut self, elements: usize) -> Vec<(&'static str, Times, Option<Times>)> {
        let chunks = usize::from(self.chunks);
        let mut rng = ChaCha20Rng::seed_from_u64(4);
        let mut scalars = |count: usize| -> Vec<DalekScalar> {
            (0..count)
                .map(|_| dalek_scalar(Scalar::random(&mut rng)))
                .collect()
        };
        let points: Vec<RistrettoPoint> = scalars(elements)
            .iter()
            .map(RistrettoPoint::mul_base)
            .collect();
        let commitments: Vec<RistrettoPoint> = scalars(chunks)
            .iter()
            .map(RistrettoPoint::mul_base)
            .collect();
        let table = VartimeRistrettoPrecomputation::new(&points);
        let all: Vec<RistrettoPoint> = points.iter().chain(&commitments).copied().collect();

        let commit_plain = measure(
            || scalars(elements),
            |s| RistrettoPoint::multiscalar_mul(s, &points),
        );
        let commit_table = measure(|| scalars(elements), |s| table.vartime_multiscalar_mul(s));
        let verify_plain = measure(
            || scalars(elements + chunks),
            |s| RistrettoPoint::multiscalar_mul(s, &all),
        );
        let mixed = |s: &Vec<DalekScalar>| {
            table.vartime_mixed_multiscalar_mul(&s[..elements], &s[elements..], &commitments)
        };
        let verify_table = measure(|| scalars(elements + chunks), mixed);
        let rows: Vec<Vec<DalekScalar>> = (0..chunks).map(|_| scalars(elements)).collect();
        let combine = |factors: &Vec<DalekScalar>| -> Vec<DalekScalar> {
            let element = |j| factors.iter().zip(&rows).map(|(f, row)| f * row[j]).sum();
            (0..elements).map(element).collect()
        };
        let recode = measure(|| scalars(chunks), combine);
        let batch = verify_table.plus(recode);
        vec![
            (
                "propose",
                commit_plain.scaled(f64::from(self.chunks)),
                Some(commit_table.scaled(f64::from(self.chunks))),
            ),
            ("verify 1", verify_plain, Some(verify_table)),
            ("verify 10", verify_plain.scaled(10.0), Some(batch)),
            ("recode", recode, None),
        ]
    }

    fn rs(&mut self) -> Result<Vec<(&'static str, Times)>, Error> {
        let code = Rs::new(32 << 20);
        let payload = self.payload.clone();
        let cut = Cut::auto(code.strategy(), payload.len());
        let propose = measure(
            || (),
            |()| code.publish(SUBJECT, &payload, cut).map(|p| p.header),
        );
        let source = code.publish(SUBJECT, &payload, cut)?;
        let mut rng = ChaCha20Rng::seed_from_u64(5);
        let total = cut.shards_total;
        let mut draw = |index| code.draw(&source.basket, index, Law::Fresh, &mut rng);
        let shards: Vec<_> = (total - cut.chunks..total).filter_map(&mut draw).collect();
        let mut weights = self.weights();
        let verify = measure(
            || (),
            |()| code.verify(&source.header, &(), &shards, &mut weights),
        );
        let mut basket = code.basket(&source.header);
        for shard in &shards {
            code.accept(&mut basket, shard.clone());
        }
        let decode = measure(
            || (),
            |()| code.decode(&source.header, &basket).map(|(p, _)| p),
        );
        Ok(vec![
            ("propose", propose),
            ("verify a shard", verify.scaled(1.0 / shards.len() as f64)),
            ("decode, re-encoded and checked", decode),
        ])
    }
}

fn dalek_scalar(scalar: Scalar) -> DalekScalar {
    DalekScalar::from_canonical_bytes(scalar.to_bytes()).expect("canonical")
}

/// The chunk with one element changed.
fn spoiled(piece: &Piece) -> Piece {
    let mut chunk = Chunk::clone(piece);
    chunk.data.set(0, chunk.data.get(0) + Scalar::ONE);
    Piece::new(chunk)
}

/// A relay of full rank that has not decoded.
fn filled(
    code: &Ristretto,
    header: &Header,
    mut draw: impl FnMut() -> Piece,
) -> <Ristretto as Coding>::Basket {
    let mut basket = code.basket(header);
    while !code.is_full(&basket) {
        code.accept(&mut basket, draw());
    }
    basket
}

fn encoded(code: &Ristretto, header: &Header, pieces: Vec<Piece>) -> Vec<Vec<u8>> {
    let encode = |piece: &Piece| {
        let mut body = Vec::new();
        code.encode_piece(header, piece, &mut body);
        body
    };
    pieces.iter().map(encode).collect()
}

/// From bytes to the payload: parse, test for rank, verify in one batch, insert, decode.
fn receive(
    code: &Ristretto,
    source: &Published<Ristretto>,
    bodies: &[Vec<u8>],
    weights: &mut Weights,
) -> Option<Vec<u8>> {
    let mut basket = code.basket(&source.header);
    let mut pieces = Vec::new();
    for body in bodies {
        let piece = code.decode_piece(&source.header, body).ok()?;
        if code.offer(&mut basket, &piece) == alphorn_rlnc::Standing::Innovative {
            pieces.push(piece);
        }
        if pieces.len() == usize::from(source.header.chunks) {
            break;
        }
    }
    let verdicts = code.verify(&source.header, &source.anchors[0], &pieces, weights);
    for (piece, valid) in pieces.into_iter().zip(verdicts.valid) {
        if valid {
            code.accept(&mut basket, piece);
        }
    }
    code.decode(&source.header, &basket)
        .ok()
        .map(|(payload, _)| payload)
}

/// Checks once that dalek and we compute the same commitment, so that the columns compare like with like.
fn agree(elements: u32) -> Result<(), Error> {
    let generators = Generators::new(Backend::portable(), elements);
    let mut rng = ChaCha20Rng::seed_from_u64(6);
    let scalars: Vec<Scalar> = (0..elements).map(|_| Scalar::random(&mut rng)).collect();
    let unit = |j: usize| {
        let mut row = Row::zero(elements as usize);
        row.set(j, Scalar::ONE);
        CompressedRistretto(generators.commit(&[&row])[0])
            .decompress()
            .ok_or("not a point")
    };
    let points: Vec<RistrettoPoint> = (0..elements as usize).map(unit).collect::<Result<_, _>>()?;
    let theirs =
        RistrettoPoint::multiscalar_mul(scalars.iter().copied().map(dalek_scalar), &points);
    let ours = generators.commit(&[&Row::from_scalars(&scalars)])[0];
    if theirs.compress().to_bytes() == ours {
        Ok(())
    } else {
        Err("commitments differ".into())
    }
}

fn main() -> Result<(), Error> {
    let mut arguments = std::env::args().skip(1);
    let chunks: u16 = arguments.next().as_deref().unwrap_or("10").parse()?;
    let elements: u32 = arguments.next().as_deref().unwrap_or("380").parse()?;
    agree(elements.min(20))?;
    let mut bench = Bench::new(chunks, elements);
    println!(
        "{chunks} chunks of {elements} elements, {} payload bytes",
        bench.payload.len()
    );
    println!("microseconds, measured here unless it says cited");

    let dalek = bench.dalek(elements as usize);
    println!(
        "\n{:<32}{:>12}{:>12}",
        "curve25519-dalek", "least", "median"
    );
    for (name, plain, table) in &dalek {
        print_times(&format!("{name}, plain"), *plain);
        if let Some(table) = table {
            print_times(&format!("{name}, precomputed"), *table);
        }
    }
    for backend in Backend::available() {
        let head = ("least", "median", "dalek/ours", "PoC, cited");
        let (a, b, c, d) = head;
        println!("\n{:<32}{a:>12}{b:>12}{c:>12}{d:>12}", backend.name());
        for (name, us) in bench.rlnc(backend, elements)? {
            let peer = dalek.iter().find(|(other, ..)| *other == name);
            let ratio = peer.map(|(_, plain, table)| table.unwrap_or(*plain).least / us.least);
            let like = (chunks, elements) == (10, 380);
            let cited = CITED.iter().find(|(other, _)| like && *other == name);
            let cell = |value: Option<f64>, digits: usize| {
                value.map_or("-".to_owned(), |value| format!("{value:.digits$}"))
            };
            println!(
                "{name:<32}{:>12.1}{:>12.1}{:>12}{:>12}",
                us.least,
                us.median,
                cell(ratio, 1),
                cell(cited.map(|(_, us)| *us), 0)
            );
        }
    }
    println!("\n{:<32}{:>12}{:>12}", "reed-solomon", "least", "median");
    for (name, us) in bench.rs()? {
        print_times(name, us);
    }
    Ok(())
}

fn print_times(name: &str, us: Times) {
    println!("{name:<32}{:>12.1}{:>12.1}", us.least, us.median);
}
