//! Bodies, jobs and shares, without a socket.

use crate::book::{Asked, Book, Limits, digest_of};
use crate::job::{About, Entry, Env, Job, Kind, Output, Votes, Work};
use crate::json as texts;
use crate::registry::{Digest, Registry};
use crate::ssz;
use crate::tokens::Tokens;
use alphorn_exec::{Backend, Exec};
use alphorn_scheme::{
    Ctx, Group, JobId, MemoryWatermark, Outcome, Role, SessionId, SignItem, Task, TaskError,
    Watermark,
};
use alphorn_types::{Bitfield, Slot, Validator};
use alphorn_worker::{Finished, Timing};
use alphorn_xmss::{Purpose, SecretKey, Set};
use axum::body::Bytes;
use axum::http::StatusCode;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

mod shares;

const MEMBERS: u32 = 6;
const SET: Set = Set::Test;

/// A committee, and its signatures over two messages.
struct World {
    registry: Arc<Registry>,
    /// By message, then by member.
    signatures: [Vec<Vec<u8>>; 2],
}

fn exec() -> Exec<'static> {
    Exec::new(alphorn_stark::KERNELS.measured(), None)
}

fn env() -> Env {
    Env::new(alphorn_stark::KERNELS.measured())
}

static WORLD: LazyLock<World> = LazyLock::new(|| {
    let keys =
        (0..MEMBERS).map(|i| SecretKey::interop(SET, Purpose::Vote, i, 0..8, exec()).unwrap());
    let keys: Vec<SecretKey> = keys.collect();
    let bytes: Vec<u8> = keys
        .iter()
        .flat_map(|key| key.public_key().to_bytes())
        .collect();
    let registry = Registry::new(SET, 0, bytes.into()).unwrap();
    registry.committed(exec()).unwrap();
    let signatures = [0, 1].map(|which| {
        let marks = MemoryWatermark::new(MEMBERS);
        let sign = |(i, key): (u32, &SecretKey)| {
            let slot = slot(which);
            let item = SignItem::new(Validator(i), Role::Vote, message(which));
            let permit = marks.reserve(Slot(slot.into()), &item).unwrap();
            key.sign(permit, exec()).unwrap().to_bytes()
        };
        (0..).zip(&keys).map(sign).collect()
    });
    World {
        registry: Arc::new(registry),
        signatures,
    }
});

fn slot(which: usize) -> u32 {
    3 + which as u32
}

fn message(which: usize) -> [u8; 32] {
    [0x41 + which as u8; 32]
}

fn about(which: usize) -> About {
    About {
        registry: WORLD.registry.clone(),
        slot: slot(which),
        message: message(which),
    }
}

fn bits(positions: &[usize]) -> Bitfield {
    let mut bits = Bitfield::new(MEMBERS as usize);
    positions.iter().for_each(|position| bits.set(*position));
    bits
}

fn cast(which: usize, positions: &[usize]) -> Votes {
    let signatures = positions.iter();
    let signatures = signatures.map(|position| WORLD.signatures[which][*position].clone());
    Votes {
        about: about(which),
        participants: bits(positions),
        signatures: signatures.collect::<Vec<_>>().concat().into(),
    }
}

fn entry(which: usize, positions: &[usize], proof: &[u8]) -> Entry {
    Entry {
        about: about(which),
        participants: bits(positions),
        proof: Bytes::copy_from_slice(proof),
    }
}

fn lookup(digest: &Digest) -> Option<Arc<Registry>> {
    (*digest == WORLD.registry.digest).then(|| WORLD.registry.clone())
}

fn run(work: Work) -> Result<Output, TaskError> {
    let job = Job { work, cut: false };
    let mut scratch = ();
    let output = job.run(&env(), &mut Ctx::single(&mut scratch))?;
    assert!(job.verify_output(&env(), &output, &mut Ctx::single(&mut scratch)));
    Ok(output)
}

fn made(work: Work) -> Vec<u8> {
    match run(work) {
        Ok(Output::Proof(proof)) => proof,
        other => panic!("no proof: {other:?}"),
    }
}

