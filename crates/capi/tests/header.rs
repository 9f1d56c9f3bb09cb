//! `include/alphorn.h` is what cbindgen makes of the border: `just header` makes it again.

use std::path::Path;

#[test]
fn the_header_is_current() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let config = cbindgen::Config::from_file(root.join("cbindgen.toml")).unwrap();
    let border = root.join("src/border");
    let rooms = [
        "outcome",
        "memory",
        "context",
        "watch",
        "bls",
        "committees",
        "xmss",
        "proofs",
        "broadcast",
    ];
    let builder = cbindgen::Builder::new().with_config(config);
    let builder = rooms.iter().fold(builder, |builder, room| {
        builder.with_src(border.join(room).with_extension("rs"))
    });
    let mut made = Vec::new();
    builder.generate().unwrap().write(&mut made);
    let (made, path) = (
        String::from_utf8(made).unwrap(),
        root.join("include/alphorn.h"),
    );
    if std::env::var_os("ALPHORN_WRITE_HEADER").is_some() {
        std::fs::write(&path, &made).unwrap();
    }
    let known = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        made == known,
        "include/alphorn.h is not current: `just header` makes it again"
    );

    // A function that cbindgen does not see is one that C cannot call.
    for room in std::fs::read_dir(&border).unwrap() {
        let text = std::fs::read_to_string(room.unwrap().path()).unwrap();
        for line in text
            .lines()
            .filter(|line| line.contains("extern \"C\" fn alphorn_"))
        {
            let name = line.split("fn ").nth(1).unwrap().split('(').next().unwrap();
            assert!(
                made.contains(&format!("{name}(")),
                "{name} is not in the header"
            );
        }
    }
}
