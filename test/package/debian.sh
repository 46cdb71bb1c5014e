#!/usr/bin/env bash
# The folder debian/ agrees with the library: its version, the name of its package, what its build needs, and the names that it
# exports.
# Usage: debian.sh SOURCE SHARED
set -euo pipefail
source=$1
shared=$2

fail() {
    echo "FAILED: $*" >&2
    exit 1
}

version=$(sed -nE 's/^#define GCOLL_VERSION_(MAJOR|MINOR|PATCH) *//p' "$source/gcoll/version.h" | paste -sd.)
packaged=$(sed -nE '1s/^gcoll \(([^)]*)\) .*/\1/p' "$source/debian/changelog")
[ "$packaged" = "$version" ] || fail "debian/changelog begins with version '$packaged', gcoll/version.h has $version"

# The package of a shared library is called as the library itself, so that two versions can be installed side by side.
soname=$(readelf -d "$shared" | sed -nE 's/.*\(SONAME\).*\[(.*)\]/\1/p')
package=libgcoll${soname#libgcoll.so.}
grep -qx "Package: $package" "$source/debian/control" || fail "the library is $soname, and debian/control has no package $package"
others=$(grep -ohE '\blibgcoll[0-9][0-9.]*[0-9]\b' "$source/debian/control" "$source/debian/$package.symbols" | grep -vxF "$package" || true)
[ -z "$others" ] || fail "debian/ names other packages than $package: $others"
for file in "$source"/debian/libgcoll[0-9]*; do
    [[ $(basename "$file") == "$package".* ]] || fail "$(basename "$file") is not of the package $package"
done

# What scripts/packages installs for a build, debian/control asks for; compiler and C library come with build-essential.
wanted=$(sed -n '/^Build-Depends:/,/^[^ ]/s/^ \([a-z0-9.+-]*\).*/\1/p' "$source/debian/control")
build=$(sed -nE 's/^build=\((.*)\)$/\1/p' "$source/scripts/packages")
[ -n "$build" ] || fail "found no list 'build' in scripts/packages"
for name in $build; do
    [[ $name == gcc || $name == libc6-dev ]] || grep -qxF "$name" <<<"$wanted" || fail "debian/control has no Build-Depends on $name"
done

exported=$(nm -D --defined-only "$shared" | awk '{print $NF}' | sed -E 's/^([^@]*)$/\1@@\1/; s/@@/@/' | sort)
listed=$(awk '/^ / {print $1}' "$source/debian/$package.symbols" | sort)
grep -qx "$soname $package #MINVER#" "$source/debian/$package.symbols" || fail "debian/$package.symbols is not of $soname"
diff <(echo "$listed") <(echo "$exported") || fail "debian/$package.symbols lists (<), the library exports (>)"
echo "good: $package $version, $(wc -l <<<"$exported") names"
