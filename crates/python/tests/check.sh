#!/usr/bin/env bash
# Tests of the package for Python: builds the wheel, installs it into a fresh virtual environment, runs the tests.
# With a folder as argument, the environment is made and left there.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
if [ $# -gt 0 ]; then
    folder=$1
else
    folder=$(mktemp -d)
    trap 'rm -rf "$folder"' EXIT
fi
python3 -m venv "$folder"
"$folder/bin/pip" install --quiet --disable-pip-version-check ".[frames]"
"$folder/bin/python" tests/test_alphorn.py
