#!/usr/bin/env bash
# Builds the library for WebAssembly and puts it into a folder, with the module for JavaScript that loads it. Needs
# clang, for the C code of blst, and rustup, whose compiler gets the target. Further arguments go to cargo.
#
#     crates/capi/js/install.sh alphorn-js
set -euo pipefail
if [ $# -eq 0 ]; then
    echo "usage: install.sh FOLDER [ARGUMENTS OF CARGO]" >&2
    exit 2
fi
mkdir -p "$1"
folder=$(cd "$1" && pwd)
shift
cd "$(dirname "${BASH_SOURCE[0]}")"
target=wasm32-wasip1
if ! command -v clang >/dev/null; then
    echo "no clang in the path, which compiles C for WebAssembly: apt-get install clang" >&2
    exit 1
fi
if [ ! -d "$(rustc --print sysroot)/lib/rustlib/$target" ]; then rustup target add "$target"; fi
# There are no lanes of vectors here, so what serves them alone is unused: that is no news to who installs.
export CARGO_TARGET_WASM32_WASIP1_RUSTFLAGS="${CARGO_TARGET_WASM32_WASIP1_RUSTFLAGS:-} -A unused"
cargo rustc --quiet --locked --release --target "$target" --package alphorn-capi --lib --crate-type cdylib "$@"
built=${CARGO_TARGET_DIR:-../../../target}/$target/release
install -m 644 alphorn.mjs "$built/alphorn_capi.wasm" "$folder/"
mv "$folder/alphorn_capi.wasm" "$folder/alphorn.wasm"
