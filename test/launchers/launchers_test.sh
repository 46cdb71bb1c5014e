#!/usr/bin/env bash
# Runs the commands of docs/launchers.md as they are printed there, with the real launchers, on two hosts of a lab.
# Usage: launchers_test.sh LAUNCHER SOURCE FROM_ENV GCOLL_BENCH
# LAUNCHER is the heading of a section under "Commands". Exit status 77: what it needs is not here.
#
# The lab (test/netlab) has its own network and processes, so ports are free, and nothing outlives the test. The
# environment says what a cluster's administrator would: how to reach another host without ssh.
set -uo pipefail
readonly launcher=$1 source=$2 from_env=$3 bench=$4 limit=60 # seconds for one command
self=$(readlink -f "${BASH_SOURCE[0]}")
readonly self

fail() {
    echo "FAILED: $*" >&2
    exit 1
}

skip() {
    echo "skipped: $*"
    exit 77
}

need() { # PROGRAM PACKAGE
    PATH=$PATH:/usr/sbin command -v "$1" >/dev/null ||
        skip "needs $1, of Debian's package $2 (scripts/packages launchers installs it)"
}

# The lines of code in the launcher's section.
printed() {
    awk -v heading="### $launcher" '$0 == heading { on = 1; next } /^#/ { on = 0 } on && sub(/^    /, "")' \
        "$source/docs/launchers.md"
}

# ---- In the lab ---------------------------------------------------------------------------------------------

# Where the commands find `./from_env`, `gcoll_bench`, `hosts` and the launchers by the names that they use.
prepare() {
    mkdir -p "$work/bin" && cd "$work" || exit
    ln -s "$from_env" from_env
    ln -s "$source/examples" examples
    printf 'host0 slots=4\nhost1 slots=4\n' >hosts-openmpi
    printf 'host0:4\nhost1:4\n' >hosts-mpich
    program bin/gcoll_bench "exec '$bench' --bytes 64Ki --iterations 5 --format json \"\$@\""
    program bin/rsh "exec '$NETLAB' rsh \"\$@\""
    case $launcher in
    "Open MPI")
        ln -s hosts-openmpi hosts
        program bin/mpirun 'exec mpirun.openmpi "$@"'
        export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
        export OMPI_MCA_plm_rsh_agent=$work/bin/rsh
        ;;
    MPICH)
        ln -s hosts-mpich hosts
        program bin/mpiexec 'exec mpiexec.hydra "$@"'
        export HYDRA_LAUNCHER=rsh HYDRA_LAUNCHER_EXEC=$work/bin/rsh
        ;;
    esac
    export PATH=$work/bin:$PATH
}

program() { # FILE TEXT
    printf '#!/bin/sh\n%s\n' "$2" >"$1" && chmod +x "$1"
}

# The number of ranks that a command asks for.
ranks_of() {
    [[ $1 =~ (-np?)[\ =]([0-9]+) || $1 =~ (--nproc_per_node)[\ =]([0-9]+) || $1 =~ (GCOLL_SIZE)=([0-9]+) ]] &&
        echo "${BASH_REMATCH[2]}"
}

# Whether each of N ranks printed the right sum once, in any order.
summed() { # N FILE
    local rank
    diff <(for ((rank = 0; rank < $1; rank++)); do
        echo "rank $rank of $1: the sum is $(($1 * ($1 + 1) / 2))"
    done) <(grep '^rank ' "$2" | sort -V)
}

# Waits for the batch jobs, and adds what they wrote.
collect() {
    local begun=$SECONDS
    until [ -z "$("$NETLAB" on 0 squeue --noheader)" ]; do
        ((SECONDS - begun < limit)) || fail "the job does not end: $("$NETLAB" on 0 squeue)"
        sleep 0.1
    done
    cat gcoll-*.out >>out
}

