#!/usr/bin/env bash
# The shared library exports what the public headers declare and nothing else, each name with the version of the library's own
# name; the static one defines no name that is not gcoll's. Usage: symbols.sh HEADERS SHARED STATIC
set -euo pipefail
headers=$1
shared=$2
static=$3

# A declaration may be spread over lines: "GCOLL_API type name(".
declared=$(cat "$headers"/*.h | tr '\n' ' ' | grep -oE 'GCOLL_API [^;(]*\(' | grep -oE 'gcoll_[a-z0-9_]+\($' | tr -d '(' | sort)
node=GCOLL_$(readelf -d "$shared" | sed -nE 's/.*\(SONAME\).*\[libgcoll\.so\.(.*)\]/\1/p')
exported=$(nm -D --defined-only "$shared" | awk '$2 != "A" {print $NF}' | sort) # A: the version itself
unversioned=$(grep -v "@@$node\$" <<<"$exported" || true)
[ -z "$unversioned" ] || {
    echo "FAILED: exported without the version $node: $unversioned" >&2
    exit 1
}
exported=${exported//@@$node/}
[ "$(wc -l <<<"$declared")" -gt 40 ] || {
    echo "FAILED: found too few declarations: $declared" >&2
    exit 1
}
# Functions without the macro would be missing on both sides. Comments and lines of the preprocessor go, then a declaration
# is what ends with ; or begins a block.
hidden=$(cat "$headers"/*.h | sed -e ':more; /\\$/ { N; s/\\\n/ /; b more }' -e '/^ *#/d' | tr '\n' ' ' |
    sed -E 's@/\*([^*]|\*+[^*/])*\*+/@ @g' | tr ';{}' '\n\n\n' |
    grep -E '^[^(=]*[ *]gcoll_[a-z0-9_]+ *\([^*]' | grep -vE '\b(GCOLL_API|typedef|static|inline|return)\b' || true)
[ -z "$hidden" ] || {
    echo "FAILED: declared without GCOLL_API: $hidden" >&2
    exit 1
}
diff <(echo "$declared") <(echo "$exported") || {
    echo "FAILED: declared (<) and exported (>) differ" >&2
    exit 1
}
strangers=$(nm -g --defined-only "$static" 2>/dev/null | awk 'NF == 3 && $3 !~ /^gcoll_/ {print $3}')
[ -z "$strangers" ] || {
    echo "FAILED: names in $static that are not gcoll's: $strangers" >&2
    exit 1
}
echo "good: $(wc -l <<<"$exported") names exported"
