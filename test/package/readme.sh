#!/usr/bin/env bash
# The program in the README is examples/allreduce.c to the letter. Usage: readme.sh SOURCE
set -euo pipefail
source=$1
diff "$source/examples/allreduce.c" <(awk '/^```$/ {on = 0} on {print} /^```c$/ {on = 1}' "$source/README.md") || {
    echo "FAILED: README.md and examples/allreduce.c differ" >&2
    exit 1
}