/// One of each kind. The proofs here are not valid, which cannot be found out by only reading a body.
fn works() -> Vec<Work> {
    let entries = || vec![entry(0, &[0, 2], &[1, 7]), entry(0, &[5], &[1])];
    let bare = || vec![entry(0, &[0, 2], &[]), entry(1, &[5], &[])];
    let proof = Bytes::from_static(&[9; 40]);
    vec![
        Work::Prove(cast(0, &[1, 4])),
        Work::VerifySignatures(cast(1, &[0])),
        Work::Merge(entries()),
        Work::Bundle(entries()),
        Work::Verify(entries()),
        Work::Split {
            entries: bare(),
            proof: proof.clone(),
            kept: 1,
        },
        Work::VerifyBundle {
            entries: bare(),
            proof,
        },
    ]
}

fn kept(work: &Work) -> usize {
    match work {
        Work::Split { kept, .. } => *kept,
        _ => 0,
    }
}

fn hex0x(bytes: &[u8]) -> String {
    format!("0x{}", hex::encode(bytes))
}

/// Returns the body of a work in JSON.
fn in_json(work: &Work) -> Value {
    let about = |about: &About, participants: &Bitfield| {
        json!({
            "registry": hex0x(&about.registry.digest),
            "slot": about.slot,
            "message": hex0x(&about.message),
            "participants": participants.iter_ones().collect::<Vec<_>>(),
        })
    };
    let entries = |entries: &[Entry]| {
        let entries = entries.iter().map(|one| {
            let mut answer = about(&one.about, &one.participants);
            if !one.proof.is_empty() {
                answer["proof_data"] = json!(hex0x(&one.proof));
            }
            answer
        });
        entries.collect::<Vec<Value>>()
    };
    match work {
        Work::Prove(votes) | Work::VerifySignatures(votes) => {
            let mut answer = about(&votes.about, &votes.participants);
            let each = votes.signatures.chunks(SET.params().signature_bytes);
            answer["signatures"] = json!(each.map(hex0x).collect::<Vec<_>>());
            answer
        }
        Work::Merge(some) | Work::Bundle(some) | Work::Verify(some) => {
            json!({"entries": entries(some)})
        }
        Work::Split {
            entries: some,
            proof,
            ..
        }
        | Work::VerifyBundle {
            entries: some,
            proof,
        } => {
            json!({"entries": entries(some), "proof_data": hex0x(proof)})
        }
    }
}

#[test]
fn bodies_in_ssz_and_json_say_the_same() {
    for work in works() {
        let kind = Job {
            work: work.clone(),
            cut: false,
        }
        .kind();
        let body = Bytes::from(ssz::encode(&work));
        let read = ssz::decode(kind, &body, kept(&work), &lookup).unwrap();
        assert_eq!(ssz::encode(&read), body, "{}", kind.name());
        let text = in_json(&work).to_string();
        let read = texts::decode(kind, text.as_bytes(), kept(&work), &lookup).unwrap();
        assert_eq!(ssz::encode(&read), body, "{}", kind.name());
        for cut in 0..body.len() {
            let short = body.slice(..cut);
            if let Ok(read) = ssz::decode(kind, &short, kept(&work), &lookup) {
                // The length of the last proof follows from that of its body.
                assert_eq!(ssz::encode(&read), short, "{} cut at {cut}", kind.name());
            }
        }
        for at in 0..body.len() {
            for bit in 0..8 {
                let mut changed = body.to_vec();
                changed[at] ^= 1 << bit;
                let changed = Bytes::from(changed);
                if let Ok(read) = ssz::decode(kind, &changed, kept(&work), &lookup) {
                    // A bitlist may be shorter than its registry, and is then padded.
                    assert!(ssz::encode(&read).len() >= changed.len());
                }
            }
        }
    }
}

