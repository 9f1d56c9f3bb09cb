#!/usr/bin/env bash
# Builds the C library and installs it under a prefix: header, shared and static library, and what pkg-config
# says of them. Further arguments go to cargo.
#
#     crates/capi/install.sh "$HOME/.local"
set -euo pipefail
if [ $# -eq 0 ]; then
    echo "usage: install.sh PREFIX [ARGUMENTS OF CARGO]" >&2
    exit 2
fi
mkdir -p "$1"
prefix=$(cd "$1" && pwd)
shift
cd "$(dirname "${BASH_SOURCE[0]}")"
version=$(sed -n 's/^version = "\(.*\)"/\1/p' ../../Cargo.toml | head -n 1)
cargo build --quiet --locked --release --package alphorn-capi "$@"
built=${CARGO_TARGET_DIR:-../../target}/release

mkdir -p "$prefix/include" "$prefix/lib/pkgconfig"
install -m 644 include/alphorn.h "$prefix/include/"
install -m 644 "$built/libalphorn_capi.a" "$prefix/lib/libalphorn.a"
# Version 0 promises no stable interface, so each minor version has a name of its own.
name=libalphorn.so.${version%.*}
install -m 755 "$built/libalphorn_capi.so" "$prefix/lib/$name"
ln -sf "$name" "$prefix/lib/libalphorn.so"
cat >"$prefix/lib/pkgconfig/alphorn.pc" <<PC
prefix=$prefix

Name: alphorn
Description: BLS and XMSS votes of whole committees, proofs of them, coded broadcast
Version: $version
Cflags: -I\${prefix}/include
Libs: -L\${prefix}/lib -Wl,-rpath,\${prefix}/lib -lalphorn
Libs.private: -lpthread -ldl -lm
PC
