//! Vectors of the requests between nodes: the output of the encoders with its meaning, and bytes with one error each.

use super::*;
use alphorn_net::frame::{Deframer, Frame, FrameError, head};
use alphorn_net::{CODE_BUSY, CODE_END};
use serde_json::json;

#[path = "../../../../../vectors/formats/writer.rs"]
mod writer;
use writer::{Vectors, with};

/// The frames of a response, whose chunks have at most this many bytes.
fn frames(mut bytes: &[u8], chunk_bytes_max: usize) -> Result<Vec<Frame>, FrameError> {
    let mut deframer = Deframer::coded(chunk_bytes_max);
    let mut found = Vec::new();
    while !bytes.is_empty() {
        let used = deframer.push(bytes)?;
        bytes = &bytes[used..];
        found.extend(deframer.take());
    }
    deframer.end()?;
    Ok(found)
}

fn frame(code: u8, payload: &[u8]) -> Vec<u8> {
    [&head(Some(code), payload.len())[..], payload].concat()
}

/// Bytes of another length are refused.
fn other_lengths(out: &mut Vectors, format: &str, bytes: &[u8], decodes: impl Fn(&[u8]) -> bool) {
    for (what, wrong) in [
        ("a byte less", bytes[1..].to_vec()),
        ("a byte more", [bytes, &[0]].concat()),
    ] {
        assert!(!decodes(&wrong), "{format}: {what}");
        let name = format!("{format}: {what}");
        out.refused(&name, format, &json!({}), &wrong, "length");
    }
}

#[test]
fn formats_are_those_of_the_vectors() {
    let mut out = Vectors::default();
    let (given, status) = (json!({}), status(8, 7));
    let bytes = status.encode();
    let says = json!({
        "network": hex::encode(status.network), "slot": 9, "head_slot": 7, "head": hex::encode([8; 32]),
        "finalised_slot": 4, "finalised": hex::encode([7; 32]), "time_ms": 1_234,
    });
    assert_eq!(Status::decode(&bytes), Some(status));
    out.valid("status", "status", &given, &bytes, says);
    other_lengths(&mut out, "status", &bytes, |bytes| {
        Status::decode(bytes).is_some()
    });

    let bytes = encode_range(Slot(1 << 33), 128);
    let says = json!({"from": 1_u64 << 33, "count": 128});
    assert_eq!(decode_range(&bytes), Some((Slot(1 << 33), 128)));
    out.valid("range", "blocks_by_range", &given, &bytes, says);
    other_lengths(&mut out, "blocks_by_range", &bytes, |bytes| {
        decode_range(bytes).is_some()
    });

    let given = json!({"chunk_bytes_max": 300});
    let chunks = [[7; 300].to_vec(), vec![9], Vec::new()];
    let mut bytes: Vec<u8> = chunks.iter().flat_map(|chunk| frame(0, chunk)).collect();
    bytes.extend(frame(CODE_END, &[]));
    let found = frames(&bytes, 300).unwrap();
    let payloads = found.iter().filter(|frame| frame.code == 0);
    assert!(payloads.map(|frame| &frame.payload).eq(&chunks));
    let says = json!({"code": CODE_END, "chunks": chunks.map(hex::encode)});
    out.valid("response", "response", &given, &bytes, says);
    let says = json!({"code": CODE_BUSY, "chunks": []});
    let busy = frame(CODE_BUSY, &[]);
    assert_eq!(frames(&busy, 300).unwrap().len(), 1);
    out.valid("response: busy", "response", &given, &busy, says);
    for (what, wrong) in [
        ("a chunk that is too long", with(&bytes, 1, &[0xad])),
        (
            "a length that is longer than it must be",
            vec![0, 0x81, 0, 7],
        ),
        (
            "a length that does not end",
            vec![0, 0xff, 0xff, 0xff, 0xff, 1],
        ),
        ("cut off", bytes[..bytes.len() - 1].to_vec()),
    ] {
        let class = match frames(&wrong, 300).expect_err(what) {
            FrameError::Long { .. } | FrameError::Cut(_) => "length",
            FrameError::Length => "canonical",
        };
        let name = format!("response: {what}");
        out.refused(&name, "response", &given, &wrong, class);
    }
    out.check("requests.json");
}
