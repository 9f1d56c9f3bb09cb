//! The routes over a socket, mounted as a node mounts them.

use alphorn_dashboard::{
    ASSETS, CONTENT_SECURITY_POLICY, Source, TraceFile, TraceFileError, router,
};
use alphorn_types::trace::{Record, Ring, RingLimits, TraceReader};
use axum::Router;
use std::io::Write;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

#[path = "../examples/page/synthetic.rs"]
mod synthetic;

/// A server for as long as its runtime lives.
struct Server(std::net::SocketAddr);

struct Answer {
    status: u16,
    head: String,
    body: String,
}

impl Answer {
    fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| {
            let (key, value) = line.split_once(": ")?;
            key.eq_ignore_ascii_case(name).then_some(value)
        })
    }
}

impl Server {
    async fn start(source: Source) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let app = Router::new().nest_service("/dashboard", router(source));
        tokio::spawn(async move { axum::serve(listener, app).await });
        Self(address)
    }

    /// Sends a request of HTTP/1.0, whose answer is not chunked and ends with the connection.
    async fn open(&self, path: &str, headers: &str) -> TcpStream {
        let mut stream = TcpStream::connect(self.0).await.unwrap();
        let request = format!("GET {path} HTTP/1.0\r\nhost: localhost\r\n{headers}\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        stream
    }

    async fn get_with(&self, path: &str, headers: &str) -> Answer {
        let mut stream = self.open(path, headers).await;
        let mut bytes = Vec::new();
        // An answer that is cut short is looked at as far as it goes.
        let _ = stream.read_to_end(&mut bytes).await;
        parse(&bytes)
    }

    async fn get(&self, path: &str) -> Answer {
        self.get_with(path, "").await
    }
}

fn parse(bytes: &[u8]) -> Answer {
    let text = String::from_utf8(bytes.to_vec()).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    Answer {
        status: head[9..12].parse().unwrap(),
        head: head.to_owned(),
        body: body.to_owned(),
    }
}

fn file(text: &str) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace.jsonl");
    std::fs::write(&path, text).unwrap();
    (folder, path)
}

fn text_of(records: &[Record]) -> String {
    records
        .iter()
        .map(|record| record.to_line().unwrap())
        .collect()
}

#[tokio::test]
async fn the_page_and_its_files_are_served_with_guards() {
    let server = Server::start(Source::None).await;
    let page = server.get("/dashboard/").await;
    assert_eq!((page.status, page.body.as_str()), (200, ASSETS[0].text));
    for asset in ASSETS {
        let answer = server.get(&format!("/dashboard/{}", asset.path)).await;
        assert_eq!((answer.status, answer.body.as_str()), (200, asset.text));
        assert_eq!(answer.header("content-type"), Some(asset.content_type));
        assert_eq!(
            answer.header("content-security-policy"),
            Some(CONTENT_SECURITY_POLICY)
        );
        assert_eq!(answer.header("x-content-type-options"), Some("nosniff"));
        let tag = answer.header("etag").unwrap();
        for known in [tag.to_owned(), format!("\"x\", W/{tag}"), "*".to_owned()] {
            let request = format!("if-none-match: {known}\r\n");
            let again = server
                .get_with(&format!("/dashboard/{}", asset.path), &request)
                .await;
            assert_eq!((again.status, again.body.as_str()), (304, ""), "{known}");
        }
        let other = server
            .get_with(
                &format!("/dashboard/{}", asset.path),
                "if-none-match: \"x\"\r\n",
            )
            .await;
        assert_eq!(other.status, 200);
    }
    for missing in [
        "/dashboard/no.js",
        "/dashboard/../Cargo.toml",
        "/dashboard//etc/passwd",
        "/dashboard/%2e%2e/x",
    ] {
        assert_eq!(server.get(missing).await.status, 404, "{missing}");
    }
    assert_eq!(server.get("/dashboard/trace").await.status, 204);
}

#[tokio::test]
async fn the_page_is_a_folder_for_its_links() {
    let server = Server::start(Source::None).await;
    let answer = server.get("/dashboard?trace=a.jsonl").await;
    assert_eq!(answer.status, 308);
    assert_eq!(answer.header("location"), Some("/dashboard/?trace=a.jsonl"));
}

#[test]
fn the_page_is_small_and_asks_nobody_else() {
    let bytes: usize = ASSETS.iter().map(|asset| asset.text.len()).sum();
    assert!(bytes <= 300 << 10, "{bytes} bytes");
    for asset in ASSETS {
        let text = asset.text.replace("http://www.w3.org/2000/svg", "");
        for word in [
            "http:",
            "https:",
            "//cdn",
            "innerHTML",
            "outerHTML",
            "insertAdjacentHTML",
            "eval(",
            "@import",
        ] {
            assert!(!text.contains(word), "{} has {word}", asset.path);
        }
    }
    let page = ASSETS[0].text;
    for word in [" style=", " onclick=", " onload=", "<style", "<script>"] {
        assert!(!page.contains(word), "the page has {word}");
    }
    // Every file that is there is served, and every one that is served is used.
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/web");
    for entry in std::fs::read_dir(folder).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        assert!(
            ASSETS.iter().any(|asset| asset.path == name),
            "{name} is not served"
        );
        let is_used = name == "index.html"
            || ASSETS
                .iter()
                .any(|asset| asset.text.contains(&format!("{name}\"")));
        assert!(is_used, "{name} is not used");
    }
}

