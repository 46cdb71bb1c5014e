# benchmark/peers/tables.sh - tables and picture of a compare.json, for benchmark/compare, which sources this.
# shellcheck shell=bash disable=SC2154  # the options are set by benchmark/compare

# shellcheck disable=SC2016  # what stands in quotes is jq's
figures() { jq -L benchmark/peers "$@"; }

# Pads the columns of tab-separated lines, block by block; a line of one cell is a heading and begins a block.
align() {
    awk -F '\t' '
        function flush(n, i, line) {
            for (n = 1; n <= lines; n++) {
                line = ""
                for (i = 1; i <= cells[n]; i++) line = line sprintf("%" (width[i] + 2) "s", cell[n, i])
                print line
            }
            lines = 0
            delete width
        }
        NF < 2 { flush(); print; next }
        { cells[++lines] = NF; for (i = 1; i <= NF; i++) { cell[lines, i] = $i; if (length($i) > width[i]) width[i] = length($i) } }
        END { flush() }'
}

# check_tables FILE: whether it is what this program writes.
check_tables() {
    if [ ! -f "$1" ] || [ ! -r "$1" ]; then
        complain "--tables: is '$1'; allowed is a compare.json that can be read"
        return 1
    fi
    jq -es 'length == 1 and (.[0] | (.summary | type == "array" and all(.[]; (.results | type) == "object" and (.ratios | type) == "object"
            and (.collective | type) == "string" and (.ranks | type) == "number" and (.bytes | type) == "number"))
        and ([.failures, .missing] | all(type == "array")) and ([.machine, .machine.versions, .settings] | all(type == "object")))' "$1" >/dev/null 2>&1 || {
        complain "--tables: is '$1'; allowed is a compare.json as this program writes it, whole"
        return 1
    }
}

check_into() {
    if [[ $into != *.md || ! -f $into || ! -w $into ]] ||
        ! awk '/^<!-- compare -->$/ && !open { open = 1 } /^<!-- \/compare -->$/ && open { good = 1 } END { exit !good }' "$into"; then
        complain "--into: is '$into'; allowed is a file .md with a line <!-- compare --> and <!-- /compare --> below"
        return 1
    fi
}

heading() {
    jq -r '"\(.machine.cpu), \(.machine.cores) cores, L2 \(.machine.l2), L3 \(.machine.l3), \(.machine.memory)" +
        (if .machine.virtual != "" then ", virtual (\(.machine.virtual))" else "" end) + "; \(.machine.kernel), congestion control \(.machine.tcp_congestion_control)",
        "gcoll \(.machine.versions.gcoll); Open MPI \(.machine.versions.openmpi); MPICH \(.machine.versions.mpich); Gloo \(.machine.versions.gloo)",
        "\(.settings.rounds) rounds, contestants in turn; \(.settings.time // "\(.settings.seconds) s") for each size and round up to 1 MiB, 3 calls above; float32, sum" +
        (if .settings.with_barrier then "; the barrier before each call is timed with it" elif .settings.lined_up then "; the same barrier before each call for all" else "" end) +
        (if .settings.on != "" then "; one rank a host: \(.settings.on)" else "" end),
        (.missing[] | "not compared: " + .)' "$1"
}

text_tables() { # JSON-FILE
    heading "$1" && figures -r 'include "compare"; .failures as $f | .summary | text($f)' "$1" | align &&
        jq -r '.failures[] | "failed: \(.contestant), \(.collective), \(.ranks) ranks, \(.bytes | map(tostring) | join(", ")) bytes, in round \(.round): \(.reason)"' "$1"
}

markdown_tables() { # JSON-FILE
    heading "$1" | sed 's/$/  /' &&
        figures -r 'include "compare"; .summary | map(select(.collective == "allreduce")) | markdown' "$1"
}

