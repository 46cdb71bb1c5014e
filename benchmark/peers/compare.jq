# benchmark/peers/compare.jq - samples of benchmark/compare to figures, and figures to tables.
#
# A sample is a line of a program with the round and the contestant it belongs to. Its p50_us is one figure; what is
# reported is the median of these over rounds. Ratios are formed round by round, from figures taken within seconds of
# each other, and then their median is.

def median: sort | if length == 0 then null elif length % 2 == 1 then .[(length - 1) / 2]
    else (.[length / 2 - 1] + .[length / 2]) / 2 end;

def digits(n): if . == null then null else . * pow(10; n) | round / pow(10; n) end;

# 4, 1Ki, 64Mi
def size_text: if . >= 1048576 and . % 1048576 == 0 then "\(. / 1048576)Mi" elif . >= 1024 and . % 1024 == 0 then "\(. / 1024)Ki"
    else tostring end;

# Of the samples of one contestant at one point.
def figures: {
    algorithm: (map(.algorithm) | group_by(.) | max_by(length) | .[0]),
    median_us: (map(.p50_us) | median | digits(2)), min_us: (map(.p50_us) | min), max_us: (map(.p50_us) | max),
    p99_over_p50: (map(.p99_us / .p50_us) | median | digits(2)), iterations: (map(.iterations) | min), rounds: length,
    by_round: (map({key: (.round | tostring), value: .p50_us}) | from_entries)};

# The best of several contestants of a point, under a name of its own.
def best_of(name; is): [to_entries[] | select(.key | is)] | if length == 0 then {}
    else min_by(.value.median_us) | {(name): (.value + {contestant: .key})} end;

def ratio_to($peer): .by_round as $mine | [$peer.by_round | to_entries[] | select($mine[.key] != null) | $mine[.key] / .value] |
    if length == 0 then null else {median: (median | digits(3)), min: (min | digits(3)), max: (max | digits(3))} end;

def point: {collective: .[0].collective, ranks: .[0].ranks, bytes: .[0].bytes,
    results: (group_by([.contestant, (if .contestant == "gcoll_fixed" then .algorithm else "" end)]) |
        map({key: (if .[0].contestant == "gcoll_fixed" then "gcoll_fixed \(.[0].algorithm)" else .[0].contestant end), value: figures}) |
        from_entries)} |
    .results |= (. + best_of("gcoll_best"; startswith("gcoll_fixed ")) + best_of("gloo_best"; startswith("gloo_")) +
        best_of("raw_best"; IN("raw_spin", "raw_block"))) |
    .results.gcoll as $gcoll |
    .results.gcoll_shm as $shm | .results.gcoll_shm_alloc as $alloc |
    .ratios = if $gcoll == null then {} else .results | with_entries(select(.key != "gcoll") | .value |= (. as $p | $gcoll | ratio_to($p))) end |
    .shm_ratios = if $shm == null then {} else .results | with_entries(select(.key != "gcoll_shm") | .value |= (. as $p | $shm | ratio_to($p))) end |
    .alloc_ratios = if $alloc == null then {} else .results | with_entries(select(.key != "gcoll_shm_alloc") | .value |= (. as $p | $alloc | ratio_to($p))) end;

def order: ["allreduce", "allgather", "reduce_scatter", "broadcast", "alltoall", "barrier"];

