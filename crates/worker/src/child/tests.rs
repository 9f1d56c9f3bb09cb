//! Frames and pools over in-memory streams.

use super::pool::Killer;
use super::*;
use crate::toy::{GOOD, PANIC, Toy, ToyEnv};
use alphorn_exec::Stop;
use alphorn_scheme::Task;
use proptest::prelude::*;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

fn limits() -> Limits {
    Limits {
        threads: 1,
        nice: 0,
        data_bytes_max: 0,
        beat_ms: 5,
        standby: false,
        recycle: false,
    }
}

fn pool() -> (ChildPool, Arc<AtomicU64>) {
    let stale = Arc::<AtomicU64>::default();
    (
        ChildPool::new(limits(), AtWork::default(), stale.clone()),
        stale,
    )
}

fn init() -> Message {
    Message::Init(Init {
        parent: 1,
        threads: 1,
        nice: 0,
        data_bytes_max: 0,
        beat_ms: 5,
        setup: vec![1, 2, 3],
    })
}

fn job(toy: &Toy) -> Message {
    Message::Job(JobFrame {
        portable: false,
        seed: 7,
        task: toy.encode().expect("has bytes"),
    })
}

fn messages() -> Vec<Message> {
    let result = |answer| Message::Result {
        cpu_ns: 5,
        peak_bytes: 6,
        answer,
    };
    vec![
        init(),
        job(&Toy::new(&[GOOD; 9])),
        Message::Stop,
        Message::Ready,
        Message::Unfit("no".into()),
        Message::Beat(3),
        result(Answer::Done(vec![1; 100])),
        result(Answer::Invalid(vec![0, 5])),
        result(Answer::Refused("why".into())),
        result(Answer::Stopped),
        result(Answer::Faulty),
    ]
}

#[test]
fn messages_come_back_from_their_frames() {
    let mut stream = Vec::new();
    for (job, message) in (0..).zip(messages()) {
        message
            .frame(3, job)
            .write_to(&mut stream)
            .expect("a vector takes all");
    }
    let mut stream = stream.as_slice();
    for (job, message) in (0..).zip(messages()) {
        let frame = Frame::read_from(&mut stream).expect("what was written");
        assert_eq!((frame.generation, frame.job), (3, job));
        assert_eq!(Message::decode(&frame), Ok(message));
    }
    assert!(matches!(
        Frame::read_from(&mut stream),
        Err(FrameError::Closed)
    ));
}

#[test]
fn a_reason_is_cut_at_a_character() {
    let long = "ü".repeat(1000);
    let frame = Message::Unfit(long.clone()).frame(1, 0);
    let Ok(Message::Unfit(cut)) = Message::decode(&frame) else {
        panic!("a reason");
    };
    assert!(cut.len() <= 1024 && long.starts_with(&cut));
}

/// R12 at the frame level: a frame with a flipped bit or a truncated frame is rejected.
#[test]
fn wrong_bytes_are_no_frame() {
    let mut state = 1_u64;
    for message in messages() {
        let mut bytes = Vec::new();
        message.frame(3, 4).write_to(&mut bytes).expect("written");
        for cut in 1..bytes.len() {
            assert!(Frame::read_from(&mut &bytes[..cut]).is_err());
        }
        for _ in 0..1000 {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            let bit = (state >> 33) as usize % (8 * bytes.len());
            let mut wrong = bytes.clone();
            wrong[bit / 8] ^= 1 << (bit % 8);
            assert!(
                Frame::read_from(&mut wrong.as_slice()).is_err(),
                "bit {bit}"
            );
        }
    }
}

#[test]
fn a_header_promises_no_memory() {
    let mut header = vec![0; HEADER_BYTES];
    header[..4].copy_from_slice(&FRAME_BYTES_MAX.to_le_bytes());
    assert!(matches!(
        Frame::read_from(&mut header.as_slice()),
        Err(FrameError::Io(_))
    ));
    header[..4].copy_from_slice(&(FRAME_BYTES_MAX + 1).to_le_bytes());
    assert!(matches!(
        Frame::read_from(&mut header.as_slice()),
        Err(FrameError::Decode(_))
    ));
}

proptest! {
    #[test]
    fn no_bytes_break_the_decoder(kind in 0_u8..9, payload in proptest::collection::vec(any::<u8>(), 0..200)) {
        let frame = Frame { kind, generation: 1, job: 1, payload };
        if let Ok(message) = Message::decode(&frame) {
            prop_assert_eq!(Message::decode(&message.frame(1, 1)), Ok(message));
        }
    }
}

