#!/usr/bin/env bash
# The algorithm that CONTRIBUTING.md adds is examples/planner.c to the letter. Usage: contributing.sh SOURCE
set -euo pipefail
source=$1
diff "$source/examples/planner.c" <(awk '/^```$/ {on = 0} on {print} /^```c$/ {on = 1}' "$source/CONTRIBUTING.md") || {
    echo "FAILED: CONTRIBUTING.md and examples/planner.c differ" >&2
    exit 1
}
