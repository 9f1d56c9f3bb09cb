#!/usr/bin/env bash
# Puts the page that verifies a proof into a folder: the page, the library for JavaScript, and the proof. The folder is
# then served as it is, by any server of files.
#
#     docs/browser/build.sh target/book/browser
set -euo pipefail
if [ $# -ne 1 ]; then
    echo "usage: build.sh FOLDER" >&2
    exit 2
fi
mkdir -p "$1"
folder=$(cd "$1" && pwd)
cd "$(dirname "${BASH_SOURCE[0]}")"
../../crates/capi/js/install.sh "$folder"
install -m 644 index.html page.mjs ../../vectors/proofs/merged.json "$folder/"