/// Randomly edited bodies, and bodies of one kind sent as another: an answer or a reason, never a
/// panic, and accepted ones encode to the same SSZ again.
#[test]
fn edited_bodies_are_answered_or_refused() {
    use rand_chacha::ChaCha8Rng;
    use rand_chacha::rand_core::{Rng, SeedableRng};
    const PIECES: [&[u8]; 8] = [b"{", b"[", b"\"", b"0x", b"-1", b"1e99", b"null", b"\xff"];
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    let mut below = |end: usize| usize::try_from(rng.next_u64() % end as u64).unwrap();
    let bodies: Vec<Vec<u8>> = works()
        .iter()
        .flat_map(|work| [ssz::encode(work), in_json(work).to_string().into_bytes()])
        .collect();
    let (mut accepted, mut refused) = (0, 0);
    for _ in 0..20_000 {
        let mut body = bodies[below(bodies.len())].clone();
        for _ in 0..below(4) {
            let at = below(body.len());
            match below(4) {
                0 => body[at] = u8::try_from(below(256)).unwrap(),
                1 => body.truncate(at + 1),
                2 => {
                    let end = at + below(body.len() - at);
                    let piece = body[at..end].to_vec();
                    body.splice(at..at, piece);
                }
                _ => {
                    body.splice(at..=at, PIECES[below(PIECES.len())].iter().copied());
                }
            }
        }
        let kind = Kind::ALL[below(Kind::ALL.len())];
        let body = Bytes::from(body);
        for read in [
            ssz::decode(kind, &body, 1, &lookup),
            texts::decode(kind, &body, 1, &lookup),
        ] {
            match read {
                Ok(work) => {
                    accepted += 1;
                    let again = Bytes::from(ssz::encode(&work));
                    let same = ssz::decode(kind, &again, kept(&work), &lookup);
                    assert_eq!(ssz::encode(&same.unwrap()), again);
                }
                Err(reason) => {
                    refused += 1;
                    assert!(!reason.is_empty());
                }
            }
        }
    }
    assert!(accepted > 1_000 && refused > 1_000, "{accepted} {refused}");
}

/// A body or the name of a registry changes only together with its line in `conformance.toml`.
#[test]
fn bodies_and_names_are_the_pinned_ones() {
    let pinned = include_str!("../../../conformance.toml");
    let kinds = works().into_iter().map(|work| {
        let body = ssz::encode(&work);
        (Job { work, cut: false }.kind().name(), body)
    });
    let registry = ("registry", WORLD.registry.digest.to_vec());
    for (name, bytes) in kinds.chain([registry]) {
        let (length, digest) = (bytes.len(), hex::encode(Sha256::digest(&bytes)));
        let line =
            format!("{{ name = \"worker.{name}\", bytes = {length}, sha256 = \"{digest}\" }},");
        assert!(pinned.contains(&line), "conformance.toml needs\n    {line}");
    }
}

#[test]
fn a_body_that_makes_no_sense_is_refused_with_the_reason() {
    let refused = |kind, body: &Value| {
        let body = body.to_string();
        texts::decode(kind, body.as_bytes(), 0, &lookup).unwrap_err()
    };
    let votes = in_json(&Work::Prove(cast(0, &[1, 4])));
    for (field, value, why) in [
        ("registry", json!(hex0x(&[7; 32])), "is not here: upload it"),
        (
            "registry",
            json!("0x00"),
            "registry has 1 bytes, must have 32",
        ),
        ("slot", json!(256), "slot is 256, must be below 256"),
        ("slot", json!(1_u64 << 40), "must be below 256"),
        ("message", json!("41"), "hexadecimal digits after 0x"),
        ("participants", json!([]), "no participant"),
        (
            "participants",
            json!([4, 1]),
            "1 comes after 4, must ascend",
        ),
        (
            "participants",
            json!([1, 1]),
            "1 comes after 1, must ascend",
        ),
        ("participants", json!([1, 6]), "6, the registry has 6 keys"),
        (
            "participants",
            json!([1]),
            "848 bytes of signatures, 1 of the set test are 424",
        ),
        (
            "signatures",
            json!(["0x00", "0x00"]),
            "signature 0 has 1 bytes, must have 424",
        ),
        ("signature", json!(1), "unknown field"),
    ] {
        let mut body = votes.clone();
        body[field] = value;
        let answer = refused(Kind::Prove, &body);
        assert!(answer.contains(why), "{answer}");
    }
    let two = in_json(&Work::Merge(vec![
        entry(0, &[0], &[1]),
        entry(1, &[1], &[1]),
    ]));
    assert!(refused(Kind::Merge, &two).contains("entry 1 is of another registry, slot or message"));
    let bare = in_json(&Work::Verify(vec![entry(0, &[0], &[])]));
    assert!(refused(Kind::Verify, &bare).contains("entry 0 has no proof"));
    let none = json!({"entries": []});
    assert!(refused(Kind::Bundle, &none).contains("0 entries, must be 1 to 256"));
    let both = json!({"entries": two["entries"], "proof_data": "0x01"});
    assert!(refused(Kind::VerifyBundle, &both).contains("has a proof of its own"));
    let split = json!({"entries": bare["entries"], "proof_data": "0x01"});
    let split = split.to_string();
    let answer = texts::decode(Kind::Split, split.as_bytes(), 1, &lookup).unwrap_err();
    assert_eq!(answer, "kept is 1, must be below 1");
}