#[tokio::test]
async fn a_file_is_sent_as_it_is() {
    let unknown =
        "{\"t\":0,\"n\":\"a\",\"k\":\"fault\",\"kind\":\"a\",\"detail\":\"\",\"new\":[1]}\n";
    let text = unknown.to_owned() + &text_of(&synthetic::records(40));
    let (_folder, path) = file(&text);
    let opened = TraceFile::open(&path).unwrap();
    assert_eq!(opened.records(), text.lines().count() as u64);
    let server = Server::start(Source::File(opened)).await;
    let answer = server.get("/dashboard/trace").await;
    assert_eq!(answer.status, 200);
    assert_eq!(
        answer.header("content-type"),
        Some("application/jsonl; charset=utf-8")
    );
    assert_eq!(answer.header("x-content-type-options"), Some("nosniff"));
    assert!(
        answer.body == text,
        "{} bytes of {}",
        answer.body.len(),
        text.len()
    );
}

#[test]
fn a_file_with_a_bad_line_is_refused_by_its_number() {
    let mut text = text_of(&synthetic::records(1));
    let lines = text.lines().count() as u64;
    text.push_str("\n{\"t\":0,\"n\":\"a\",\"k\":\"slot\"}\n");
    let (_folder, path) = file(&text);
    let error = TraceFile::open(&path).unwrap_err();
    assert!(
        matches!(error, TraceFileError::Line { line, .. } if line == lines + 2),
        "{error}"
    );
    let message = error.to_string();
    assert!(
        message.contains(&format!("line {}: trace line: missing field", lines + 2)),
        "{message}"
    );
    let missing = TraceFile::open(path.with_extension("none")).unwrap_err();
    assert!(matches!(missing, TraceFileError::Open { .. }));
    let large = std::fs::File::create(&path).unwrap();
    large
        .set_len(alphorn_dashboard::TRACE_BYTES_MAX + 1)
        .unwrap();
    assert!(matches!(
        TraceFile::open(&path),
        Err(TraceFileError::TooLarge { .. })
    ));
}

#[tokio::test]
async fn a_file_that_breaks_meanwhile_ends_early() {
    let text = text_of(&synthetic::records(40));
    let (_folder, path) = file(&text);
    let server = Server::start(Source::File(TraceFile::open(&path).unwrap())).await;
    let mut broken = std::fs::File::create(&path).unwrap();
    broken
        .write_all(&text.as_bytes()[..text.len() / 2])
        .unwrap();
    broken.write_all(b"\nnonsense\n").unwrap();
    let answer = server.get("/dashboard/trace").await;
    assert!(answer.body.len() < text.len() / 2 && text.starts_with(&answer.body));
}

#[tokio::test]
async fn a_live_source_gives_its_snapshot_and_goes_on() {
    let records = synthetic::records(2);
    let ring = Arc::new(Mutex::new(Ring::new(7, RingLimits::default())));
    let push = |record: &Record| ring.lock().unwrap().push(record).unwrap();
    let (first, rest) = records.split_at(100);
    first.iter().for_each(|record| {
        push(record);
    });
    let server = Server::start(Source::from(ring.clone())).await;
    let snapshot = server.get("/dashboard/trace/snapshot").await;
    let read: Vec<Record> = TraceReader::new(snapshot.body.as_bytes())
        .map(Result::unwrap)
        .collect();
    assert!(read == first);

    let mut stream = server.open("/dashboard/trace", "").await;
    for record in rest {
        push(record);
    }
    let last = format!("id: 7-{}\n", records.len());
    let body = read_until(&mut stream, &last).await;
    let data: Vec<Record> = body
        .lines()
        .filter_map(|line| line.strip_prefix("data: "))
        .filter(|line| line.starts_with("{\"t\""))
        .map(|line| Record::from_line(line).unwrap())
        .collect();
    assert!(
        data == records,
        "{} of {} records",
        data.len(),
        records.len()
    );
    assert!(body.contains("content-type: text/event-stream"));

    let known = format!("last-event-id: 7-{}\r\n", records.len() - 1);
    let mut again = server.open("/dashboard/trace", &known).await;
    let body = read_until(&mut again, &last).await;
    assert!(
        !body.contains("event: snapshot") && body.matches("\nid: ").count() == 1,
        "{body}"
    );
    // The id of another life of the source is no place in this one.
    let mut other = server
        .open("/dashboard/trace", "last-event-id: 8-5\r\n")
        .await;
    let body = read_until(&mut other, &last).await;
    assert!(body.contains("event: snapshot"));
}

async fn read_until(stream: &mut TcpStream, end: &str) -> String {
    let mut bytes = Vec::new();
    let all = async {
        let mut part = [0; 65_536];
        while !String::from_utf8_lossy(&bytes).contains(end) {
            let read = stream.read(&mut part).await.unwrap();
            assert_ne!(read, 0, "the stream ended");
            bytes.extend_from_slice(&part[..read]);
        }
    };
    tokio::time::timeout(Duration::from_secs(20), all)
        .await
        .expect("in 20 seconds");
    // What follows the id of the last event is still on its way.
    let mut rest = [0; 65_536];
    let tail = tokio::time::timeout(Duration::from_millis(300), stream.read(&mut rest)).await;
    if let Ok(Ok(read)) = tail {
        bytes.extend_from_slice(&rest[..read]);
    }
    String::from_utf8(bytes).unwrap()
}

#[test]
fn the_synthetic_trace_adds_up() {
    let records = synthetic::records(20);
    assert!(records.is_sorted_by_key(|record| record.t));
    let expected = synthetic::expected(&records);
    assert_eq!(expected["records"], records.len());
    assert_eq!(
        (&expected["aggregates"], &expected["slots"]),
        (&(20 * 128).into(), &20.into())
    );
    assert_eq!(expected["finality"]["head"], 19);
}
