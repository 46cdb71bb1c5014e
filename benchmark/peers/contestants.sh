# benchmark/peers/contestants.sh - the contestants of benchmark/compare, which sources this: what each needs, and its command line.
# shellcheck shell=bash disable=SC2154  # the options are set by benchmark/compare

# One line for each contestant that cannot run here, with the reason.
missing() {
    local name
    for name in "$@"; do
        case $name in
        gcoll_shm | gcoll_shm_alloc)
            if [ -n "$on" ]; then
                echo "$name: shared memory is within one host, and --on is given"
            else
                [ -x "$programs/gcoll_bench" ] || echo "$name: no program gcoll_bench in $programs"
            fi
            ;;
        gcoll*) [ -x "$programs/gcoll_bench" ] || echo "$name: no program gcoll_bench in $programs" ;;
        raw_shm)
            if [ -n "$on" ]; then
                echo "$name: shared memory is within one host, and --on is given"
            else
                [ -x "$programs/peers/gcoll_peer_shm" ] || echo "$name: no program gcoll_peer_shm in $programs/peers"
            fi
            ;;
        raw*) [ -x "$programs/peers/gcoll_peer_raw" ] || echo "$name: no program gcoll_peer_raw in $programs/peers" ;;
        openmpi*)
            command -v mpirun.openmpi >/dev/null && [ -x "$programs/peers/gcoll_peer_openmpi" ] ||
                echo "$name: wants the Debian packages openmpi-bin and libopenmpi-dev, and a build with GCOLL_PEERS=ON"
            ;;
        mpich)
            command -v mpirun.mpich >/dev/null && [ -x "$programs/peers/gcoll_peer_mpich" ] ||
                echo "$name: wants the Debian packages mpich and libmpich-dev, and a build with GCOLL_PEERS=ON"
            ;;
        gloo*)
            [ -x "$programs/peers/gcoll_peer_gloo" ] ||
                echo "$name: wants the Debian package libgloo-dev, and a build with GCOLL_PEERS=ON"
            ;;
        esac
    done
}

# ranks_of PROGRAM P FLAG...: the ranks of a program that starts its own.
ranks_of() {
    local program=$1 p=$2 r store status=0 pids=()
    shift 2
    rm -f "$line_up" # each job has its own
    if [ -z "$on" ]; then
        timeout -k 2 "$limit" "$program" --local "$p" "$@"
        return
    fi
    store=$(mktemp -d "$work/store.XXXXXX")
    for ((r = 0; r < p; r++)); do
        # shellcheck disable=SC2086  # a command of several words
        timeout -k 2 "$limit" ${on//%h/$r} "$program" --rank "$r" --size "$p" --store "file:$store" --job compare \
            --interface "$interface" "$@" &
        pids+=($!)
    done
    for r in "${pids[@]}"; do
        wait "$r" || status=$?
    done
    rm -rf "$store"
    return "$status"
}

host_list() { # P
    local r list=""
    for ((r = 0; r < $1; r++)); do list+=,${host_name//%h/$r}; done
    echo "${list#,}"
}

# mpi WHICH P PROGRAM FLAG...
mpi() {
    local which=$1 p=$2 command
    shift 2
    rm -f "$line_up"
    case $which in
    openmpi*)
        command=(mpirun.openmpi --allow-run-as-root --oversubscribe -np "$p")
        [ "$which" = openmpi ] || command+=(--mca btl "tcp,self" --mca pml ob1 --mca btl_tcp_if_include "$interface")
        [ -z "$on" ] || command+=(--host "$(host_list "$p")" --mca plm_rsh_agent "$work/agent" --mca oob_tcp_if_include "$interface")
        ;;
    mpich)
        command=(mpirun.mpich -np "$p")
        [ -z "$on" ] || command=(env UCX_NET_DEVICES="$interface" mpirun.mpich -np "$p" -hosts "$(host_list "$p")" -launcher rsh
            -launcher-exec "$work/agent" -iface "$interface")
        ;;
    esac
    # shellcheck disable=SC2086  # mpirun itself runs on host 0
    timeout -k 2 "$limit" ${on//%h/0} "${command[@]}" "$@"
}

# run CONTESTANT COLLECTIVE P BYTES-LIST: lines of JSON. BYTES-LIST is empty for a barrier.
run() {
    local name=$1 p=$3 bytes=$4 flags=(--collective "$2" "${timed[@]}")
    if [ -n "$bytes" ] && ((${bytes%%,*} > long)); then
        flags+=(--iterations 3 --warmup 1 --settle 100ms) # few calls: ranks may begin on one core
    else
        flags+=(--time "$time")
    fi
    [ -z "$bytes" ] || flags+=(--bytes "$bytes")
    case $name in
    gcoll) ranks_of "$programs/gcoll_bench" "$p" "${flags[@]}" --format json ;;
    gcoll_shm) GCOLL_TRANSPORT=shm ranks_of "$programs/gcoll_bench" "$p" "${flags[@]}" --format json ;;
    gcoll_shm_alloc) GCOLL_TRANSPORT=shm ranks_of "$programs/gcoll_bench" "$p" "${flags[@]}" --shared --format json ;;
    gcoll_best) run_best "$p" "${flags[@]}" ;;
    raw_shm) ranks_of "$programs/peers/gcoll_peer_shm" "$p" "${flags[@]}" --limit "${limit}s" ;;
    raw_*) ranks_of "$programs/peers/gcoll_peer_raw" "$p" "${flags[@]}" --algorithm "${name#raw_}${quick:+:exchange}" --limit "${limit}s" ;;
    openmpi*) mpi "$name" "$p" "$programs/peers/gcoll_peer_openmpi" "${flags[@]}" --limit "${limit}s" ;;
    mpich) mpi "$name" "$p" "$programs/peers/gcoll_peer_mpich" "${flags[@]}" --limit "${limit}s" ;;
    gloo) ranks_of "$programs/peers/gcoll_peer_gloo" "$p" "${flags[@]}" --limit "${limit}s" ;;
    gloo_*) ranks_of "$programs/peers/gcoll_peer_gloo" "$p" "${flags[@]}" --algorithm "${name#gloo_}" --limit "${limit}s" ;;
    esac
}

# The contestants of a collective, of those that are there.
field_of() {
    local name
    for name in "${contestants[@]}"; do
        case $1:$name in
        allreduce:gloo | barrier:raw_sum) ;;
        allreduce:* | barrier:raw_*) echo "$name" ;;
        *:gcoll_best | *:raw_* | *:gloo_*) ;;
        *) echo "$name" ;;
        esac
    done
}