def summary: map(.bytes = (.bytes // 0)) | group_by([(.collective as $c | order | index($c)), .ranks, .bytes]) | map(point);

# ---- Tables ----------------------------------------------------------------------------------------------------

def columns: ["gcoll", "gcoll_best", "gcoll_shm", "gcoll_shm_alloc", "raw_spin", "raw_block", "raw_sum", "raw_shm", "openmpi_tcp", "openmpi", "mpich", "gloo_ring", "gloo_ring_chunked",
    "gloo_halving_doubling", "gloo_bcube", "gloo_new_ring", "gloo_new_bcube", "gloo"];

# The columns that some of these points have, or have failed to get, in order.
def present($failed): ([.[].results | keys[]] + ($failed | map(.contestant))) as $have | columns | map(select(. as $c | $have | index($c)));

def us: if . == null then "-" elif . < 100 then digits(1) | tostring else round | tostring end;

# Two digits after the point, three where that is little.
def two: if . == null then "-" elif . < 0.1 then digits(3) | tostring else digits(2) | tostring | if test("\\.") then . else . + ".00" end | sub("(?<a>\\.\\d)$"; "\(.a)0") end;

def bytes_text: if .collective == "barrier" then "-" else .bytes | size_text end;

# Lines of a block for the points of one collective and number of ranks.
def block($failures): . as $points |
    ($failures | map(select(.collective == $points[0].collective and .ranks == $points[0].ranks))) as $failed | present($failed) as $columns |
    ($columns - ["gcoll"]) as $others | any($points[]; .results.gcoll) as $gcoll |
    [("gcoll", "gcoll_best", "gcoll_shm", "gcoll_shm_alloc", "raw_spin", "raw_block", "raw_sum", "raw_shm") as $c | select($columns | index($c)) | $c] as $with_algorithm |
    def cell($name; text): .results[$name] as $r | if $r != null then $r | text else
        (.bytes as $b | if any($failed[]; .contestant == $name and (.bytes | index($b))) then "failed" else "-" end) end;
    [""], ["\($points[0].collective), \($points[0].ranks) ranks"],
    ["  median of p50 over rounds, us"], (["bytes"] + $columns), ($points[] | [bytes_text] + [$columns[] as $c | cell($c; .median_us | us)]),
    ["  smallest and largest of them"], (["bytes"] + $columns), ($points[] | [bytes_text] + [$columns[] as $c | cell($c; "\(.min_us | us)..\(.max_us | us)")]),
    (select($gcoll and $others != []) |
        ["  gcoll over it: median of the ratios of each round; below 1, gcoll is faster"], (["bytes"] + $others),
        ($points[] | [bytes_text] + [$others[] as $c | if .results[$c] then .ratios[$c].median | two else cell($c; "-") end])),
    ([("raw_shm", "openmpi", "mpich") as $c | select($columns | index($c)) | $c] as $within |
        select(any($points[]; .results.gcoll_shm) and $within != []) |
        ["  gcoll_shm over it, likewise"], (["bytes"] + $within),
        ($points[] | [bytes_text] + [$within[] as $c | if .results[$c] then .shm_ratios[$c].median | two else cell($c; "-") end])),
    ([("gcoll_shm", "raw_shm", "openmpi", "mpich") as $c | select($columns | index($c)) | $c] as $within |
        select(any($points[]; .results.gcoll_shm_alloc) and $within != []) |
        ["  gcoll_shm_alloc over it, likewise"], (["bytes"] + $within),
        ($points[] | [bytes_text] + [$within[] as $c | if .results[$c] then .alloc_ratios[$c].median | two else cell($c; "-") end])),
    (select($with_algorithm != []) |
        ["  " + ([(select($gcoll) | "gcoll: p99 over p50, and what auto took"), (select($columns | index("gcoll_best")) | "the best fixed algorithm"),
            ([$columns[] | select(startswith("raw_"))] | select(. != []) | "how the bytes of \(join(" and ")) went")] | join("; "))],
        (["bytes"] + (if $gcoll then ["p99/p50"] else [] end) + $with_algorithm),
        ($points[] | [bytes_text] + (if $gcoll then [.results.gcoll.p99_over_p50 | two] else [] end) + [$with_algorithm[] as $c | .results[$c].algorithm // "-"]));

def text($failures): group_by([(.collective as $c | order | index($c)), .ranks])[] | block($failures) | @tsv;

# The cells of a point in Markdown: whom each is about, the column's title, the text.
def cells: . as $p |
    def us_of($c): $p.results[$c].median_us | us;
    def ratio($c): $p.ratios[$c].median | two;
    def peer($c; title): [[$c], title, us_of($c)], [["gcoll", $c], "/ it", ratio($c)];
    [[], "bytes", bytes_text],
    (.results.gcoll | [["gcoll"], "gcoll `auto`, us", (if . then "\(.median_us | us) (\(.min_us | us)..\(.max_us | us))" else "-" end)],
        [["gcoll"], "p99/p50", (.p99_over_p50 | two)]),
    [["gcoll_best"], "best fixed algorithm", (.results.gcoll_best.algorithm // "-")], [["gcoll_best"], "its us", us_of("gcoll_best")],
    [["raw_best"], "raw, us", us_of("raw_best")], [["gcoll", "raw_best"], "/ raw", ratio("raw_best")],
    [["raw_sum"], "raw + sum, us", us_of("raw_sum")], [["gcoll", "raw_sum"], "/ raw + sum", ratio("raw_sum")],
    peer("openmpi_tcp"; "Open MPI TCP"), peer("openmpi"; "Open MPI"), peer("mpich"; "MPICH"),
    [["gcoll_shm"], "gcoll shm, us", us_of("gcoll_shm")], [["gcoll_shm", "openmpi"], "/ Open MPI", (.shm_ratios.openmpi.median | two)],
    [["gcoll_shm_alloc"], "gcoll shm allocated, us", us_of("gcoll_shm_alloc")], [["gcoll_shm_alloc", "openmpi"], "/ Open MPI", (.alloc_ratios.openmpi.median | two)],
    [["gcoll_shm", "mpich"], "/ MPICH", (.shm_ratios.mpich.median | two)], [["raw_shm"], "raw shm, us", us_of("raw_shm")],
    [["gcoll_shm", "raw_shm"], "/ raw shm", (.shm_ratios.raw_shm.median | two)],
    [["gloo_best"], "best Gloo", us_of("gloo_best")], [["gloo_best"], "", (.results.gloo_best.contestant // "-" | sub("gloo_"; ""))],
    [["gcoll", "gloo_best"], "/ it", ratio("gloo_best")];

def row: "| \(join(" | ")) |";

# One Markdown table for the points of each number of ranks of allreduce, with columns for those who have figures anywhere.
def markdown: ([.[].results | keys[]] | unique) as $have |
    def shown: [cells | select(.[0] - $have == [])];
    group_by(.ranks)[] | "", "P = \(.[0].ranks)", "",
    (.[0] | shown | (map(.[1]) | row), "|\(map("---|") | add)"), (.[] | shown | map(.[2]) | row);

# For the picture: bytes and a column for each name.
def curves($ranks; $names): [.[] | select(.collective == "allreduce" and .ranks == $ranks)] | sort_by(.bytes)[] |
    [.bytes] + [$names[] as $n | .results[$n].median_us // "-"] | @tsv;

# For the picture of ratios: bytes, and how many times as long as gcoll Open MPI over TCP and the best algorithm of Gloo take.
def ratio_curves($ranks): [.[] | select(.collective == "allreduce" and .ranks == $ranks)] | sort_by(.bytes)[] |
    [.bytes] + [("openmpi_tcp", "gloo_best") as $n | .ratios[$n].median | if . then 1 / . else "-" end] | @tsv;

# ---- The page ---------------------------------------------------------------------------------------------------

def bus_factor: .ranks as $p | if .collective == "allreduce" then 2 * ($p - 1) / $p
    elif .collective | IN("allgather", "reduce_scatter", "alltoall") then ($p - 1) / $p else 1 end;

# Samples of one contestant at one point as a result of gcoll_bench: medians over rounds.
def page_row($line): .[0] + {algorithm: (map(.algorithm // $line) | group_by(.) | max_by(length) | .[0]), line: $line, iterations: (map(.iterations) | add),
        min_us: (map(.min_us) | min), p50_us: (map(.p50_us) | median | digits(2)), p95_us: (map(.p95_us) | median | digits(2)),
        p99_us: (map(.p99_us) | median | digits(2)), max_us: (map(.max_us) | max), mean_us: (map(.mean_us) | median | digits(2)),
        wrong: (map(.wrong // 0) | add)} |
    if (.bytes // 0) > 0 and .p50_us > 0 then .algbw_GBps = (.bytes / .p50_us / 1000 | digits(6)) | .busbw_GBps = (.algbw_GBps * bus_factor | digits(6)) else . end |
    {line, collective, algorithm, ranks, bytes, iterations, min_us, p50_us, p95_us, p99_us, max_us, mean_us, algbw_GBps, busbw_GBps, wrong};

# Lines that gcoll_bench --results reads. Of the fixed algorithms, the best one of each point.
def page: .summary as $points | .samples as $samples |
    {about: ({title: "gcoll beside other libraries", processor: "\(.machine.cpu), \(.machine.cores) cores", memory: .machine.memory,
        system: "\(.machine.kernel), congestion control \(.machine.tcp_congestion_control)"} + .machine.versions +
        {rounds: "\(.settings.rounds), contestants in turn; medians over rounds"} +
        (if .settings.with_barrier then {timed: "with the barrier before each call"}
         elif .settings.lined_up then {timed: "after a barrier in shared memory, the same for all"} else {} end) +
        (if .missing == [] then {} else {"not compared": (.missing | join("; "))} end))},
    ($points[] as $at | $samples | map(select(.collective == $at.collective and .ranks == $at.ranks and (.bytes // 0) == $at.bytes)) |
        (map(select(.contestant != "gcoll_fixed")) | group_by(.contestant)[]),
        (map(select(.contestant == "gcoll_fixed" and .algorithm == $at.results.gcoll_best.algorithm) | .contestant = "gcoll_best") | select(. != [])) |
        page_row(.[0].contestant));
