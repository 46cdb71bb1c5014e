# Draws what benchmark/arrival.jq makes of the rounds with $form "picture": for each size a row of two panels, one late, and all at random.
# Given with -e: data and into, files; sizes and delays, lists in words, with a delay of 0 or without; kib(i), of the ith size, in the list kib.
least = 1e9; most = 0
do for [d in delays] { if (d > 0) { least = d < least ? d + 0 : least; most = d > most ? d + 0 : most } }
if (most == 0) { least = 1; most = 1 } # there is nothing yet but those with nobody late
none = least / 2.5 # where those stand that are not late
n = words(sizes)
height = 105.0 + 205 * n

set terminal svg size 860,height dynamic font "sans-serif,13" background "#ffffff"
set output into
set datafile separator "\t"
set datafile missing "-"
low = 1; top = 1
do for [column = 5:9] {
    stats data using column nooutput
    if (exists("STATS_records") && STATS_records > 0) { low = STATS_min < low ? STATS_min : low; top = STATS_max > top ? STATS_max : top }
}

set multiplot layout n,2 margins 0.085,0.985,56 / height,1 - 68 / height spacing 0.03,58 / height
set logscale x
set xrange [none / 1.35:most * 1.35]
set yrange [floor(low * 20 - 0.4) / 20.0:ceil(top * 20 + 0.4) / 20.0]
set xtics ("0" none)
do for [d in delays] { if (d > 0) { set xtics add (d d + 0) } }
set ytics 0.1
set grid lc rgb "#cccccc" lw 1
set arrow from graph 0, first 1 to graph 1, first 1 nohead lc rgb "#808080" lw 1.5 back
set arrow from first sqrt(none * least), graph 0 to first sqrt(none * least), graph 1 nohead lc rgb "#808080" dt 3 back
unset key

here(mode, k) = strcol(1) eq mode && $2 == k
do for [i = 1:n] {
    do for [mode in "one-late rand-late"] {
        k = word(sizes, i) + 0
        left = mode eq "one-late"
        set title sprintf("%d Ki floats (%s KiB here), %s", k, word(kib, i), left ? "one late" : "all late at random") offset 0,-0.7
        set xlabel (i == n ? "late by, ms (0 apart)" : "") offset 0,0.3
        set ylabel (left ? "time of ring / auto's" : "") offset 1.2,0
        set format y (left ? "%.1f" : "")
        # joined from the least delay on; the bars are vectors, as those of yerrorbars blank out what lies below
        plot data using (here(mode, k) && $4 > 0 ? $4 : NaN):9 with linespoints lc rgb "#555555" dt 3 lw 2 pt 8 ps 1 notitle, \
            "" using (here(mode, k) && $4 == 0 ? none : NaN):9 with points lc rgb "#555555" lw 2 pt 8 ps 1 notitle, \
            "" using (here(mode, k) && $4 > 0 ? $4 : NaN):8 with linespoints lc rgb "#D55E00" dt 2 lw 2 pt 4 ps 0.9 notitle, \
            "" using (here(mode, k) && $4 == 0 ? none : NaN):8 with points lc rgb "#D55E00" lw 2 pt 4 ps 0.9 notitle, \
            "" using (here(mode, k) && $4 > 0 ? $4 : NaN):5 with lines lc rgb "#0072B2" lw 2.5 notitle, \
            "" using (here(mode, k) ? ($4 > 0 ? $4 : none) : NaN):6:(0):($7 - $6) with vectors heads size screen 0.004,90 lc rgb "#0072B2" lw 1.5 notitle, \
            "" using (here(mode, k) ? ($4 > 0 ? $4 : none) : NaN):5 with points lc rgb "#0072B2" pt 7 ps 0.5 notitle
    }
}

# The legend: of a plot of nothing that is as wide as the picture.
set margins at screen 0, at screen 1, at screen 1 - 50 / height, at screen 1
unset title; unset xlabel; unset ylabel; unset arrow; unset grid; unset tics; unset border
set key center top horizontal maxrows 1 Left reverse samplen 3 width 2
plot NaN with linespoints lc rgb "#555555" dt 3 lw 2 pt 8 ps 1 title "published", \
    NaN with linespoints lc rgb "#D55E00" dt 2 lw 2 pt 4 ps 0.9 title "simulated", \
    NaN with linespoints lc rgb "#0072B2" lw 2.5 pt 7 ps 0.5 title "measured"
unset multiplot
