#!/usr/bin/env bash
# Installs a build into a folder, moves the folder, and builds and runs programs against it: C and C++, shared and
# static, by CMake and by pkg-config. Usage: consumers.sh SOURCE BUILD CC CXX
set -euo pipefail
source=$1
build=$2
export CC=$3 CXX=$4
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT

fail() {
    echo "FAILED: $*" >&2
    exit 1
}

version=$(sed -nE 's/^#define GCOLL_VERSION_(MAJOR|MINOR|PATCH) *//p' "$source/gcoll/version.h" | paste -sd.)

# Runs a program, which prints the version, and checks how it is linked: "shared" or "static".
try() {
    [ "$("$1")" = "gcoll $version" ] || fail "$1 does not say gcoll $version"
    if readelf -d "$1" | grep -q 'NEEDED.*libgcoll'; then
        [ "$2" = shared ] || fail "$1 is linked to the shared library"
    else
        [ "$2" = static ] || fail "$1 is not linked to the shared library"
    fi
    echo "good: ${1#"$place"/}"
}

cmake --install "$build" --prefix "$place/first" >/dev/null
mv "$place/first" "$place/prefix"
prefix=$place/prefix
pc=$(find "$prefix" -name gcoll.pc)
lib=$(dirname "$(dirname "$pc")")

build_by_cmake() {
    cmake -S "$source/test/package" -B "$place/cmake" -DCMAKE_PREFIX_PATH="$prefix" && cmake --build "$place/cmake"
}
if ! build_by_cmake >"$place/log" 2>&1; then
    cat "$place/log"
    fail "the CMake project"
fi
for language in c cxx; do
    try "$place/cmake/${language}_gcoll" shared
    try "$place/cmake/${language}_gcoll_static" static
done

export PKG_CONFIG_PATH=$lib/pkgconfig
[ "$(pkg-config --modversion gcoll)" = "$version" ] || fail "gcoll.pc states another version"
read -ra compile <<<"$(pkg-config --cflags gcoll)"
read -ra shared <<<"$(pkg-config --libs gcoll)"
read -ra static <<<"$(pkg-config --static --libs gcoll | sed 's/-lgcoll\b/-l:libgcoll.a/')"
build_by_hand() { # KIND FLAG...
    local kind=$1
    shift
    "$CC" -std=c99 "${compile[@]}" "$source/test/package/consumer.c" -o "$place/pc_c_$kind" \
        "$@" -Wl,-rpath,"$lib"
    "$CXX" -std=c++11 "${compile[@]}" "$source/test/package/consumer.cc" -o "$place/pc_cxx_$kind" \
        "$@" -Wl,-rpath,"$lib"
    try "$place/pc_c_$kind" "$kind"
    try "$place/pc_cxx_$kind" "$kind"
}
build_by_hand shared "${shared[@]}"
build_by_hand static "${static[@]}"

# The text in the README, as it says to build it.
"$CC" "$source/examples/allreduce.c" "${compile[@]}" "${shared[@]}" -Wl,-rpath,"$lib" -o "$place/allreduce"
bash "$source/test/package/example.sh" "$place/allreduce"

# The larger example, as its README says to build it.
"$CC" -O3 "$source"/examples/train/*.c "${compile[@]}" "${shared[@]}" -Wl,-rpath,"$lib" -lm -o "$place/train"
"$place/train" --channels 4 --images 32 --test-images 0 --epochs 1 >/dev/null || fail "examples/train"
echo "good: train"

[ "$(find "$prefix/include" -type f | wc -l)" -eq "$(find "$source/gcoll" -maxdepth 1 -name '*.h' | wc -l)" ] ||
    fail "not every public header is installed"
if [ -e "$build/man/made" ]; then
    for page in man3/gcoll_allreduce_start.3 man7/gcoll.7 man7/gcoll-environment.7; do
        [ -s "$prefix/share/man/$page" ] || fail "$page is not installed"
    done
    diff -r -x CMakeFiles -x made -x cmake_install.cmake "$build/man" "$prefix/share/man" || fail "the manual pages are not those of the build"
    echo "good: manual pages"
fi
shopt -s nullglob
for program in "$prefix"/bin/*; do
    "$program" --help >/dev/null || fail "the installed $(basename "$program") --help"
    echo "good: $(basename "$program")"
done
if [ -x "$prefix/bin/gcoll_bench" ]; then
    "$prefix/bin/gcoll_bench" --local 2 --bytes 4 --iterations 1 >/dev/null || fail "the installed gcoll_bench"
fi