/// The process of a prove lane receives exactly what was requested.
#[test]
fn jobs_come_back_from_their_bytes() {
    for work in works() {
        let job = Job { work, cut: true };
        let bytes = job.encode().expect("has bytes");
        let back = Job::decode(&bytes).unwrap();
        assert_eq!((back.kind(), back.cut), (job.kind(), job.cut));
        assert_eq!(back.encode(), Some(bytes.clone()));
        for cut in 0..bytes.len().min(200) {
            assert!(Job::decode(&bytes[..cut]).is_err(), "cut at {cut}");
        }
    }
    assert!(Job::decode(&[7, 0, 0, 0, 0, 0, 0, 0, 0, 0]).is_err());
}

#[test]
fn jobs_do_what_they_say() {
    let (first, second) = (
        made(Work::Prove(cast(0, &[0, 1, 2]))),
        made(Work::Prove(cast(0, &[2, 5]))),
    );
    let merged = made(Work::Merge(vec![
        entry(0, &[0, 1, 2], &first),
        entry(0, &[2, 5], &second),
    ]));
    let other = made(Work::Prove(cast(1, &[3])));
    let all = entry(0, &[0, 1, 2, 5], &merged);
    let mut broken = merged.clone();
    broken[merged.len() / 2] ^= 1;
    let verdicts = run(Work::Verify(vec![
        all.clone(),
        entry(0, &[0, 1, 2], &merged),
        entry(0, &[0, 1, 2, 5], &broken),
        entry(1, &[3], &other),
        entry(1, &[3], &[0]),
    ]));
    let Ok(Output::Verdicts(refused)) = verdicts else {
        panic!("no verdicts: {verdicts:?}");
    };
    let valid: Vec<bool> = refused.iter().map(Option::is_none).collect();
    assert_eq!(valid, [true, false, false, true, false], "{refused:?}");

    let bundle = made(Work::Bundle(vec![all, entry(1, &[3], &other)]));
    let bare = || vec![entry(0, &[0, 1, 2, 5], &[]), entry(1, &[3], &[])];
    let verify = |entries, proof: &[u8]| {
        let proof = Bytes::copy_from_slice(proof);
        match run(Work::VerifyBundle { entries, proof }) {
            Ok(Output::Verdicts(refused)) => refused == [None],
            other => panic!("no verdict: {other:?}"),
        }
    };
    assert!(verify(bare(), &bundle));
    assert!(!verify(bare()[..1].to_vec(), &bundle));
    let split = made(Work::Split {
        entries: bare(),
        proof: bundle.into(),
        kept: 1,
    });
    assert_eq!(
        run(Work::Verify(vec![entry(1, &[3], &split)])),
        Ok(Output::Verdicts(vec![None]))
    );
}

