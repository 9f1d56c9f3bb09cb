#!/usr/bin/env bash
# Stands in for cargo where pip builds the package and the program was compiled before: asked for together with it, the
# package is compiled with the same features of what both depend on, and takes seconds in place of minutes.
#
#     CARGO=$PWD/crates/python/tests/cargo.sh pip install ./crates/python
set -euo pipefail
if [ "${1:-}" != rustc ]; then exec cargo "$@"; fi
shift
arguments=()
while [ $# -gt 0 ] && [ "$1" != -- ]; do
    case $1 in
    # `cargo build` has no such options; the manifest says what kind of library it is.
    --crate-type) shift ;;
    --lib) ;;
    *) arguments+=("$1") ;;
    esac
    shift
done
exec cargo build --package alphorn-python --package alphorn "${arguments[@]}"
