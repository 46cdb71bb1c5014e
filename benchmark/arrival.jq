# Rounds to tables 3 and 4, or with $form "picture" to what gnuplot draws of table 4. Input: the lines of measured.json; $predicted,
# $published: the lines of these files.
def median: sort | if length % 2 == 1 then .[length / 2 | floor] else (.[length / 2 - 1] + .[length / 2]) / 2 end;
def digits($n): . * pow(10; $n) | round / pow(10; $n) | tostring
    | if $n == 0 then . else (if contains(".") then . else . + "." end) | . + ("0" * ($n - (split(".")[1] | length)) // "") end;
# "median (least to most)", and of how many rounds, where some cells have more.
def spread($n; $rounds): "\(median | digits($n)) (\(min | digits($n)) to \(max | digits($n))\(
    if length == $rounds then "" else ", \(length) round\(if length == 1 then "" else "s" end)" end))";
def short: split(":")[0];
# The one that most rounds took.
def usual: group_by(.) | max_by(length) | .[0];

. as $lines
| ([$lines[].delay] | unique) as $delays
| ([$lines[].round] | max) as $rounds
| ($predicted[0]) as $network

| def at($mode; $k; $d; $who): [$lines[] | select(.mode == $mode and .kfloats == $k and .delay == $d and .contestant == $who)];
def ratios($mode; $k; $d; $who): at($mode; $k; $d; $who) as $its
    | [at($mode; $k; $d; "ring")[] | . as $ring | $its[] | select(.round == $ring.round) | $ring.elapsed_us / .elapsed_us];
def predicted_us($mode; $k; $d; $a): [$predicted[] | select(.mode == $mode and .kfloats == $k and .delay == $d and .algorithm == $a).predicted_us][0];
def predicted_ratio($mode; $k; $d; $a): predicted_us($mode; $k; $d; "ring") as $r | predicted_us($mode; $k; $d; $a) as $t
    | if $r and $t then $r / $t | digits(2) else "-" end;
def published($row; $name; $d): [$published[] | select(.row == $row and .name == $name).at[$d | tostring]][0] // null
    | if . == null then "-" else digits(2) end;
def usual_one($mode; $k; $d; $who): [at($mode; $k; $d; $who)[].algorithm | short] | usual;
def with_monitor($mode): if $mode == "one-late" then "monitor" else "edges" end;
def sizes($mode): [$lines[] | select(.mode == $mode).kfloats] | unique;
# "measured (least to most) algorithm / simulated / published"
def cell($mode; $k; $d; $who; $row; $name):
    ratios($mode; $k; $d; $who) as $r
    | if $r == [] then " |" else
        usual_one($mode; $k; $d; $who) as $a
        | " \($r | spread(2; $rounds)) / \(predicted_ratio($mode; $k; $d; $a)) / \(published($row; $name; $d))"
          + (if $who == $a then "" else " `\($a)`" end) + " |" end;
def head($first): "| \($first) |" + ([$delays[] | " \(.) |"] | add), "|---|" + ([$delays[] | "---|"] | add);

# mode, Ki floats, KiB, ms late, ratio: measured, least, most, simulated, published ("-": none)
def picture: ("one-late", "rand-late") as $mode | sizes($mode)[] as $k | $delays[] as $d
    | ratios($mode; $k; $d; with_monitor($mode)) as $r | select($r != [])
    | [$mode, $k, at($mode; $k; $d; "ring")[0].bytes / 1024, $d, ($r | median, min, max | digits(4)),
       predicted_ratio($mode; $k; $d; usual_one($mode; $k; $d; with_monitor($mode))), published($mode; $k | tostring; $d)] | @tsv;

def tables:
    "\($lines[0].ranks) hosts, links of \($lines[0].rate), \([$lines[].congestion // empty] | unique | map("\(.), ") | add // "")\($rounds) round\(if $rounds == 1 then "" else "s" end); a message: \($network.alpha_us) us and \($network.beta_ns) ns a byte.",
    (if ([$lines[] | select(.mode == "one-late" and .kfloats == 1024)] | length) > 0 then
        "", "**Table 3, measured.** \([$lines[] | select(.kfloats == 1024).bytes][0] / 1024) KiB for the paper's 1 Mi floats, one late.", "",
        head("ms late"),
        "| `ring`, ms |" + ([$delays[] as $d | at("one-late"; 1024; $d; "ring") | if . == [] then " |" else
            " \(map(.elapsed_us / 1000) | spread(1; $rounds)) / \(predicted_us("one-late"; 1024; .[0].delay; "ring") / 1000 | digits(1)) / \(published("table-3-ms"; "ring"; .[0].delay) | rtrimstr("0")) |" end] | add),
        ((["auto, monitor", "monitor", "pre_reduced_ring"], ["`rabenseifner`", "rabenseifner", "rabenseifner"], ["auto", "auto", ""]) as [$title, $who, $name]
            | "| \($title) |" + ([$delays[] as $d | cell("one-late"; 1024; $d; $who; "table-3"; $name)] | add))
     else empty end),
    (("one-late", "rand-late") as $mode
     | sizes($mode) as $sizes
     | select($sizes != [] and ($mode != "one-late" or $sizes != [1024])) # which is all in table 3
     | "", "**Table 4, measured.** auto with the monitor, \(if $mode == "one-late" then "one late" else "all late by a random part of the delay" end).", "",
       head("Ki floats (KiB here), ms late"),
       ($sizes[] as $k | "| \($k) (\([$lines[] | select(.kfloats == $k).bytes][0] / 1024)) |"
        + ([$delays[] as $d | cell($mode; $k; $d; with_monitor($mode); $mode; ($k | tostring))] | add)));

if $form == "picture" then picture else tables end
