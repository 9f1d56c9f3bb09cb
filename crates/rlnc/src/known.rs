//! The known answers of `vectors/rlnc/broadcast.txt`.

/// The 32 bytes with this name.
pub(crate) fn hash(name: &str) -> [u8; 32] {
    let text = include_str!("../../../vectors/rlnc/broadcast.txt");
    let mut lines = text.lines().filter_map(|line| line.split_once(' '));
    let (_, value) = lines
        .find(|(key, _)| *key == name)
        .expect("a name of the file");
    hex::decode(value).unwrap().try_into().unwrap()
}

/// The payload 00 01 ... f7.
pub(crate) fn counting_payload() -> Vec<u8> {
    (0..248).collect()
}