/// Starts a child on a thread, as the pool's working child.
fn employ_child(pool: &mut ChildPool) -> std::thread::JoinHandle<Result<(), ServeError>> {
    let (from_parent, to_child) = std::io::pipe().expect("a pipe");
    let (from_child, to_parent) = std::io::pipe().expect("a pipe");
    let child = std::thread::spawn(|| {
        super::serve::serve::<Toy, _, _>(from_parent, to_parent, |setup| {
            assert_eq!(setup, [1, 2, 3]);
            Ok(ToyEnv::default())
        })
    });
    let mut link = pool.link(0, Box::new(to_child), from_child);
    init()
        .frame(link.generation, 0)
        .write_to(&mut link.input)
        .expect("written");
    pool.employ(link);
    child
}

fn answer(told: Told) -> Option<Answer> {
    match told {
        Told::Answered { answer, .. } => Some(answer),
        Told::Died | Told::Lost | Told::Unfit(_) => None,
    }
}

#[test]
fn a_child_works_stops_and_ends_with_its_input() {
    let (mut pool, _) = pool();
    let child = employ_child(&mut pool);
    let beats = AtomicU64::new(0);
    let done = pool.work(
        1,
        &job(&Toy::new(&[GOOD; 3])),
        &Stop::default(),
        &beats,
        |_| {},
    );
    assert_eq!(
        answer(done),
        Some(Answer::Done(3_u64.to_le_bytes().to_vec()))
    );
    let slow = Toy {
        work_us: 60_000_000,
        ..Toy::new(&[GOOD])
    };
    let stop = Stop::default();
    let stopper = stop.clone();
    let timer = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(60));
        stopper.stop();
    });
    let stopped = pool.work(2, &job(&slow), &stop, &beats, |_| {});
    assert_eq!(answer(stopped), Some(Answer::Stopped));
    assert!(beats.load(Ordering::Relaxed) > 0);
    timer.join().expect("sleeps");
    drop(pool);
    assert!(child.join().expect("no panic").is_ok());
}

#[test]
fn a_child_that_dies_is_noticed() {
    let (mut pool, _) = pool();
    let child = employ_child(&mut pool);
    let told = pool.work(
        1,
        &job(&Toy::new(&[PANIC])),
        &Stop::default(),
        &AtomicU64::new(0),
        |_| {},
    );
    assert_eq!(told, Told::Died);
    assert!(child.join().is_err());
}

/// R16: frames from a replaced child are dropped and counted, whether they come from its own stream or name another
/// generation on this one.
#[test]
fn a_replaced_child_is_not_listened_to() {
    let (mut pool, stale) = pool();
    let (old_in, mut to_parent) = std::io::pipe().expect("a pipe");
    let old = pool.link(0, Box::new(std::io::sink()), old_in);
    let generation = old.generation;
    let child = employ_child(&mut pool);
    let forged = Message::Result {
        cpu_ns: 0,
        peak_bytes: 0,
        answer: Answer::Done(99_u64.to_le_bytes().to_vec()),
    };
    for job in 1..=3 {
        forged
            .frame(generation, job)
            .write_to(&mut to_parent)
            .expect("written");
    }
    drop(to_parent);
    for number in 1..=3 {
        let toy = Toy {
            work_us: 20_000,
            ..Toy::new(&[GOOD; 5])
        };
        let told = pool.work(
            number,
            &job(&toy),
            &Stop::default(),
            &AtomicU64::new(0),
            |_| {},
        );
        assert_eq!(
            answer(told),
            Some(Answer::Done(5_u64.to_le_bytes().to_vec()))
        );
    }
    assert_eq!(stale.load(Ordering::Relaxed), 3);
    // A frame of an older generation on the stream of the working child.
    let (from_child, mut to_parent) = std::io::pipe().expect("a pipe");
    let link = pool.link(0, Box::new(std::io::sink()), from_child);
    let current = link.generation;
    pool.employ(link);
    forged
        .frame(current - 1, 4)
        .write_to(&mut to_parent)
        .expect("written");
    let right = Message::Result {
        cpu_ns: 0,
        peak_bytes: 0,
        answer: Answer::Stopped,
    };
    right
        .frame(current, 4)
        .write_to(&mut to_parent)
        .expect("written");
    let told = pool.work(
        4,
        &Message::Stop,
        &Stop::default(),
        &AtomicU64::new(0),
        |_| {},
    );
    assert_eq!(answer(told), Some(Answer::Stopped));
    assert_eq!(stale.load(Ordering::Relaxed), 4);
    drop(pool);
    assert!(child.join().expect("no panic").is_ok());
}

/// A process that does nothing, to be killed.
fn sleeper() -> Child {
    Command::new("sleep")
        .arg("600")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("there is sleep")
}

