# Markdown of shaped.json.
def r($n): . * pow(10; $n) | round / pow(10; $n);
def ms: if . == null then "" elif . < 10000 then . / 1000 | r(2) | tostring else . / 1000 | r(1) | tostring end;
def size: if . >= 1048576 then "\(. / 1048576) MiB" elif . >= 1024 then "\(. / 1024) KiB" else "\(.) B" end;
def row: "| " + join(" | ") + " |";
map(select(.median_us)) as $all
| map(select(.alpha_us))[] | . as $fit
| ($all | map(select(.rate == $fit.rate))) as $mine
| ($mine | map(.bytes) | unique) as $sizes
| ([
    "\n\($hosts) hosts, \(.rate)\(if .congestion == "" then "" else ", congestion control \(.congestion)" end): alpha \(.alpha_us | r(0)) us, beta \(.beta_ns | r(2)) ns a byte. Medians of \($mine | map(.rounds) | max) rounds in ms; in brackets the median of the",
    "slowest and fastest round apart, in % of the median; then measured / predicted.\n",
    (["algorithm"] + ($sizes | map(size)) | row), (["---"] + ($sizes | map("---")) | row)]
   + [$mine | group_by(.label) | sort_by([.[0].program != "gcoll", (map(select(.bytes == $sizes[-1]))[0].median_us // 1e18)])[]
      | . as $rows | [.[0].label] + [$sizes[] as $s | ($rows | map(select(.bytes == $s))[0]) as $x
          | if $x then "\($x.median_us | ms) (\(($x.most_round_us - $x.least_round_us) / $x.median_us * 100 | r(0)))"
              + (if $x.predicted_us then " \($x.median_us / $x.predicted_us | r(2))" else "" end) else "" end] | row]
   + ["\n| bytes | auto | takes | ms | bytes at the rate | best of gcoll | auto / it | best peer | auto / it |", "|---|---|---|---|---|---|---|---|---|"]
   + [$sizes[] as $s | ($mine | map(select(.bytes == $s))) as $at
      | $at[] | select(.label | startswith("gcoll auto")) | . as $auto
      | ($at | map(select(.program == "gcoll" and (.label | startswith("gcoll auto") | not))) | min_by(.median_us)) as $best
      | ($at | map(select(.program == "gloo" or .program == "openmpi")) | min_by(.median_us)) as $peer
      | [($s | size), (if .label == "gcoll auto" then "fit" else "file" end), $auto.took, ($auto.median_us | ms), ($auto.least_us | ms),
         ($best | if . then "\(.algorithm) \(.median_us | ms)" else "" end), ($best | if . then $auto.median_us / .median_us | r(2) | tostring else "" end),
         ($peer | if . then "\(.label) \(.median_us | ms)" else "" end), ($peer | if . then $auto.median_us / .median_us | r(2) | tostring else "" end)] | row]
  ) | .[]
