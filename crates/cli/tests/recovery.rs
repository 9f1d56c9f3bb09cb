//! Where a node begins, and what it does about files that are not as it left them.

mod bench;

use bench::Bench;
use std::fs;

/// A node that ends as soon as it runs, since its standard input has ended.
const NODE: &str = "node --genesis net --node-id node-0 --data-dir data \
                    --node-key net/node-0/node.key --api-port 0 --gossipsub-port 0 \
                    --exit-on-stdin-eof";

fn network() -> Bench {
    let bench = Bench::new();
    let line = "genesis --out net --nodes 2 --validators 16 --genesis-time 4000000000";
    bench.run(line).expect(0, "16 validators");
    bench
}

#[test]
fn a_checkpoint_is_one_of_the_network_and_of_the_digest_that_was_told() {
    let bench = network();
    let refused = |options: &str, code: i32, text: &str| {
        bench.run(&format!("{NODE} {options}")).expect(code, text);
    };
    refused("--checkpoint none", 2, "--checkpoint none");
    refused(
        "--checkpoint net/config.yaml",
        2,
        "does not begin as a checkpoint",
    );
    let digest = "00".repeat(32);
    refused(
        &format!("--checkpoint net/config.yaml --checkpoint-digest {digest}"),
        1,
        "--checkpoint-digest says 0000",
    );
    refused(
        "--checkpoint net/config.yaml --checkpoint-digest 12",
        2,
        "must be 64 hexadecimal digits",
    );
    refused(&format!("--checkpoint-digest {digest}"), 2, "--checkpoint");
    refused(
        "--checkpoint http://127.0.0.1:1/",
        2,
        "needs --checkpoint-digest",
    );
    refused("--checkpoint ftp://a/b", 2, "must be a file or an http://");
    refused(
        &format!("--checkpoint http://127.0.0.1:1/ --checkpoint-digest {digest}"),
        2,
        "http://127.0.0.1:1",
    );
    // Another network's: its identity is other keys and times.
    let mut other = b"alphorn-anchor1\n".to_vec();
    other.extend([9; 200]);
    fs::write(bench.path("other"), other).unwrap();
    refused("--checkpoint other", 2, "a checkpoint of another network");
    // A rehearsal refuses what a start does.
    for (name, why) in [
        ("net/config.yaml", "does not begin as a checkpoint"),
        ("other", "a checkpoint of another network"),
    ] {
        refused(&format!("--dry-run --checkpoint {name}"), 2, why);
    }
    assert!(
        !bench.path("data/safety.redb").exists(),
        "nothing was begun"
    );
}

#[test]
fn marks_that_are_gone_or_damaged_are_refused_and_blocks_are_made_anew() {
    let bench = network();
    bench.run(NODE).expect(0, "node-0");
    bench.run(NODE).expect(0, "node-0");
    let (safety, node) = (bench.path("data/safety.redb"), bench.path("data/node.redb"));
    // The blocks are a cache.
    fs::write(&node, [7; 10_000]).unwrap();
    bench.run(NODE).expect(0, "node.redb was damaged");
    assert!(bench.path("data/node.redb.damaged").exists());
    assert_eq!(bench.json("data/summary.json")["files_rebuilt"], 1);
    // The marks are not.
    let whole = fs::read(&safety).unwrap();
    fs::remove_file(&safety).unwrap();
    bench
        .run(NODE)
        .expect(2, "is missing, and keys of this folder");
    assert!(!safety.exists(), "no file is made without a word");
    fs::write(&safety, &whole[..whole.len() / 2]).unwrap();
    bench.run(NODE).expect(2, "--accept-new-safety-file");
    fs::write(&safety, &whole).unwrap();
    bench.run(NODE).expect(0, "node-0");
    fs::remove_file(&safety).unwrap();
    let line = format!("{NODE} --accept-new-safety-file");
    bench.run(&line).expect(0, "a new one was made");
    bench.run(NODE).expect(0, "node-0");
    // The one that was there before is another file now.
    fs::write(&safety, &whole).unwrap();
    bench
        .run(NODE)
        .expect(2, "it was set back or is another file");
}

/// As on a disk without room: the node did its duties all the same.
#[test]
fn a_node_whose_figures_cannot_be_written_ends_well() {
    use std::os::unix::fs::PermissionsExt;
    let bench = network();
    fs::create_dir_all(bench.path("data/summary.json")).unwrap();
    fs::set_permissions(bench.path("data"), PermissionsExt::from_mode(0o700)).unwrap();
    bench.run(NODE).expect(0, "cannot write data/summary.json");
}
