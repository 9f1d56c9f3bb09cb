use super::*;
use crate::clients::Body;
use alphorn_types::trace::{Event, Record, RingLimits};
use tokio::time::Instant;
use tokio_stream::StreamExt;

const LIMITS: RingLimits = RingLimits {
    high_lines_max: 8,
    high_bytes_max: 1 << 16,
    low_lines_max: 4,
    low_bytes_max: 1 << 16,
    snapshot_high_max: 4,
};

fn fault(detail: &str) -> Record {
    Record {
        t: 0,
        n: "a".into(),
        event: Event::Fault {
            kind: "test".into(),
            detail: detail.to_owned(),
        },
    }
}

fn source(lines: u64) -> Arc<Mutex<Ring>> {
    let mut ring = Ring::new(10, LIMITS);
    for line in 1..=lines {
        ring.push(&fault(&line.to_string())).unwrap();
    }
    Arc::new(Mutex::new(ring))
}

fn follow_from(source: &Arc<Mutex<Ring>>, clients: &Clients, known: Option<u64>) -> Body {
    let (sink, body) = clients.admit().unwrap();
    tokio::spawn(send(source.clone(), sink, known, Wanted::All));
    body
}

async fn next(body: &mut Body) -> String {
    let chunk = body.next().await.unwrap().unwrap();
    String::from_utf8(chunk.to_vec()).unwrap()
}

fn ids(text: &str) -> Vec<&str> {
    text.lines()
        .filter_map(|line| line.strip_prefix("id: a-"))
        .collect()
}

#[tokio::test(start_paused = true)]
async fn a_new_client_gets_a_snapshot_and_then_what_follows() {
    let source = source(3);
    let mut body = follow_from(&source, &Clients::new(), None);
    let first = next(&mut body).await;
    assert!(
        first.starts_with("retry: 500\n\nevent: snapshot\ndata: {\"lines\":3}\n\n"),
        "{first}"
    );
    assert_eq!(ids(&first), ["1", "2", "3"]);
    lock(&source).push(&fault("more")).unwrap();
    let expected = "event: fault\nid: a-4\ndata: \
        {\"t\":0,\"n\":\"a\",\"k\":\"fault\",\"kind\":\"test\",\"detail\":\"more\"}\n\n";
    assert_eq!(next(&mut body).await, expected);
}

#[tokio::test(start_paused = true)]
async fn a_large_snapshot_comes_in_chunks() {
    let mut ring = Ring::new(10, RingLimits::default());
    let detail = "x".repeat(40_000);
    for _ in 0..20 {
        ring.push(&fault(&detail)).unwrap();
    }
    let source = Arc::new(Mutex::new(ring));
    let mut body = follow_from(&source, &Clients::new(), None);
    let mut lines = 0;
    while lines < 20 {
        let chunk = next(&mut body).await;
        assert!(chunk.len() < 2 * CHUNK_BYTES, "{} bytes", chunk.len());
        lines += ids(&chunk).len();
    }
    assert_eq!(lines, 20);
}

#[tokio::test(start_paused = true)]
async fn a_client_that_comes_back_gets_what_it_missed() {
    let source = source(4);
    let mut body = follow_from(&source, &Clients::new(), Some(2));
    assert_eq!(next(&mut body).await, "retry: 500\n\n");
    assert_eq!(ids(&next(&mut body).await), ["3", "4"]);
}

#[tokio::test(start_paused = true)]
async fn a_gap_is_told_with_its_size() {
    let source = source(9);
    let mut body = follow_from(&source, &Clients::new(), Some(2));
    next(&mut body).await;
    let text = next(&mut body).await;
    assert!(
        text.starts_with(": dropped 3\nevent: gap\ndata: {\"dropped\":3}\n\n"),
        "{text}"
    );
    assert_eq!(ids(&text), ["6", "7", "8", "9"]);
}

#[tokio::test(start_paused = true)]
async fn silence_is_broken_by_a_comment() {
    let source = source(1);
    let mut body = follow_from(&source, &Clients::new(), None);
    next(&mut body).await;
    let start = Instant::now();
    assert_eq!(next(&mut body).await, ": alive\n\n");
    assert!((KEEP_ALIVE..KEEP_ALIVE + 2 * TICK).contains(&start.elapsed()));
}

#[tokio::test(start_paused = true)]
async fn a_client_that_does_not_read_loses_its_place() {
    let source = source(1);
    let clients = Clients::new();
    let bodies: Vec<Body> = (0..crate::clients::CLIENTS_MAX)
        .map(|_| follow_from(&source, &clients, None))
        .collect();
    assert!(clients.admit().is_none());
    // Two chunks are queued for each; the third is not taken.
    for line in 0..3 {
        lock(&source).push(&fault(&line.to_string())).unwrap();
        tokio::time::sleep(2 * TICK).await;
    }
    assert!(clients.admit().is_none());
    tokio::time::sleep(crate::clients::SEND_TIMEOUT).await;
    assert!(clients.admit().is_some());
    assert_eq!(bodies.len(), crate::clients::CLIENTS_MAX);
}

#[tokio::test(start_paused = true)]
async fn a_client_that_leaves_gives_its_place_back_at_once() {
    let source = source(1);
    let clients = Clients::new();
    let mut bodies: Vec<Body> = (0..crate::clients::CLIENTS_MAX)
        .map(|_| follow_from(&source, &clients, None))
        .collect();
    tokio::time::sleep(2 * TICK).await;
    bodies.pop();
    tokio::time::sleep(TICK).await;
    assert!(clients.admit().is_some());
}

