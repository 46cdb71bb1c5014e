#!/usr/bin/env bash
# Runs a test of the backend of torch.distributed. Usage: torch_or_skip.sh PYTHON MISSING SCRIPT ARGUMENT...
# PYTHON is empty if the extension was not built; MISSING says why. Exit status 77: skipped.
set -uo pipefail
readonly python=$1 missing=$2
shift 2
if [ -z "$python" ]; then
    echo "skipped: the backend of torch was not built: ${missing:-GCOLL_TORCH=OFF}"
    exit 77
fi
case $1 in
*.py) exec "$python" "$@" ;;
*) PYTHON=$python exec "$@" ;;
esac
