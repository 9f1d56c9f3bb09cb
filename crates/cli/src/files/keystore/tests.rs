//! The vectors of EIP-2335, round trips, and keystores that request too much.

use super::kdf::KdfError;
use super::*;
use serde_json::json;

const PASSWORD: &str = "𝔱𝔢𝔰𝔱𝔭𝔞𝔰𝔰𝔴𝔬𝔯𝔡🔑";
const SECRET: &str = "000000000019d6689c085ae165831e934ff763ae46a2a6c172b3f1b60a8ce26f";
const PLAIN: Contents = Contents {
    secret_bytes: 32,
    declared: None,
};
const SCRYPT: &str = include_str!("../../../../../vectors/eip-2335/scrypt.json");
const PBKDF2: &str = include_str!("../../../../../vectors/eip-2335/pbkdf2.json");

/// Returns the scrypt vector with one field replaced.
fn with(pointer: &str, value: Value) -> Value {
    let mut file: Value = serde_json::from_str(SCRYPT).unwrap();
    *file.pointer_mut(pointer).unwrap() = value;
    file
}

fn parse(file: Value) -> Result<Keystore, String> {
    serde_json::from_value(file).map_err(|error| error.to_string())
}

/// Checks the scrypt vector with one field replaced.
fn check_with(pointer: &str, value: Value) -> Result<(), KeystoreError> {
    parse(with(pointer, value)).unwrap().check(PLAIN)
}

#[test]
fn both_vectors_of_eip_2335_open() {
    for text in [SCRYPT, PBKDF2] {
        let keystore: Keystore = serde_json::from_str(text).unwrap();
        let secret = keystore.open(&Password::from_text(PASSWORD), PLAIN);
        assert_eq!(hex::encode(secret.unwrap().bytes()), SECRET);
        let written = serde_json::to_value(&keystore).unwrap();
        assert_eq!(written, serde_json::from_str::<Value>(text).unwrap());
        let key = alphorn_bls::SecretKey::from_bytes(&hex::decode(SECRET).unwrap()).unwrap();
        assert_eq!(keystore.public_key().unwrap(), key.public_key().to_bytes());
    }
    let keystore: Keystore = serde_json::from_str(PBKDF2).unwrap();
    let wrong = keystore.open(&Password::from_text("testpassword"), PLAIN);
    assert_eq!(wrong.err(), Some(KeystoreError::Password));
}

#[test]
fn what_is_sealed_opens_and_a_flipped_bit_does_not() {
    let password = Password::from_text("correct horse");
    let secret = Secret::new((1..=32).collect());
    for kdf in [KdfName::Scrypt, KdfName::Pbkdf2] {
        let protection = Protection { kdf, cost_log2: 10 };
        let seal = || {
            Keystore::seal(
                &secret,
                &[7; 48],
                &password,
                protection,
                About::default(),
                None,
            )
            .unwrap()
        };
        let (keystore, again) = (seal(), seal());
        assert_ne!(keystore.crypto, again.crypto, "salt and iv are fresh");
        assert_ne!(keystore.uuid, again.uuid);
        let text = serde_json::to_string(&keystore).unwrap();
        let read: Keystore = serde_json::from_str(&text).unwrap();
        assert_eq!(read, keystore);
        let opened = read.open(&password, PLAIN).unwrap();
        assert_eq!(opened.bytes(), secret.bytes());
        let mut flipped = keystore.clone();
        flipped.crypto.cipher.message.0[31] ^= 1;
        let refused = flipped.open(&password, PLAIN).err();
        assert_eq!(refused, Some(KeystoreError::Password));
    }
}

