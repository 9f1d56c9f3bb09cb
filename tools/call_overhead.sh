#!/usr/bin/env bash
# What a call costs from C and from Python beside one from Rust: builds the three and runs call_overhead.py. Only where
# nothing else runs.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$PWD/target}
cargo build --release --locked --package alphorn --package alphorn-bindings --bin alphorn --example calls
crates/capi/install.sh "$folder" --package alphorn
flags=$(PKG_CONFIG_PATH=$folder/lib/pkgconfig pkg-config --cflags --libs alphorn)
# shellcheck disable=SC2086 # several flags
cc -O2 crates/capi/examples/calls.c $flags -o "$folder/calls"
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet ./crates/python
"$folder/venv/bin/python" tools/call_overhead.py "$CARGO_TARGET_DIR/release/examples/calls" "$folder/calls"