#[tokio::test(start_paused = true)]
async fn a_client_too_far_behind_is_closed() {
    let source = source(1);
    let mut body = follow_from(&source, &Clients::new(), None);
    next(&mut body).await;
    // Two chunks fill the queue; the third waits there while the ring wraps around.
    for line in 0..3 {
        lock(&source).push(&fault(&line.to_string())).unwrap();
        tokio::time::sleep(2 * TICK).await;
    }
    for line in 0..20 {
        lock(&source).push(&fault(&line.to_string())).unwrap();
    }
    let mut last = String::new();
    while let Some(chunk) = body.next().await {
        last = String::from_utf8(chunk.unwrap().to_vec()).unwrap();
    }
    assert_eq!(ids(&last), ["4"]);
}

/// High-rate votes and low-rate heads, through rings of eight and four.
fn news() -> Arc<Mutex<Lines>> {
    Arc::new(Mutex::new(Lines::new(10, LIMITS)))
}

fn heads() -> Wanted {
    Wanted::Kinds {
        kinds: vec!["head"],
        has_high: false,
    }
}

#[tokio::test(start_paused = true)]
async fn who_asks_for_heads_gets_no_votes_and_misses_none_for_them() {
    let source = news();
    lock(&source).push("head", "{\"slot\":1}", false);
    let clients = Clients::new();
    let (sink, mut body) = clients.admit().unwrap();
    tokio::spawn(send(source.clone(), sink, None, heads()));
    assert_eq!(next(&mut body).await, "retry: 500\n\n", "only what follows");
    lock(&source).push("vote", "{}", true);
    lock(&source).push("head", "{\"slot\":2}", false);
    assert_eq!(
        next(&mut body).await,
        "event: head\nid: a-3\ndata: {\"slot\":2}\n\n"
    );
    // Twenty votes wrap around their ring; the head among them stays.
    for _ in 0..20 {
        lock(&source).push("vote", "{}", true);
    }
    lock(&source).push("head", "{\"slot\":3}", false);
    let (sink, mut again) = clients.admit().unwrap();
    tokio::spawn(send(source.clone(), sink, Some(3), heads()));
    next(&mut again).await;
    assert_eq!(
        next(&mut again).await,
        "event: head\nid: a-24\ndata: {\"slot\":3}\n\n"
    );
    assert_eq!(clients.dropped(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_gap_is_told_to_who_may_have_lost_something() {
    let source = news();
    for _ in 0..9 {
        lock(&source).push("vote", "{}", true);
        lock(&source).push("head", "{}", false);
    }
    let votes = Wanted::Kinds {
        kinds: vec!["vote"],
        has_high: true,
    };
    let clients = Clients::new();
    for wanted in [heads(), votes] {
        let (sink, mut body) = clients.admit().unwrap();
        tokio::spawn(send(source.clone(), sink, Some(1), wanted));
        next(&mut body).await;
        let text = next(&mut body).await;
        // Of the 17 lines after the first, eight votes and four heads are left.
        assert!(text.starts_with(": dropped 5\n\nevent: "), "{text}");
    }
    assert_eq!(clients.dropped(), 10);
}

#[test]
fn ids_are_read_as_they_are_written() {
    for (instance, position) in [(0, 0), (10, 7), (u64::MAX, u64::MAX)] {
        let id = event_id(instance, position);
        assert_eq!(parse_event_id(&id), Some((instance, position)));
    }
    for id in [
        "",
        "-",
        "a",
        "a-",
        "-1",
        "a-01",
        "A-1",
        "0a-1",
        "a-+1",
        "a-1-2",
        "a-18446744073709551616",
    ] {
        assert_eq!(parse_event_id(id), None, "{id}");
    }
}

/// A source that ends.
struct Ending(Mutex<Ring>, std::sync::atomic::AtomicBool);

impl Live for Ending {
    fn instance(&self) -> u64 {
        self.0.instance()
    }

    fn lag_max(&self) -> u64 {
        self.0.lag_max()
    }

    fn snapshot(&self) -> Option<Batch> {
        self.0.snapshot()
    }

    fn after(&self, position: u64, lines_max: usize) -> Batch {
        self.0.after(position, lines_max)
    }

    fn is_over(&self) -> bool {
        self.1.load(std::sync::atomic::Ordering::Relaxed)
    }
}

#[tokio::test(start_paused = true)]
async fn a_stream_ends_with_its_source_and_gives_its_place_back() {
    let mut ring = Ring::new(10, LIMITS);
    ring.push(&fault("first")).unwrap();
    let source = Arc::new(Ending(Mutex::new(ring), false.into()));
    let clients = Clients::new();
    let follow_it = |known| {
        let (sink, body) = clients.admit().unwrap();
        tokio::spawn(send(source.clone(), sink, known, Wanted::All));
        body
    };
    let mut body = follow_it(None);
    assert_eq!(ids(&next(&mut body).await), ["1"]);
    lock(&source.0).push(&fault("last")).unwrap();
    source.1.store(true, std::sync::atomic::Ordering::Relaxed);
    assert_eq!(ids(&next(&mut body).await), ["2"]);
    assert!(body.next().await.is_none());
    // A client that connects after the end gets what there was.
    for (known, lines) in [(None, &["1", "2"][..]), (Some(1), &["2"]), (Some(2), &[])] {
        let mut late = follow_it(known);
        let mut text = String::new();
        while let Some(chunk) = late.next().await {
            text.push_str(std::str::from_utf8(&chunk.unwrap()).unwrap());
        }
        assert_eq!(ids(&text), lines);
    }
    assert_eq!(clients.taken(), 0);
}
