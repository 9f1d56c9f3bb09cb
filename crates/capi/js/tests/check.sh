#!/usr/bin/env bash
# Tests of the library for JavaScript, with the proofs of vectors/: in Node, and on the page of the book in a headless
# Chromium. Builds both. With a folder as argument, they are made and left there.
#
# Needs what install.sh needs, Node 18 or newer, npm, and a Chromium: the one that CHROMIUM_PATH names, or one in the
# path. ALPHORN_NO_BROWSER=1 leaves the browser out, and the last line says so.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
if ! node -e 'process.exit(process.versions.node.split(".")[0] >= 18 ? 0 : 1)'; then
    echo "Node $(node --version) is here, 18 or newer is needed" >&2
    exit 1
fi
if [ $# -gt 0 ]; then
    folder=$1
else
    folder=$(mktemp -d)
    trap 'rm -rf "$folder"' EXIT
fi
../../../docs/browser/build.sh "$folder"
# The page of a reader waits for these bytes.
packed=$(gzip --best --stdout "$folder/alphorn.wasm" | wc -c)
echo "alphorn.wasm: $packed bytes gzipped"
if [ "$packed" -gt 1500000 ]; then
    echo "alphorn.wasm has $packed bytes gzipped, at most 1500000 are wanted" >&2
    exit 1
fi
ALPHORN_JS=$(cd "$folder" && pwd)
export ALPHORN_JS
node --test tests/alphorn.test.mjs
if [ "${ALPHORN_NO_BROWSER:-}" = 1 ]; then
    echo "JavaScript: tested in Node; NOT tested in a browser, because ALPHORN_NO_BROWSER=1"
    exit
fi
# The driver of the browser is that of the dashboard's tests.
(cd ../../dashboard && npm ci --no-audit --no-fund --silent)
node --test tests/page.test.mjs
echo "JavaScript: tested in Node and in a browser"
