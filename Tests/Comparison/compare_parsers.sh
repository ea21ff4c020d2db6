#!/usr/bin/env bash
# Makes an environment with h11 and httptools and runs the comparison in it.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
environment=${TMPDIR:-/tmp}/cistern-parsers
[ -x "$environment/bin/python" ] || python3 -m venv "$environment"
"$environment/bin/pip" install --quiet h11 httptools
"$environment/bin/python" "$here/compare_parsers.py"