/// Runs a job in the pool, with `command` starting other children.
fn run(pool: &mut ChildPool, command: &ChildCommand, number: u64) -> Told {
    let Message::Job(frame) = job(&Toy::new(&[GOOD])) else {
        unreachable!("a job");
    };
    let beats = AtomicU64::new(0);
    pool.run(command, 0, number, frame, &Stop::default(), &beats)
}

/// Checks that the next job is not given to an existing child: none can be started.
fn needs_a_new_child(pool: &mut ChildPool, number: u64) {
    let nowhere = ChildCommand {
        program: "/nowhere".into(),
        ..ChildCommand::default()
    };
    let told = run(pool, &nowhere, number);
    let Told::Unfit(reason) = told else {
        panic!("{told:?}");
    };
    assert!(reason.contains("no child process"), "{reason}");
}

/// A keeper that decides, while a job is being handed over, that it has hung.
struct KilledAtWork(AtWork);

impl Write for KilledAtWork {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        assert!(self.0.kill(), "the child is named before it has the job");
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// The kill came after the answer was written. The answer counts, and the next job gets another child: the old one
/// would be dead, and the job would be blamed for that.
#[test]
fn a_child_that_was_killed_when_it_had_answered_gets_no_other_job() {
    let at_work = AtWork::default();
    let mut pool = ChildPool::new(limits(), at_work.clone(), Arc::default());
    let (from_child, mut to_parent) = std::io::pipe().expect("a pipe");
    let mut link = pool.link(0, Box::new(KilledAtWork(at_work.clone())), from_child);
    let answered = Message::Result {
        cpu_ns: 0,
        peak_bytes: 0,
        answer: Answer::Stopped,
    };
    for message in [Message::Ready, answered] {
        let frame = message.frame(link.generation, 1);
        frame.write_to(&mut to_parent).expect("written");
    }
    link.killer = Some(Killer::of(sleeper()));
    pool.employ(link);
    let told = run(&mut pool, &ChildCommand::default(), 1);
    assert_eq!(answer(told), Some(Answer::Stopped));
    assert!(!at_work.kill(), "nobody is at work");
    drop(to_parent);
    needs_a_new_child(&mut pool, 2);
}

/// A lane waiting for a standby child that does not read its set-up does not notice that the working child is killed:
/// both are killed, and none is kept.
#[test]
fn a_kill_ends_the_child_at_work_and_the_one_that_is_started_beside_it() {
    let at_work = AtWork::default();
    let limits = Limits {
        standby: true,
        ..limits()
    };
    let mut pool = ChildPool::new(limits, at_work.clone(), Arc::default());
    let mut child = sleeper();
    let (input, output) = (child.stdin.take(), child.stdout.take());
    let input = Box::new(input.expect("a pipe"));
    let mut link = pool.link(0, input, output.expect("a pipe"));
    link.killer = Some(Killer::of(child));
    pool.employ(link);
    // More than a pipe holds.
    let deaf = ChildCommand {
        program: "sleep".into(),
        args: vec!["600".into()],
        setup: vec![0; 1 << 20].into(),
    };
    let keeper = std::thread::spawn(move || {
        while at_work.count() < 2 {
            std::thread::sleep(Duration::from_millis(1));
        }
        at_work.kill()
    });
    let told = run(&mut pool, &deaf, 1);
    let reason = "a child process did not set up in time";
    assert_eq!(told, Told::Unfit(reason.into()));
    assert!(keeper.join().expect("no panic"));
    needs_a_new_child(&mut pool, 2);
}

/// A child with little processor time takes long but does not hang. One that uses more than any set-up needs, or makes
/// no progress for minutes, does.
#[test]
fn a_child_that_is_kept_from_the_processors_may_set_up_for_long() {
    use super::pool::may_set_up;
    let s = Duration::from_secs;
    assert!(may_set_up(s(29), || Some(s(58))));
    assert!(may_set_up(s(599), || Some(s(29))));
    assert!(!may_set_up(s(31), || Some(s(31))));
    assert!(!may_set_up(s(31), || None));
    assert!(!may_set_up(s(601), || Some(s(0))));
}

#[cfg(target_os = "linux")]
#[test]
fn the_processor_time_of_a_process_is_that_of_all_its_threads() {
    let own = || crate::os::cpu_of(std::process::id()).expect("this process");
    let before = own();
    let worked = std::thread::spawn(|| {
        let start = crate::os::thread_cpu_ns();
        while crate::os::thread_cpu_ns() - start < 100_000_000 {
            std::hint::spin_loop();
        }
    });
    worked.join().expect("it ends");
    // The system counts in ticks, hundredths of a second.
    assert!(own() - before >= Duration::from_millis(80));
    assert_eq!(crate::os::cpu_of(u32::MAX), None);
}