#[test]
fn bad_inputs_are_named_by_their_index() {
    let mut votes = cast(0, &[0, 2, 3, 5]);
    let each = SET.params().signature_bytes;
    let mut bytes = votes.signatures.to_vec();
    // One over another message, and one that is invalid.
    bytes[each..2 * each].copy_from_slice(&WORLD.signatures[1][2]);
    votes.signatures = bytes.clone().into();
    assert_eq!(
        run(Work::Prove(votes.clone())),
        Err(TaskError::Invalid(vec![1]))
    );
    bytes[3 * each] ^= 1;
    votes.signatures = bytes.into();
    assert_eq!(
        run(Work::Prove(votes.clone())),
        Err(TaskError::Invalid(vec![1, 3]))
    );
    let Ok(Output::Bad(bad)) = run(Work::VerifySignatures(votes)) else {
        panic!("no verdict");
    };
    assert_eq!(bad[0], (1, "it does not hold".to_owned()));
    assert!(
        bad[1].0 == 3 && bad[1].1.contains("offset of path"),
        "{bad:?}"
    );
    // Proofs are verified before the cost of a merge is paid.
    let good = made(Work::Prove(cast(0, &[0, 1])));
    let entries = vec![
        entry(0, &[0, 1], &good),
        entry(0, &[0, 2], &good),
        entry(0, &[3], &[1]),
    ];
    for work in [Work::Merge(entries.clone()), Work::Bundle(entries)] {
        let job = Job { work, cut: false };
        let mut scratch = ();
        let mut ctx = Ctx::single(&mut scratch);
        let prepared = job.prepare(&env(), &mut ctx).expect("proofs can be tested");
        assert_eq!(job.locate(&env(), &prepared, &mut ctx), Some(vec![1, 2]));
        assert!(job.check(&env(), &prepared, 0..1) && !job.check(&env(), &prepared, 0..2));
    }
}

#[test]
fn a_job_is_cut_only_where_its_client_allows_it() {
    let cut = |cut, n| {
        let work = Work::Prove(cast(0, &[0, 2, 5]));
        Job { work, cut }.part(0..n)
    };
    assert!(cut(false, 2).is_none() && cut(true, 0).is_none() && cut(true, 4).is_none());
    let Some(Job {
        work: Work::Prove(votes),
        ..
    }) = cut(true, 2)
    else {
        panic!("two of three signatures are a job");
    };
    assert_eq!(votes.participants, bits(&[0, 2]));
    assert_eq!(votes.signatures, cast(0, &[0, 2]).signatures);
    let verify = Job {
        work: Work::VerifySignatures(cast(0, &[0, 2])),
        cut: true,
    };
    assert!(verify.part(0..1).is_none());
}

/// Jobs that only verify are given their time, and if they are slow their inputs are not to blame.
#[test]
fn jobs_that_verify_say_so() {
    for work in works() {
        let job = Job { work, cut: false };
        let verifies = job.kind().name().starts_with("verify");
        assert_eq!(job.verifies(), verifies, "{}", job.kind().name());
    }
}

#[test]
fn a_registry_is_of_whole_keys_that_are_some() {
    let keys = &WORLD.registry.keys;
    let new = |set, bytes: &[u8]| Registry::new(set, 0, Bytes::copy_from_slice(bytes));
    assert!(new(SET, &[]).is_err() && new(SET, &keys[1..]).is_err());
    let many = vec![0; 52 * ((1 << 15) + 1)];
    assert_eq!(
        new(SET, &many).map(|one| one.len()),
        Err("32769 keys, a registry has at most 32768".to_owned())
    );
    let digests = [
        Registry::new(SET, 0, keys.clone()),
        Registry::new(SET, 1, keys.clone()),
        Registry::new(Set::Prod, 0, keys.clone()),
        new(SET, &keys[52..]),
    ];
    let digests = digests.map(|one| one.unwrap().digest);
    assert_eq!(digests[0], WORLD.registry.digest);
    let different: std::collections::BTreeSet<Digest> = digests.into();
    assert_eq!(different.len(), 4);
    let broken = new(SET, &[&keys[..52], &[0xff; 52]].concat()).unwrap();
    let why = broken
        .committed(Exec::new(Backend::Portable, None))
        .unwrap_err();
    assert!(why.starts_with("key 1: "), "{why}");
}

