/* algorithms/table.h - the table of algorithms: a row each. ROW(x) stands for `const gcoll_algorithm
 * gcoll_x_algorithm`, which the algorithm's file defines. Where costs are equal, selection takes the row that
 * stands first. Included more than once, with ROW defined anew. */
ROW(allreduce_ring)
ROW(allreduce_group_butterfly)
ROW(allreduce_sorted_linear_tree)
ROW(broadcast_binomial)
ROW(barrier_dissemination)
