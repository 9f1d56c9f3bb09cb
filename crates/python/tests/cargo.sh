#!/usr/bin/env bash
# Stands in for cargo where pip builds the package after the tests of the workspace: asked for together with all the
# rest, the package gets the same features of what it depends on, and what was compiled for the tests serves.
#
#     CARGO=$PWD/crates/python/tests/cargo.sh MATURIN_PEP517_ARGS="--profile dev" pip install ./crates/python
set -euo pipefail
if [ "${1:-}" != rustc ]; then exec cargo "$@"; fi
shift
arguments=()
while [ $# -gt 0 ] && [ "$1" != -- ]; do
    case $1 in
    # What follows is of `cargo rustc` alone, which takes a single package.
    --manifest-path | --crate-type) shift ;;
    --lib) ;;
    *) arguments+=("$1") ;;
    esac
    shift
done
cd "$(dirname "${BASH_SOURCE[0]}")/../../.."
# An example has the features of what tests depend on.
exec cargo build --workspace --lib --example page "${arguments[@]}"