fn limits() -> Limits {
    Limits {
        clients_max: 2,
        jobs_max: 2,
        body_bytes_max: 4 << 10,
        registry_keys_max: 2 * MEMBERS as usize,
        ended_max: 3,
        result_bytes_max: 1_000,
        keep: Duration::from_secs(60),
    }
}

fn asked(client: &str, name: Option<&str>, bytes: usize) -> Asked {
    Asked {
        client: client.to_owned(),
        name: name.map(str::to_owned),
        session: None,
        digest: digest_of(Kind::Prove, &[bytes as u8], ""),
        bytes,
        kind: Kind::Prove,
        inputs: 2,
    }
}

fn session(seq: u32) -> SessionId {
    SessionId { slot: Slot(0), seq }
}

/// Submits a job as the service does.
fn hand_in(book: &mut Book, asked: Asked, job: u64) -> Result<u64, StatusCode> {
    let now = Instant::now();
    let (taken, _) = book.admit(&asked, now).map_err(|(code, _)| code)?;
    let number = book.insert(asked, JobId(job), session(job as u32), now);
    assert_eq!(number, taken);
    Ok(number)
}

/// The end of a job that made a proof of this many bytes.
fn finished(job: u64, bytes: usize) -> Finished<Output> {
    Finished {
        job: JobId(job),
        session: session(job as u32),
        group: Group::of_slot(Slot(0)),
        outcome: Outcome::Done(Output::Proof(vec![7; bytes])),
        late: false,
        leftover: 0,
        crasher: false,
        timing: Timing::default(),
        run: None,
    }
}

fn finish(book: &mut Book, job: u64, bytes: usize, now: Instant) {
    book.end(finished(job, bytes), now);
}

