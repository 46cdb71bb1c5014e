#!/usr/bin/env bash
# Compiles and runs the code of a page for those who come from another library, docs/from-NAME.md: each block of gcoll's, as three
# ranks; and compiles that of MPI, where MPICH's compiler is installed. Names of gcoll in the text must be declared.
# Usage: coming_from.sh SOURCE NAME WORD LIBRARY CC
set -euo pipefail
source=$1 name=$2 word=$3 library=$4 cc=$5
doc=$source/docs/from-$name.md
scripts=$(dirname "${BASH_SOURCE[0]}")
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT

fail() {
    echo "FAILED: $*" >&2
    exit 1
}

# Names in the text.
names() { grep -ohE '\b(gcoll|GCOLL)_[A-Za-z0-9_]+' "$@" | sort -u; }
programs=$'gcoll_bench\ngcoll_plan\ngcoll_top\ngcoll_trace\ngcoll_NAME_start\ngcoll_NAME_create'
strangers=$(comm -23 <(names "$doc") <({ names "$source"/gcoll/*.h "$source/docs/environment.md"; echo "$programs"; } | sort -u))
[ -z "$strangers" ] || fail "from-$name.md names what is not declared: ${strangers//$'\n'/ }"

# extract SIDE PARAMETERS: makes C of the blocks of one side in the folder $place/SIDE, and sets `count`.
extract() {
    count=$(awk -v out="$place/$1" -v doc="docs/from-$name.md" -v word="$word" -v side="$1" -v parameters="$2" \
        -f "$scripts/pieces.awk" "$doc") || exit 1
    { [ "${count% *}" -ge 1 ] && [ "${count#* }" -ge 6 ]; } || fail "found only this many programs and pieces: $count"
}

mkdir "$place/gcoll" "$place/other"
cat >"$place/gcoll/pieces.c" <<'END'
#include <gcoll/gcoll.h>
#include <stdio.h>
#include <stdlib.h>

static void check(gcoll_status status) {
    if (status != GCOLL_OK) {
        fprintf(stderr, "%s: %s\n", gcoll_status_text(status), gcoll_last_error());
        exit(1);
    }
}
END
extract gcoll 'gcoll_context *context, const uint32_t rank, const uint32_t size'
cat >>"$place/gcoll/pieces.c" <<'END'
/* Each piece has a context of its own, which it may break. */
int main(void) {
    gcoll_context_options options;
    gcoll_context *first, *context;
    gcoll_context_options_init(&options);
    options.recovery = 1;
    check(gcoll_context_create_from_env(&options, &first));
    for (size_t i = 0; i < sizeof pieces / sizeof pieces[0]; i++) {
        check(gcoll_context_duplicate(first, &context));
        check(gcoll_barrier(first, NULL)); /* an abort at once would reach ranks that still make it */
        pieces[i](context, gcoll_context_rank(context), gcoll_context_size(context));
        gcoll_context_destroy(context);
        check(gcoll_barrier(first, NULL));
    }
    gcoll_context_destroy(first);
    return 0;
}
END

# Runs a program as three ranks, which take rank and size from arguments or from variables.
run() {
    local program=$1 rank jobs=()
    for rank in 0 1 2; do
        GCOLL_RANK=$rank GCOLL_SIZE=3 GCOLL_STORE=file:$program.store \
            timeout 60 "$program" "$rank" 3 "file:$program.store" >"$program.$rank" 2>&1 &
        jobs+=($!)
    done
    for rank in 0 1 2; do
        wait "${jobs[rank]}" || fail "${program##*/}, rank $rank; the ranks say: $(head -n 20 "$program".[012])"
    done
}

for file in "$place"/gcoll/*.c; do
    "$cc" -std=gnu11 -O0 -Wall -Wextra -Werror -Wno-unused-parameter -Wno-unused-but-set-variable -I"$source" "$file" "$library" \
        -Wl,-rpath,"$(dirname "$library")" -lm -o "${file%.c}" || fail "from-$name.md does not compile"
    run "${file%.c}"
done
for rank in 0 1 2; do
    grep -qx "rank $rank: the sum is 6" "$place/gcoll/program1.$rank" || fail "the first program says: $(cat "$place/gcoll/program1.$rank")"
done
echo "good: from-$name.md, programs and pieces: $count"

if [ "$name" = mpi ]; then
    mpicc=mpicc.mpich # its package has no header
    if ! echo '#include <mpi.h>' | "$mpicc" -E - >/dev/null 2>&1; then
        echo "left out: MPI's code, as mpicc.mpich with its mpi.h (libmpich-dev) is not installed"
        exit 0
    fi
    printf '#include <mpi.h>\n#include <stdint.h>\n#include <stdio.h>\n' >"$place/other/pieces.c"
    extract other 'MPI_Comm comm, int rank, int size'
    for file in "$place"/other/*.c; do
        "$mpicc" -std=gnu11 -fsyntax-only -Wall -Wno-unused -Werror "$file" || fail "MPI's code does not compile"
    done
    echo "good: MPI's code, programs and pieces: $count"
fi