draw() { # JSON-FILE SVG-FILE
    command -v gnuplot >/dev/null || {
        complain "no picture: wants the Debian package gnuplot-nox"
        return
    }
    local panels p names='["gcoll","gcoll_best","raw_spin","raw_block","openmpi_tcp","openmpi","mpich","gloo_best","raw_sum","gcoll_shm","raw_shm"]'
    mapfile -t panels < <(jq -r '[.summary[] | select(.collective == "allreduce") | .ranks] | unique[]' "$1")
    [ ${#panels[@]} -gt 0 ] || return
    for p in "${panels[@]}"; do
        figures -r --argjson p "$p" --argjson names "$names" 'include "compare"; .summary | curves($p; $names)' "$1" >"$work/curves.$p"
    done
    {
        cat <<GNUPLOT
set terminal svg size 820,$((430 * ${#panels[@]})) noenhanced font "sans-serif,13" background "white"
set output "$2"
set multiplot layout ${#panels[@]},1
set logscale x 4
set logscale y
set format x "%.0b%B"
set xlabel "bytes"
set ylabel "us"
set grid lc rgb "#dddddd"
set key outside right top
set datafile missing "-"
GNUPLOT
        for p in "${panels[@]}"; do
            cat <<GNUPLOT
set title "allreduce, float32 sum, $p ranks: median time of a call"
file = "$work/curves.$p"
plot file using 1:2 with linespoints lw 3 pt 7 ps 0.5 lc rgb "#d62728" title "gcoll", \
 file using 1:3 with lines lw 2 dt 2 lc rgb "#d62728" title "gcoll, best fixed", \
 file using 1:11 with linespoints lw 3 pt 7 ps 0.5 lc rgb "#9467bd" title "gcoll, shared memory", \
 file using 1:12 with lines lw 2 dt 3 lc rgb "#9467bd" title "raw shared memory and the sum", \
 file using 1:4 with lines lw 2 lc rgb "#000000" title "raw sockets, spinning", \
 file using 1:5 with lines lw 2 dt 2 lc rgb "#000000" title "raw sockets, blocking", \
 file using 1:10 with lines lw 2 dt 3 lc rgb "#000000" title "raw sockets and the sum", \
 file using 1:6 with lines lw 2 lc rgb "#1f77b4" title "Open MPI, TCP", \
 file using 1:7 with lines lw 2 dt 2 lc rgb "#1f77b4" title "Open MPI, shared memory", \
 file using 1:8 with lines lw 2 dt 2 lc rgb "#2ca02c" title "MPICH, shared memory", \
 file using 1:9 with lines lw 2 lc rgb "#ff7f0e" title "Gloo, best algorithm"
GNUPLOT
        done
    } >"$work/plot"
    # It warns of everyone who is not there.
    gnuplot "$work/plot" 2>"$work/err" || complain "gnuplot failed: $(tail -1 "$work/err")"
}

# The small picture of README.md: how many times as long as gcoll the others take over TCP, a line a library and number of ranks.
draw_ratios() { # JSON-FILE SVG-FILE
    local panels p i=0 blue=("#9ecae1" "#4292c6" "#08519c") orange=("#fdae6b" "#f16913" "#a63603") lines=()
    command -v gnuplot >/dev/null || return 0 # draw says so
    mapfile -t panels < <(jq -r '[.summary[] | select(.collective == "allreduce" and (.ratios | has("openmpi_tcp") or has("gloo_best"))) | .ranks] | unique[]' "$1")
    [ ${#panels[@]} -gt 0 ] || return 0
    for p in "${panels[@]}"; do
        figures -r --argjson p "$p" 'include "compare"; .summary | ratio_curves($p)' "$1" >"$work/ratios.$p"
        lines+=(", \"$work/ratios.$p\" using 1:3 with linespoints lw 2 pt 7 ps 0.4 lc rgb \"${orange[i % 3]}\" title \"Gloo, $p ranks\"")
        lines+=(", \"$work/ratios.$p\" using 1:2 with linespoints lw 2 pt 7 ps 0.4 lc rgb \"${blue[i % 3]}\" title \"Open MPI, $p ranks\"")
        i=$((i + 1))
    done
    cat >"$work/plot" <<GNUPLOT
set terminal svg size 760,330 noenhanced font "sans-serif,13" background "white"
set output "$2"
set logscale x 4
set logscale y 2
set format x "%.0b%B"
set yrange [0.5:*]
set xlabel "bytes of the vector"
set ylabel "time / time of gcoll"
set title "allreduce over TCP, one machine: how many times as long as gcoll"
set grid lc rgb "#dddddd"
set key outside right top
set datafile missing "-"
plot 1 with lines lw 3 lc rgb "#d62728" title "gcoll"${lines[@]}
GNUPLOT
    gnuplot "$work/plot" 2>"$work/err" || complain "gnuplot failed: $(tail -1 "$work/err")"
}

# The page of the same figures, by the program that makes such pages of its own.
write_page() { # JSON-FILE HTML-FILE
    local bench=${programs:-$build/benchmark}/gcoll_bench
    [ -x "$bench" ] || {
        complain "no page: no gcoll_bench in ${bench%/*}, see --programs"
        return 0
    }
    figures -c 'include "compare"; page' "$1" >"$work/page.json" && "$bench" --results "$work/page.json" --report "$2"
}

insert() {
    local folder=${into%.md} name
    name=$(basename "$folder")
    mkdir -p "$folder" && cp "$output/compare.svg" "$output/compare.txt" "$folder/" || return
    [ ! -f "$output/ratios.svg" ] || cp "$output/ratios.svg" "$folder/" || return
    {
        cat "$output/compare.md"
        printf '\n![allreduce over TCP: gcoll, other libraries, raw sockets](%s/compare.svg)\n\nAll figures: [compare.txt](%s/compare.txt)\n' "$name" "$name"
    } >"$work/insertion"
    awk -v insertion="$work/insertion" '/^<!-- \/compare -->$/ { while ((getline line < insertion) > 0) print line; inside = 0 }
        !inside { print } /^<!-- compare -->$/ { inside = 1 }' "$into" >"$work/page" && cat "$work/page" >"$into"
}

write_all() { # JSON-FILE
    # What is there already stays until there is something in its place.
    if ! { text_tables "$1" >"$work/compare.txt" && markdown_tables "$1" >"$work/compare.md"; }; then
        complain "no tables: $1 is not as it must be"
        return 1
    fi
    cp "$work/compare.txt" "$work/compare.md" "$output/" || return
    write_page "$1" "$output/compare.html" || return
    draw "$1" "$output/compare.svg"
    draw_ratios "$1" "$output/ratios.svg"
    [ -z "$into" ] || insert || return
    cat "$output/compare.txt"
}