#[test]
fn hostile_parameters_are_refused_before_any_work() {
    let kdf = |error| Err(KeystoreError::Kdf(error));
    let max = 1 << 22;
    for n in [0u64, 1, 3, 262_143, 1 << 23, u64::MAX, 1 << 63] {
        let refused = check_with("/crypto/kdf/params/n", json!(n));
        assert_eq!(refused, kdf(KdfError::ScryptN { n, max }));
    }
    for value in [0u64, 65, u64::MAX] {
        for name in ["r", "p"] {
            let refused = check_with(&format!("/crypto/kdf/params/{name}"), json!(value));
            assert_eq!(refused, kdf(KdfError::ScryptFactor { name, value }));
        }
    }
    let (n, r, bytes) = (1 << 18, 17, (128 * 17) << 18);
    let refused = check_with("/crypto/kdf/params/r", json!(r));
    assert_eq!(refused, kdf(KdfError::ScryptMemory { n, r, bytes }));
    let refused = check_with("/crypto/kdf/params/p", json!(9));
    let work = (8 * 9) << 18;
    assert_eq!(refused, kdf(KdfError::ScryptWork { work }));
    assert_eq!(check_with("/crypto/kdf/params/p", json!(8)), Ok(()));
    let dklen = 64;
    let refused = check_with("/crypto/kdf/params/dklen", json!(dklen));
    assert_eq!(refused, kdf(KdfError::DerivedBytes { dklen }));
    for got in [0, 65] {
        let refused = check_with("/crypto/kdf/params/salt", json!("ab".repeat(got)));
        assert_eq!(refused, kdf(KdfError::Salt { got }));
    }
    for c in [0u64, (1 << 24) + 1, 1 << 32] {
        let mut file: Value = serde_json::from_str(PBKDF2).unwrap();
        file["crypto"]["kdf"]["params"]["c"] = json!(c);
        let refused = parse(file).unwrap().check(PLAIN);
        assert_eq!(refused, kdf(KdfError::Pbkdf2C { c }));
    }
    let opened = parse(with("/crypto/kdf/params/n", json!(1u64 << 40)))
        .unwrap()
        .open(&Password::from_text(PASSWORD), PLAIN);
    assert!(matches!(opened.err(), Some(KeystoreError::Kdf(_))));
}

#[test]
fn lengths_version_and_names_are_checked() {
    assert_eq!(
        check_with("/version", json!(3)),
        Err(KeystoreError::Version {
            version: 3,
            expected: 4
        })
    );
    let uuid = "1d85ae20".to_owned();
    assert_eq!(
        check_with("/uuid", json!(uuid)),
        Err(KeystoreError::Uuid(uuid))
    );
    for (pointer, what, expected) in [
        ("/crypto/cipher/params/iv", "an iv", 16),
        ("/crypto/checksum/message", "a checksum", 32),
        ("/crypto/cipher/message", "an encrypted secret", 32),
    ] {
        let got = expected - 1;
        assert_eq!(
            check_with(pointer, json!("ab".repeat(got))),
            Err(KeystoreError::Length {
                what,
                got,
                expected
            })
        );
    }
    for (pointer, value, message) in [
        (
            "/crypto/kdf/function",
            json!("argon2"),
            "unknown variant `argon2`",
        ),
        (
            "/crypto/cipher/function",
            json!("aes-128-gcm"),
            "unknown variant",
        ),
        ("/crypto/kdf/params/n", json!(-1), "invalid value"),
        ("/crypto/kdf/params/n", json!(2.5), "invalid type"),
        ("/crypto/kdf/params", json!({}), "missing field"),
        (
            "/crypto/checksum/params",
            json!({ "x": 1 }),
            "unknown field `x`",
        ),
        ("/crypto/cipher/message", json!("0g"), "Invalid character"),
    ] {
        let error = parse(with(pointer, value)).unwrap_err();
        assert!(error.contains(message), "{pointer}: {error}");
    }
    let mut file: Value = serde_json::from_str(SCRYPT).unwrap();
    file["name"] = json!("a wallet's name");
    assert_eq!(parse(file).unwrap().foreign_fields(), ["name"]);
}

/// A fixed pseudo-random sequence (SplitMix64, Steele, Lea and Flood 2014).
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % bound as u64) as usize
    }
}

/// What a mutation inserts into a keystore: pieces of JSON and of its own fields.
const PIECES: [&str; 14] = [
    "0",
    "-1",
    "1e9",
    "18446744073709551616",
    "null",
    "\"\"",
    "{}",
    "[]",
    "\"zz\"",
    "262144",
    "\\u0000",
    "\"n\":1073741824,",
    "\"c\":4294967295,",
    ",",
];

/// Whether the key derivation costs at most four times that of the test's own keystores.
fn asks_for_little(bytes: &[u8]) -> bool {
    let file: Value = serde_json::from_slice(bytes).unwrap();
    let params = &file["crypto"]["kdf"]["params"];
    let of = |name: &str| params[name].as_u64().unwrap_or(1);
    let work = |names: [&str; 4]| {
        names
            .iter()
            .fold(1u64, |work, name| work.saturating_mul(of(name)))
    };
    work(["n", "r", "p", "c"]) <= 4 * 8 * 1024
}