# The pods of examples/launch/kubernetes.yaml: its variables and its command, with what Kubernetes adds. Names of pods
# lead to hosts as the headless service has it.
pods() {
    local manifest=$work/manifest pod size image_command=() variables=() pids=()
    yq -s . "$source/examples/launch/kubernetes.yaml" >"$manifest" || fail "the manifest is no YAML"
    jq -e '(.[] | select(.kind == "Service")) as $service | (.[] | select(.kind == "Job")) as $job |
        ($job.spec.template.spec.containers[0].env | map({(.name): .value}) | add) as $env |
        [$service.spec.clusterIP == "None", $service.spec.selector == {"job-name": $job.metadata.name},
         $job.spec.completionMode == "Indexed", $job.spec.completions == $job.spec.parallelism,
         $job.spec.template.spec.subdomain == $service.metadata.name, $job.spec.template.spec.restartPolicy == "Never",
         $env.GCOLL_SIZE == "\($job.spec.completions)",
         $env.GCOLL_STORE == "tcp://\($job.metadata.name)-0.\($service.metadata.name):4000"] |
        . as $all | all or error("\($all)")' "$manifest" >/dev/null || fail "parts of the manifest do not fit together"
    size=$(jq '.[] | select(.kind == "Job").spec.completions' "$manifest")
    mapfile -t image_command < <(jq -r '.[] | select(.kind == "Job").spec.template.spec.containers[0].command[]' "$manifest")
    mapfile -t variables < <(jq -r '.[] | select(.kind == "Job").spec.template.spec.containers[0].env[] | "\(.name)=\(.value)"' "$manifest")
    for ((pod = 0; pod < size; pod++)); do
        echo "10.77.0.$((pod % 2 + 1)) gcoll-$pod.gcoll" >>/etc/hosts # the lab's own
    done
    for ((pod = size - 1; pod >= 0; pod--)); do
        timeout -k 5 $limit "$NETLAB" on $((pod % 2)) env "${variables[@]}" JOB_COMPLETION_INDEX=$pod "${image_command[@]}" \
            >"out.$pod" 2>"err.$pod" &
        pids[pod]=$!
    done
    for ((pod = 0; pod < size; pod++)); do
        wait "${pids[pod]}" || fail "pod $pod: status $?: $(cat err.*)"
        [ ! -s "err.$pod" ] || fail "pod $pod: something on standard error: $(cat err.*)"
    done
    jq -es "length > 0 and all(.ranks == $size and .wrong == 0)" out.0 >/dev/null || fail "wrong results: $(cat out.0)"
    echo "good: $size pods"
}

inside() {
    local command ranks count=0
    work=$NETLAB_FOLDER/work
    prepare
    [ "$launcher" != Kubernetes ] || { pods && return; }
    while read -r command; do
        [[ $command != apt-get* ]] || continue
        echo "\$ $command # after $SECONDS s"
        ranks=$(ranks_of "$command") || fail "'$command' does not say how many ranks"
        timeout -k 5 $limit "$NETLAB" on 0 bash -c "$command" >out 2>err </dev/null || fail "status $?: $(cat out err)"
        [[ $command != sbatch* ]] || collect
        case $command in
        *./from_env*) summed "$ranks" out || fail "not what $ranks ranks print: $(cat out err)" ;;
        *gcoll_bench*) jq -es "length == 1 and .[0].ranks == $ranks and .[0].wrong == 0" out >/dev/null ||
            fail "not one right result of $ranks ranks: $(cat out err)" ;;
        *) fail "'$command' runs neither ./from_env nor gcoll_bench" ;;
        esac
        cat err # launchers have their own worries, which are not ours
        count=$((count + 1))
    done < <(printed)
    ((count > 0)) || fail "docs/launchers.md has no commands under '### $launcher'"
    echo "good: $count commands"
}

if [ -n "${LAUNCHERS_TEST_INSIDE:-}" ]; then
    unset LAUNCHERS_TEST_INSIDE
    inside
    exit
fi

# ---- From outside -------------------------------------------------------------------------------------------

need jq jq
under=()
case $launcher in
None) ;;
"Open MPI") need mpirun.openmpi openmpi-bin ;;
MPICH) need mpiexec.hydra mpich ;;
Slurm)
    need slurmctld slurm-wlm
    need munged munge
    [ "$(id -u)" -eq 0 ] || skip "needs root: slurmd changes to the user of a job"
    under=("$source/test/launchers/slurm")
    ;;
torchrun) need torchrun python3-torch ;;
Kubernetes) need yq yq ;;
*) fail "LAUNCHER: is '$launcher'; allowed are None, Open MPI, MPICH, Slurm, torchrun and Kubernetes" ;;
esac
why=$("$source/test/netlab/netlab" check 2>&1) || skip "$why"

# Whoever runs the tests may be in a job of a launcher's.
for variable in $(compgen -e); do
    case $variable in
    SLURM* | OMPI_* | PMI_* | PMIX_* | MPI_* | GCOLL_* | TORCHELASTIC_* | MASTER_* | RANK | WORLD_SIZE | LOCAL_* | JOB_COMPLETION_INDEX)
        unset "$variable"
        ;;
    esac
done
LAUNCHERS_TEST_INSIDE=yes exec "$source/test/netlab/netlab" --hosts 2 --limit 120s --once -- \
    "${under[@]}" "$self" "$@"
