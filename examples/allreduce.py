"""Sums a vector over the processes of a job, whose launcher says rank, size and store."""
import gcoll
import numpy

with gcoll.Context.from_env() as context:
    data = numpy.full(1000, context.rank + 1.0)
    total = context.allreduce(data)
    print("rank %d of %d: the sum is %g" % (context.rank, context.size, total[999]))