#[test]
fn a_client_has_its_share_and_no_more() {
    let mut book = Book::new(limits(), 1);
    let now = Instant::now();
    assert_eq!(hand_in(&mut book, asked("a", None, 100), 1), Ok(1));
    // More bytes than are left of its share, then more jobs.
    let busy = Err(StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(hand_in(&mut book, asked("a", None, 4_000), 2), busy);
    assert_eq!(hand_in(&mut book, asked("a", None, 3_000), 2), Ok(2));
    assert_eq!(hand_in(&mut book, asked("a", None, 1), 3), busy);
    // Another client has its own share; a third has none while both have jobs.
    assert_eq!(hand_in(&mut book, asked("b", None, 4_000), 3), Ok(3));
    assert_eq!(hand_in(&mut book, asked("c", None, 1), 4), busy);
    let long = book.upload("a", 5_000, now).map_err(|(code, _)| code);
    assert_eq!(long.unwrap_err(), StatusCode::PAYLOAD_TOO_LARGE);
    let first = book.upload("a", 4_000, now).unwrap();
    assert!(
        book.upload("a", 2_000, now).is_err(),
        "one body fills its share"
    );
    assert!(book.upload("b", 2_000, now).is_ok());
    drop(first);
    assert!(book.upload("a", 2_000, now).is_ok());
    // An idle client is evicted, and what it left is gone.
    finish(&mut book, 3, 10, now);
    assert_eq!(hand_in(&mut book, asked("c", None, 1), 5), Ok(4));
    assert!(book.get(3).is_none() && book.get(1).is_some());
    assert_eq!((book.live(), book.clients()), (3, 2));
}

#[test]
fn registries_of_a_client_make_room_for_its_own_alone() {
    let mut book = Book::new(limits(), 1);
    let mut now = Instant::now();
    let registries: Vec<Arc<Registry>> = (0..3)
        .map(|number| Arc::new(Registry::new(SET, number, WORLD.registry.keys.clone()).unwrap()))
        .collect();
    let mut keep = |book: &mut Book, client: &str, number: usize| {
        now += Duration::from_secs(1);
        book.keep_registry(client, registries[number].clone(), now)
            .unwrap()
    };
    assert!(keep(&mut book, "b", 0));
    assert!(keep(&mut book, "a", 0) && keep(&mut book, "a", 1) && !keep(&mut book, "a", 0));
    // The least recently used one is dropped.
    assert!(keep(&mut book, "a", 2));
    let left = |book: &mut Book, client: &str| -> Vec<bool> {
        let digests = registries.iter().map(|one| one.digest);
        let there = digests.map(|digest| book.registry(client, &digest, Instant::now()).is_some());
        there.collect()
    };
    assert_eq!(left(&mut book, "a"), [true, false, true]);
    assert_eq!(left(&mut book, "b"), [true, false, false]);
    assert!(book.forget_registry("a", &registries[0].digest));
    assert!(!book.forget_registry("a", &registries[1].digest));
    assert_eq!(book.registries("a").len(), 1);
}

#[test]
fn one_name_is_one_job() {
    let mut book = Book::new(limits(), 1);
    let number = hand_in(&mut book, asked("a", Some("mine"), 5), 1).unwrap();
    assert_eq!(
        book.named(&asked("a", Some("mine"), 5)).unwrap(),
        Some(number)
    );
    let other = book
        .named(&asked("a", Some("mine"), 6))
        .map_err(|(code, _)| code);
    assert_eq!(other, Err(StatusCode::CONFLICT));
    assert_eq!(book.named(&asked("b", Some("mine"), 6)).unwrap(), None);
    assert_eq!(book.named(&asked("a", None, 6)).unwrap(), None);
    // An id belongs to one life of the service, and to one client.
    let id = format!("{:016x}-{number}", 1);
    let now = Instant::now();
    assert!(book.find("a", &id, now).is_some() && book.find("b", &id, now).is_none());
    for wrong in [
        "",
        "-",
        "1",
        "2-1",
        "1-9",
        "1-x",
        "1--1",
        &format!("{:016x}-{number}", 2),
    ] {
        assert!(book.find("a", wrong, now).is_none(), "{wrong}");
    }
}

#[test]
fn results_are_kept_for_a_while_and_within_their_bounds() {
    let mut book = Book::new(limits(), 1);
    let begin = Instant::now();
    let hand = |book: &mut Book, job: u64, bytes: usize, at: Instant| {
        let number = hand_in(book, asked("a", None, 1), job).unwrap();
        finish(book, job, bytes, at);
        number
    };
    let long = hand(&mut book, 1, 5_000, begin);
    let answer = book.get(long).unwrap().facts(1, begin);
    assert_eq!(
        (&answer["state"], &answer["proof_bytes"]),
        (&json!("done"), &json!(5_000))
    );
    let next = hand(&mut book, 2, 600, begin);
    assert!(book.get(long).is_none() && book.get(next).is_some());
    let more: Vec<u64> = (3..6).map(|job| hand(&mut book, job, 10, begin)).collect();
    assert!(book.get(next).is_none(), "no more than three are kept");
    book.forget(more[0]);
    assert!(book.get(more[0]).is_none());
    book.sweep(begin + Duration::from_secs(59));
    assert!(book.get(more[1]).is_some());
    book.sweep(begin + Duration::from_secs(60));
    assert!(book.get(more[1]).is_none() && book.get(more[2]).is_none());
    assert_eq!(book.ended[&("prove", "done")], 5);
}

#[test]
fn a_file_of_tokens_is_read_as_it_is_documented() {
    let token = "t".repeat(32);
    let names = |text: &str| Tokens::parse(text).map(|tokens| tokens.0.len()).ok();
    assert_eq!(names(&format!("a {token}\n\n  b\t{token}x  \n")), Some(2));
    for wrong in [
        String::new(),
        "a\n".to_owned(),
        format!("a {token} more"),
        format!("a {}", &token[1..]),
        format!("a {token}\na {token}x"),
        format!("a {token}\nb {token}"),
        format!("a/b {token}"),
    ] {
        assert_eq!(names(&wrong), None, "{wrong}");
    }
}
