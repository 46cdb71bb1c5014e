"""Ranks for tests of gcoll.torch: forked processes that meet in a file. No pool of threads exists before the fork."""

import os
import pickle
import signal
import sys
import tempfile
import time
import traceback

import torch
import torch.distributed as dist


def run(size, function, *arguments, backend="gcoll", limit=200, dies=()):
    """Calls function(rank, size, *arguments) in `size` processes of one group, and returns their results in order.

    Fails if one of them raises or takes longer than `limit` seconds. dies: ranks that are killed on purpose.
    """
    folder = tempfile.mkdtemp(prefix="gcoll_torch_test.")
    children = []
    for rank in range(size):
        child = os.fork()
        if child == 0:
            _child(folder, rank, size, function, arguments, backend)
        children.append(child)
    failed = _join(children, limit, dies)
    results = []
    for rank in range(size):
        if rank in dies:
            results.append(None)
            continue
        path = os.path.join(folder, f"result.{rank}")
        if not os.path.exists(path):
            failed.append(f"rank {rank} gave no result")
            continue
        with open(path, "rb") as file:
            good, value = pickle.load(file)
        results.append(value)
        if not good:
            failed.append(f"rank {rank}:\n{value}")
    for name in os.listdir(folder):
        os.unlink(os.path.join(folder, name))
    os.rmdir(folder)
    if failed:
        raise AssertionError("\n".join(failed))
    return results


def _child(folder, rank, size, function, arguments, backend):
    try:
        torch.set_num_threads(1)
        if backend == "gcoll":
            import gcoll.torch  # noqa: F401
        dist.init_process_group(backend, init_method=f"file://{folder}/store", rank=rank, world_size=size)
        result = (True, function(rank, size, *arguments))
        if dist.is_initialized():
            dist.destroy_process_group()
    except BaseException:
        result = (False, traceback.format_exc())
    with open(os.path.join(folder, f"part.{rank}"), "wb") as file:
        pickle.dump(result, file)
    os.rename(os.path.join(folder, f"part.{rank}"), os.path.join(folder, f"result.{rank}"))
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


def _join(children, limit, dies):
    failed = []
    deadline = time.monotonic() + limit
    left = dict(enumerate(children))
    while left and time.monotonic() < deadline:
        for rank, child in list(left.items()):
            pid, status = os.waitpid(child, os.WNOHANG)
            if pid == 0:
                continue
            del left[rank]
            if status != 0 and rank not in dies:
                failed.append(f"rank {rank} ended with status {status}")
        time.sleep(0.005)
    for rank, child in left.items():
        failed.append(f"rank {rank} did not end within {limit} s")
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    return failed