#[test]
fn mutated_keystores_are_refused_or_hold_the_very_secret() {
    let password = Password::from_text("a");
    let secret = Secret::new((1..=32).collect());
    let mut random = Random(7);
    let (mut parsed, mut opened) = (0, 0);
    for kdf in [KdfName::Scrypt, KdfName::Pbkdf2] {
        let protection = Protection { kdf, cost_log2: 10 };
        let keystore = Keystore::seal(
            &secret,
            &[7; 48],
            &password,
            protection,
            About::default(),
            None,
        );
        let text = serde_json::to_string(&keystore.unwrap()).unwrap();
        for _ in 0..1_500 {
            let mut bytes = text.clone().into_bytes();
            for _ in 0..=random.below(2) {
                let at = random.below(bytes.len());
                match random.below(4) {
                    0 => bytes[at] ^= 1 << random.below(8),
                    1 => bytes[at] = b"0123456789abcdef\",:{}"[random.below(21)],
                    2 => {
                        let end = (at + random.below(9)).min(bytes.len());
                        bytes.drain(at..end);
                    }
                    _ => {
                        let piece = PIECES[random.below(PIECES.len())].bytes();
                        bytes.splice(at..at, piece);
                    }
                }
            }
            let Ok(keystore) = serde_json::from_slice::<Keystore>(&bytes) else {
                continue;
            };
            parsed += 1;
            // A legal mutation of the cost may require seconds of work, so it is skipped here.
            if !asks_for_little(&bytes) {
                continue;
            }
            if let Ok(found) = keystore.open(&password, PLAIN) {
                opened += 1;
                // The checksum covers the password's key and the encrypted secret, not the counter
                // block: a different counter block decrypts to different bytes, as EIP-2335 specifies.
                let iv = &keystore.crypto.cipher.params.iv;
                let same_iv = text.contains(&format!("{iv}"));
                assert_eq!(found.bytes() == secret.bytes(), same_iv);
            }
        }
    }
    println!("{parsed} of 3000 parse, {opened} open");
    assert!(
        parsed > 300 && opened > 100,
        "{parsed} parsed, {opened} opened"
    );
}

/// Keystores that name their scheme: version 5, another cipher, and everything in them counts.
#[test]
fn declared_keystores_open_for_their_scheme_alone() {
    let declared = |flavour| {
        Some(Declared {
            name: "falcon512",
            flavour,
        })
    };
    let password = Password::from_text("correct horse");
    let contents = |flavour| Contents {
        secret_bytes: 1345,
        declared: declared(flavour),
    };
    let secret = Secret::new((0..1345).map(|i| i as u8).collect());
    let protection = Protection {
        kdf: KdfName::Scrypt,
        cost_log2: 10,
    };
    let about = About::default();
    let keystore = Keystore::seal(
        &secret,
        &[7; 897],
        &password,
        protection,
        about,
        declared("r3"),
    )
    .unwrap();
    let file = serde_json::to_value(&keystore).unwrap();
    assert_eq!(file["version"], 5);
    assert_eq!(file["crypto"]["cipher"]["function"], "aes-256-gcm");
    let scheme = json!({"name": "falcon512", "params": {"flavour": "r3"}});
    assert_eq!(file["scheme"], scheme);
    let read = parse(file.clone()).unwrap();
    let opened = read.open(&password, contents("r3")).unwrap();
    assert_eq!(opened.bytes(), secret.bytes());
    let wrong = read.open(&Password::from_text("wrong"), contents("r3"));
    assert_eq!(wrong.err(), Some(KeystoreError::Password));
    let named = read.check(contents("fndsa04")).unwrap_err().to_string();
    assert!(named.contains("of flavour r3"), "{named}");
    let version = KeystoreError::Version {
        version: 5,
        expected: 4,
    };
    assert_eq!(read.check(PLAIN), Err(version));
    for (pointer, value, words) in [
        ("/version", json!(4), "must be 5"),
        ("/scheme", Value::Null, "without `scheme`"),
        ("/scheme/name", json!("falcon1024"), "of falcon1024"),
        ("/scheme/params/flavour", json!("fndsa04"), "fndsa04"),
        (
            "/crypto/cipher/function",
            json!("aes-128-ctr"),
            "must be aes-256-gcm",
        ),
        ("/crypto/cipher/params/iv", json!("00"), "an iv of 1 bytes"),
        (
            "/crypto/cipher/message",
            json!("00"),
            "an encrypted secret of 1 bytes: must have 1361",
        ),
    ] {
        let mut file = file.clone();
        *file.pointer_mut(pointer).unwrap() = value;
        let refused = parse(file).unwrap().check(contents("r3"));
        let text = refused.unwrap_err().to_string();
        assert!(text.contains(words), "{pointer}: {text}");
    }
    // The tag covers what the file's checksum does not: the nonce.
    let mut changed = keystore.clone();
    changed.crypto.cipher.params.iv.0[3] ^= 1;
    let refused = changed.open(&password, contents("r3")).err();
    assert_eq!(refused, Some(KeystoreError::Password));
}
