#!/usr/bin/env bash
# PyTorch's own tests by N ranks: gloo, gcoll in gloo's place, and gcoll under its own name. Fails if gcoll fails what gloo passes.
# Usage: PYTHON=python3 torch_suite_check.sh N
set -euo pipefail
ranks=$1
suite=$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/torch_suite
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
for backend in gloo as-gloo gcoll; do
    "$PYTHON" "$suite" run --backend $backend --ranks "$ranks" --output "$folder/$backend.json" 2>"$folder/err" ||
        { tail -50 "$folder/err" >&2; exit 1; }
done
"$PYTHON" "$suite" table "$folder"/*.json
"$PYTHON" "$suite" check "$folder"/*.json
