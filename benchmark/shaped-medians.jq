# Rounds to medians, beside what was predicted. Input: lines of measured.json and predicted.json; output: one line for each
# rate, program, algorithm and size, and one for each rate with alpha and beta.
def median: sort | .[(length - 1) / 2 | floor];
def bits: if endswith("gbit") then (rtrimstr("gbit") | tonumber) * 1e9 else (rtrimstr("mbit") | tonumber) * 1e6 end;
# The name without options that auto or the model filled in.
def name_of: if .program == "gcoll" and .asked == "auto" then "gcoll auto"
    elif .program == "gcoll" and .asked == "file" then "gcoll auto, file"
    elif .program == "gcoll" then "gcoll " + (.algorithm | split(":")[0])
    elif .program == "gloo" then "gloo " + .algorithm
    else .program end;
. as $all
| (.[] | select(.alpha_us) | .rate as $rate
   | . + {congestion: ([$all[] | select(.rate == $rate and .congestion).congestion] | unique | join(" and "))}),
  (map(select(.program and .program != "exchange") | . + {label: name_of})
   | group_by([.rate, .label, .bytes])[]
   | (group_by(.algorithm) | sort_by(-length)) as $took # options, and what auto takes, may change from round to round
   | $took[0][0] as $one
   | {rate: $one.rate, program: $one.program, label: $one.label, algorithm: $one.algorithm,
      took: (if ($took | length) > 1 then [$took[] | "\(.[0].algorithm) (\(length))"] | join(", ") else $one.algorithm end), bytes: $one.bytes, ranks: $one.ranks,
      rounds: length, median_us: (map(.p50_us) | median), least_round_us: (map(.p50_us) | min), most_round_us: (map(.p50_us) | max),
      # What every host must send and receive, at the rate.
      least_us: (2 * ($hosts - 1) / $hosts * $one.bytes * 8e6 / ($one.rate | bits)),
      predicted_us: ([$all[] | select($one.program == "gcoll" and .predicted_us and .rate == $one.rate and .algorithm == $one.algorithm and .bytes == $one.bytes)
                      | .predicted_us][0] // null)})
