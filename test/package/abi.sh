#!/usr/bin/env bash
# The library has the binary interface that .ci/gcoll.abi keeps, and .ci/abi notices another one: each break below is planted in a
# copy of what is kept. Usage: abi.sh SOURCE LIBRARY
set -euo pipefail
source=$1
library=$2
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
kept=$source/.ci/gcoll.abi

status=0
"$source/.ci/abi" "$library" || status=$?
[ "$status" -eq 0 ] || exit "$status"

# planted NAME WORDS: the copy differs from what is kept, and .ci/abi fails and prints the words.
planted() {
    ! cmp -s "$kept" "$place/$1" || { echo "FAILED: nothing was planted for '$1'" >&2; exit 1; }
    if "$source/.ci/abi" "$library" "$place/$1" >"$place/said" 2>&1; then
        echo "FAILED: .ci/abi does not notice: $1" >&2
        exit 1
    fi
    grep -qF -- "$2" "$place/said" || { echo "FAILED: .ci/abi does not say '$2' of: $1" >&2; cat "$place/said" >&2; exit 1; }
    echo "noticed: $1"
}

sed "s/'gcoll_version'/'gcoll_gone'/g; s/'gcoll_version@@/'gcoll_gone@@/g" "$kept" >"$place/removed function"
planted 'removed function' "[D] 'function const char* gcoll_gone()'"

sed "s/name='GCOLL_MAX' value='[0-9]*'/name='GCOLL_MAX' value='77'/" "$kept" >"$place/number of a constant"
planted 'number of a constant' "'gcoll_op::GCOLL_MAX' from value '77'"

# The second member of gcoll_context_options is taken out, as if the library had got a new one there.
awk "/class-decl name='gcoll_context_options' size/ { inside = 1 } /<data-member/ && inside && ++member == 2 { gone = 1 }
    !gone { print } /<\\/data-member/ { if (gone) inside = 0; gone = 0 }" "$kept" >"$place/new member of a struct"
planted 'new member of a struct' '1 data member insertion'

# A count of 32 bits in place of one of 64.
narrow=$(sed -nE "s/.*typedef-decl name='uint32_t'.* id='([^']*)'.*/\1/p" "$kept" | sed -n 1p)
awk -v narrow="$narrow" "/function-decl name='gcoll_allreduce' / { inside = 1 }
    /<parameter/ && inside && ++parameter == 4 { sub(/type-id='[^']*'/, \"type-id='\" narrow \"'\") }
    /<\\/function-decl/ { inside = 0 } { print }" "$kept" >"$place/type of a parameter"
planted 'type of a parameter' "parameter 4 of type 'typedef uint32_t'"

head -c 100000 "$kept" >"$place/dump that is cut off"
planted 'dump that is cut off' 'cannot read'
