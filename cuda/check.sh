#!/usr/bin/env bash
# All checks that need a GPU: builds, tests, runs the toolkit's sanitizer, measures, and prints a table.
# Usage: cuda/check.sh [BUILD]   (build/cuda)
# Needs nvcc, a GPU, and what scripts/packages test installs, and jq. Takes some minutes.
# Exit status: 0 if all holds; 1 if something does not; 2 for a bad command line; 77 where there is no GPU, and
# says so.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

usage() {
    cat <<'END'
Usage: cuda/check.sh [BUILD]
Builds into BUILD (build/cuda), tests, runs the toolkit's sanitizer, measures, and prints a table.
Needs nvcc, a GPU, and what scripts/packages test installs, and jq. Takes some minutes.
Exit status: 0 if all holds; 1 if something does not; 2 for a bad command line; 77 where there is no GPU.
END
}

case ${1:-} in
    --help)
        usage
        exit 0
        ;;
    -*)
        echo "cuda/check.sh: found '$1'; allowed: --help, or a folder to build in" >&2
        exit 2
        ;;
esac

build=${1:-build/cuda}
log=$build/check.log
size=$((64 << 20)) # of the vectors that are staged in a pipeline
least_pipelined=0.85
failures=0
rows=()

# What is short of its mark is reported and does not stop the rest.
report() { # WHAT FIGURE WANTED GOOD(0|1)
    local verdict=good
    [ "$4" -eq 0 ] || {
        verdict=FAILED
        failures=$((failures + 1))
    }
    rows+=("$(printf '%-58s %-22s %-14s %s' "$1" "$2" "$3" "$verdict")")
    echo "${rows[-1]}"
}

# Runs a command with its output in the log, and reports it.
try() { # WHAT COMMAND...
    local what=$1 result=0
    shift
    echo "\$ $*" >>"$log"
    "$@" >>"$log" 2>&1 || result=$?
    report "$what" "exit $result" "exit 0" "$((result != 0))"
}

holds() { # EXPRESSION-OF-AWK: 0 if it does
    awk "BEGIN { exit !($1) }" && echo 0 || echo 1
}

bench() {
    "$build/benchmark/gcoll_bench" --format json "$@"
}

# Microseconds of an allreduce, the median, or nothing.
time_us() { # ARGUMENT...
    bench --local 2 --transport tcp --bytes "$size" --iterations 21 "$@" 2>>"$log" | jq -r .p50_us || true
}

if ! command -v nvidia-smi >/dev/null || ! nvidia-smi -L | grep GPU >/dev/null; then
    echo "cuda/check.sh: no GPU was found (nvidia-smi -L lists none): nothing was checked" >&2
    exit 77
fi
for tool in jq cmake ctest; do
    command -v "$tool" >/dev/null || {
        echo "cuda/check.sh: needs $tool" >&2
        exit 1
    }
done

mkdir -p "$build"
: >"$log"
nvidia-smi -L | tee -a "$log"
if ! { cmake --preset release -B "$build" -DGCOLL_CUDA=ON && cmake --build "$build" --parallel "$(nproc)"; } >>"$log" 2>&1; then
    echo "cuda/check.sh: build failed; see $log" >&2
    exit 1
fi

# A table of checks that were skipped would say nothing.
try "kernels, copies and gates (cuda_gpu_test)" "$build/test/cuda_gpu_test" --gtest_brief=1
if grep 'no GPU was found' "$log" >/dev/null; then
    echo "cuda/check.sh: nvidia-smi lists a GPU, but the CUDA runtime finds none; see $log" >&2
    exit 77
fi
try "tests without a GPU (cuda_*, staging, pretend devices, plans)" ctest --test-dir "$build" --output-on-failure -j "$(nproc)" \
    -R '^(cuda_|staging|pretend|plan_test|verify_(grid_)?test)'

if command -v compute-sanitizer >/dev/null; then
    some='*Rounds*:*Copies*:*Gates*:*Divides*'
    for tool in memcheck racecheck; do
        try "compute-sanitizer $tool, kernels" compute-sanitizer --tool "$tool" --error-exitcode 9 \
            "$build/test/cuda_gpu_test" --gtest_brief=1 --gtest_filter="$some"
        try "compute-sanitizer $tool, collectives" compute-sanitizer --tool "$tool" --error-exitcode 9 \
            --target-processes all "$build/benchmark/gcoll_bench" --local 2 --device cuda --inputs 2 \
            --algorithm cuda_ring,cuda_halving_doubling_pipelined --bytes 3Mi --iterations 3
    done
else
    report "compute-sanitizer" "not found" "found" 1
fi

# Every variant, by ranks that share the GPU and buffers that share it; gcoll_bench checks each result.
for ranks in 1 2 4; do
    for inputs in 1 2 8; do
        for algorithm in cuda_ring cuda_ring_chunked cuda_halving_doubling cuda_halving_doubling_pipelined cuda_bcube; do
            try "$algorithm, $ranks ranks, $inputs buffers" bench --local "$ranks" --device cuda --inputs "$inputs" \
                --algorithm "$algorithm" --bytes 4,1Ki,1Mi,5000004 --iterations 5
        done
        try "cuda_broadcast_one_to_all, $ranks ranks, $inputs buffers" bench --local "$ranks" --device cuda \
            --inputs "$inputs" --collective broadcast --algorithm cuda_broadcast_one_to_all --bytes 4,1Ki,1Mi,5000004 \
            --iterations 5
    done
done

result=0
"$build/cuda/cuda_check_bandwidth" | tee "$build/bandwidth.txt" || result=$?
report "reduction of float32 on the device, of its copies' rate" "$(awk '$1 == "float32" { print $4 }' "$build/bandwidth.txt" | paste -sd' ')" \
    ">= 0.90" "$((result != 0))"

# Of two ranks, both copy to and from the one GPU, each way at once.
copy_us=$(awk -v n="$size" '/^(to|from) host/ { us = 2 * n / ($3 * 1000); if (us > most) most = us } END { print most }' "$build/bandwidth.txt")
network_us=$(time_us --device host --algorithm halving_doubling)
whole_us=$(time_us --device cuda --algorithm cuda_halving_doubling)
pipelined_us=$(time_us --device cuda --algorithm cuda_halving_doubling_pipelined)
if [ -z "$copy_us" ] || [ -z "$network_us" ] || [ -z "$whole_us" ] || [ -z "$pipelined_us" ]; then
    report "pipelined staging of 64 MiB" "not measured" ">= $least_pipelined" 1
else
    slower=$(awk "BEGIN { print ($copy_us > $network_us ? $copy_us : $network_us) }")
    share=$(awk "BEGIN { printf \"%.2f\", $slower / $pipelined_us }")
    echo "64 MiB, 2 ranks, microseconds: copies $copy_us, in host memory $network_us, whole $whole_us, pipelined $pipelined_us"
    report "pipelined staging of 64 MiB, of the slower of copies and network" "$share" ">= $least_pipelined" \
        "$(holds "$share >= $least_pipelined")"
    report "its gain over staging as a whole" "$(awk "BEGIN { printf \"%.2f\", $whole_us / $pipelined_us }")" "> 1" \
        "$(holds "$whole_us > $pipelined_us")"
fi

printf '\n%-58s %-22s %-14s\n' check figure wanted
printf '%s\n' "${rows[@]}"
if [ "$failures" -gt 0 ]; then
    echo "$failures checks FAILED; see $log"
    exit 1
fi
echo "all good"
