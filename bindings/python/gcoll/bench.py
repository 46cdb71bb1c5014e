"""Times collectives from Python: ``python3 -m gcoll.bench --local 4``. A job of processes on this host, or, under a
launcher (torchrun, srun, mpirun), of all its ranks. Every result is checked."""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence

import gcoll

_COLLECTIVES = ("allreduce", "broadcast", "reduce", "reduce_scatter", "allgather", "gather", "scatter", "alltoall",
                "barrier")
_TYPES = ("int32", "int64", "float32", "float64")
# What busbw multiplies algbw by, of P ranks: the bytes that a rank must at least send and receive.
_BUS: Dict[str, Callable[[int], float]] = {
    "allreduce": lambda p: 2 * (p - 1) / p, "reduce_scatter": lambda p: (p - 1) / p,
    "allgather": lambda p: (p - 1) / p, "alltoall": lambda p: (p - 1) / p,
}
_UNITS = {"": 1, "Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30}


class Call(NamedTuple):
    """A collective with its buffers. check gives the number of wrong elements after a call."""
    arguments: Sequence[Any]
    check: Callable[[], int]


def _size(text: str) -> int:
    for unit in ("Ki", "Mi", "Gi", ""):
        if text.endswith(unit):
            number = int(text[:len(text) - len(unit)])
            if number < 0:
                raise ValueError(text)
            return number * _UNITS[unit]
    raise ValueError(text)


def _sizes(text: str) -> List[int]:
    """Sizes in bytes: "4,64Ki", or "4:64Mi:x4", from 4 to 64 MiB, each 4 times the one before."""
    found: List[int] = []
    try:
        for part in text.split(","):
            ends = part.split(":")
            low = _size(ends[0])
            high = _size(ends[1]) if len(ends) > 1 else low
            factor = int(ends[2].lstrip("x")) if len(ends) > 2 else 2
            if factor < 2 or len(ends) > 3:
                raise ValueError(text)
            while low <= high:
                found.append(low)
                low = max(1, low * factor)
    except ValueError:
        raise argparse.ArgumentTypeError("is %r; allowed are sizes such as 4,64Ki or 4:64Mi:x4" % text) from None
    return found


def _arguments(given: Optional[Sequence[str]]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python3 -m gcoll.bench",
                                     description="Times collectives from Python, and checks every result.")
    parser.add_argument("--local", type=int, metavar="P", help="start P processes on this host; without it, the "
                        "launcher's variables say the ranks")
    parser.add_argument("--collective", default="allreduce", choices=_COLLECTIVES)
    parser.add_argument("--bytes", type=_sizes, default=_sizes("4:4Mi:x16"), metavar="SIZES",
                        help="of the vector: 4,64Ki or 4:64Mi:x4 (default 4:4Mi:x16)")
    parser.add_argument("--type", default="float32", choices=_TYPES)
    parser.add_argument("--form", default="run", choices=("run", "start", "prepare"),
                        help="blocking, started and waited for, or prepared once")
    parser.add_argument("--algorithm", help="default: gcoll chooses")
    parser.add_argument("--transport", help="tcp, shm or ibverbs, with options; default: GCOLL_TRANSPORT, or auto")
    parser.add_argument("--seconds", type=float, default=0.5, help="time for each size (default 0.5)")
    parser.add_argument("--json", action="store_true", help="print a JSON object for each size")
    return parser.parse_args(given)


# ---- A rank -------------------------------------------------------------------------------------------------


def _make(context: gcoll.Context, collective: str, count: int, dtype: str) -> Call:
    """Buffers of `count` elements in all, with values whose results are exact."""
    import numpy
    rank, size = context.rank, context.size
    steps = numpy.arange(count) % 7

    def values(of: int) -> Any:
        return (steps + of).astype(dtype)

    def call(source: Any, out: Any, expected: Any) -> Call:
        return Call((source, out), lambda: int(numpy.count_nonzero(out != expected)))

    block = count // size
    mine = slice(rank * block, (rank + 1) * block)
    total = size * steps + size * (size - 1) // 2
    if collective == "barrier":
        return Call((), lambda: 0)
    if collective == "broadcast":
        data = values(0) if rank == 0 else numpy.zeros(count, dtype)
        return Call((data,), lambda: int(numpy.count_nonzero(data != values(0))))
    if collective in ("allreduce", "reduce"):
        out = numpy.zeros(count, dtype)
        return call(values(rank), out, total if collective == "allreduce" or rank == 0 else 0 * total)
    if collective == "reduce_scatter":
        return call(values(rank), numpy.zeros(block, dtype), total[mine])
    if collective == "scatter":
        return call(values(0), numpy.zeros(block, dtype), values(0)[mine])
    if collective == "alltoall":
        expected = numpy.concatenate([values(r)[mine] for r in range(size)])
        return call(values(rank), numpy.zeros(count, dtype), expected)
    out = numpy.zeros(count, dtype)
    expected = values(0) if collective == "allgather" or rank == 0 else 0 * steps
    return call(values(0)[mine].copy(), out, expected)


def _caller(context: gcoll.Context, options: argparse.Namespace, call: Call) -> Callable[[], Any]:
    form = {"run": context, "start": context.start, "prepare": context.prepare}[options.form]
    method = getattr(form, options.collective)
    if options.form == "prepare":
        return method(*call.arguments, algorithm=options.algorithm).run  # type: ignore[no-any-return]
    if options.form == "start":
        return lambda: method(*call.arguments, algorithm=options.algorithm).wait()
    return lambda: method(*call.arguments, algorithm=options.algorithm)


def _times(context: gcoll.Context, run: Callable[[], Any], seconds: float) -> List[float]:
    """Times of calls, each the longest of any rank's, in microseconds, sorted."""
    import numpy
    context.barrier()
    begun = time.perf_counter()
    for _ in range(5):
        run()
    each = numpy.array([(time.perf_counter() - begun) / 5])
    context.allreduce(each, each, op="max")
    times = numpy.zeros(max(5, min(20000, int(seconds / max(each[0], 1e-7)))))
    context.barrier()
    for k in range(len(times)):
        begun = time.perf_counter()
        run()
        times[k] = time.perf_counter() - begun
    context.allreduce(times, times, op="max")
    times.sort()
    return list(times * 1e6)


def _rank(options: argparse.Namespace) -> int:
    import numpy
    wrong = 0
    with gcoll.Context.from_env(transport=options.transport) as context:
        if context.rank == 0 and not options.json:
            print("# %s from Python: %d ranks, %s, %s" % (options.collective, context.size, options.type, options.form))
            print("#%12s %9s %7s %9s %9s %9s %7s %7s %6s" % ("bytes", "count", "iters", "min us", "p50 us", "p95 us",
                                                             "algbw", "busbw", "wrong"))
        width = numpy.dtype(options.type).itemsize
        blocks = 1 if options.collective in ("allreduce", "reduce", "broadcast", "barrier") else context.size
        for nbytes in options.bytes if options.collective != "barrier" else [0]:
            count = nbytes // width
            count -= count % blocks  # whole blocks
            call = _make(context, options.collective, count, options.type)
            run = _caller(context, options, call)
            times = _times(context, run, options.seconds)
            bad = numpy.array([call.check()], "int64")
            context.allreduce(bad, bad)
            wrong += int(bad[0])
            p50 = times[len(times) // 2]
            algbw = count * width / p50 / 1e3
            row = {"bytes": count * width, "count": count, "iters": len(times), "min_us": times[0], "p50_us": p50,
                   "p95_us": times[int(0.95 * (len(times) - 1))], "algbw": algbw,
                   "busbw": algbw * _BUS.get(options.collective, lambda p: 1.0)(context.size), "wrong": int(bad[0])}
            if context.rank == 0 and options.json:
                print(json.dumps(row), flush=True)
            elif context.rank == 0:
                print("%13d %9d %7d %9.1f %9.1f %9.1f %7.3f %7.3f %6d" % tuple(row.values()), flush=True)
        if context.rank == 0 and not options.json:
            print("#\n# " + ("every element of every result was right" if not wrong else "%d elements were wrong" % wrong))
    return 1 if wrong else 0


# ---- A job on this host -------------------------------------------------------------------------------------


def _local(size: int, arguments: Sequence[str]) -> int:
    with tempfile.TemporaryDirectory(prefix="gcoll-bench-") as folder:
        command = [sys.executable, "-m", "gcoll.bench"] + list(arguments)
        ranks = [subprocess.Popen(command, env=dict(os.environ, GCOLL_RANK=str(rank), GCOLL_SIZE=str(size),
                                                    GCOLL_STORE="file:" + folder, GCOLL_BENCH_RANK="1"))
                 for rank in range(size)]
        try:
            return max(abs(rank.wait()) for rank in ranks)
        finally:
            for rank in ranks:
                if rank.poll() is None:
                    rank.kill()


def main(given: Optional[Sequence[str]] = None) -> int:
    arguments = list(sys.argv[1:] if given is None else given)
    options = _arguments(arguments)
    try:
        import numpy  # noqa: F401
    except ImportError:
        print("gcoll.bench: needs numpy", file=sys.stderr)
        return 2
    if options.local is not None and "GCOLL_BENCH_RANK" not in os.environ:
        if not 1 <= options.local <= 1024:
            print("gcoll.bench: --local: is %d; allowed are 1 to 1024" % options.local, file=sys.stderr)
            return 2
        return _local(options.local, arguments)
    try:
        return _rank(options)
    except gcoll.NotFoundError as error:
        print("gcoll.bench: %s; or give --local P" % error, file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
