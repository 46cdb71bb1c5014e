"""The backend ``gcoll`` of ``torch.distributed``.

Importing this module registers it::

    import torch.distributed as dist
    import gcoll.torch

    dist.init_process_group("gcoll")

It needs the extension ``_gcoll_torch``, which CMake builds where it finds torch (docs/torch.md), and nothing
else of this package. Tensors are those of the CPU.
"""

from __future__ import annotations

import atexit
import dataclasses
import datetime
import glob
import importlib.machinery
import importlib.util
import os
import sys
import types
from typing import Any, List, Optional

import torch
import torch.distributed as dist

__all__ = ["Options", "abort", "culprit", "monitored_barrier"]

_NAME = "_gcoll_torch"


@dataclasses.dataclass
class Options:
    """Options of a process group, for ``init_process_group(pg_options=...)`` and ``new_group(pg_options=...)``.

    What is None comes from an environment variable, GCOLL_TORCH_ and the name in capitals, if it is set. All
    ranks give the same, except for ``interface``.

    transport: "tcp" or "ibverbs", with options: "ibverbs:device=mlx5_0".
    interface: interfaces, addresses and subnets, "eth0,10.0.0.0/8", or those to leave out, "^docker0,veth*"; by
        default all.
    algorithm: of allreduce, such as "ring"; by default the cheapest for each call.
    tuning: "fit" (the default: costs are measured when the group is created), "default", or a tuning file.
    same: where sums are the same bits: "ranks" (the default), "runs" (also from run to run) or "nowhere".
    checksum: whether everything that ranks send each other is checked.
    """

    transport: Optional[str] = None
    interface: Optional[str] = None
    algorithm: Optional[str] = None
    tuning: Optional[str] = None
    same: Optional[str] = None
    checksum: Optional[bool] = None

    def _arguments(self) -> "dict[str, Any]":
        found = {}
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            found[field.name] = os.environ.get("GCOLL_TORCH_" + field.name.upper(), "") if value is None else value
        checksum = str(found["checksum"])
        if checksum not in ("", "0", "1", "False", "True"):
            raise ValueError(f"gcoll: checksum is '{checksum}'; allowed are 0 and 1")
        return {**found, "checksum": checksum in ("1", "True")}


def _places() -> "List[str]":
    """Files that may be the extension: named by the user, beside this file, installed, built in this tree."""
    named = os.environ.get("GCOLL_TORCH_EXTENSION")
    if named:
        return [named]
    here = os.path.dirname(os.path.abspath(__file__))
    tree = os.path.dirname(os.path.dirname(os.path.dirname(here)))
    folders = [here]
    for prefix in (sys.prefix, "/usr/local", "/usr"):
        folders += glob.glob(os.path.join(prefix, "lib*", "gcoll"))
        folders += glob.glob(os.path.join(prefix, "lib", "*", "gcoll"))
    for preset in ("release", "dev"):
        folders.append(os.path.join(tree, "build", preset, "bindings", "torch"))
    return [os.path.join(folder, _NAME + ending) for folder in folders for ending in importlib.machinery.EXTENSION_SUFFIXES]


def _load() -> types.ModuleType:
    places = _places()
    for path in places:
        if os.path.exists(path):
            spec = importlib.util.spec_from_file_location(_NAME, path)
            assert spec is not None and spec.loader is not None
            module = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
            return module
    folders = ", ".join(dict.fromkeys(os.path.dirname(path) or "." for path in places))
    raise ImportError(f"gcoll.torch: the extension {_NAME} was not found in {folders}; docs/torch.md says how it is "
                      f"built, and GCOLL_TORCH_EXTENSION may name the file")


_extension = _load()


def _create(backend_options: Any, options: Any = None) -> Any:
    if options is None or not isinstance(options, Options):
        if isinstance(options, dict):
            options = Options(**options)
        elif options is None or type(options).__name__ == "Options":  # torch's own has the timeout only
            options = Options()
        else:
            raise TypeError(f"gcoll: pg_options is a {type(options).__name__}; allowed is gcoll.torch.Options")
    timeout = backend_options.timeout
    return _extension.create(
        backend_options.store, backend_options.group_rank, backend_options.group_size,
        max(1, round(timeout.total_seconds() * 1000)), list(backend_options.global_ranks_in_group),
        **options._arguments())


def _group_of(group: Any) -> Any:
    """The object of the extension that stands behind a process group."""
    if group is None:
        group = dist.distributed_c10d._get_default_group()
    if not isinstance(group, _extension.ProcessGroupGcoll) and hasattr(group, "_get_backend"):
        group = group._get_backend(torch.device("cpu"))  # torch 2
    if not isinstance(group, _extension.ProcessGroupGcoll):
        raise ValueError("gcoll: group is not a process group of the backend gcoll")
    return group


def abort(reason: str = "abort() was called", group: Any = None) -> None:
    """Break a group on all its ranks. What is in flight, or comes later, raises an error with the reason.

    Does not wait; may be called from any thread.
    """
    _group_of(group).break_group(reason)


def culprit(group: Any = None) -> Optional[int]:
    """The rank in the group that broke it, or None if it is not broken or no rank is at fault."""
    rank = _group_of(group).culprit()
    return None if rank < 0 else rank


def monitored_barrier(group: Any = None, timeout: Optional[datetime.timedelta] = None,
                      wait_all_ranks: bool = False) -> None:
    """As ``torch.distributed.monitored_barrier``, which refuses backends other than gloo.

    A rank that does not come in time is named on rank 0, and nothing breaks.
    """
    if timeout is None:
        timeout = dist.distributed_c10d.default_pg_timeout
    _group_of(group).monitored_barrier(timeout, wait_all_ranks=wait_all_ranks)


def _register() -> None:
    if hasattr(dist.Backend, "GCOLL"):
        return
    if int(torch.__version__.split(".")[0]) >= 2:
        dist.Backend.register_backend("gcoll", _create, extended_api=True, devices=["cpu"])
    else:
        dist.Backend.register_backend("gcoll", _create, extended_api=True)


def _end() -> None:
    """At the end of the program, while callbacks of futures can still run: leave the groups that there are.

    After an exception that nobody caught the groups are broken, so that the other ranks hear of it at once. They
    would else wait until this one has given up on operations in flight.
    """
    error = getattr(sys, "last_value", None)
    if error is not None and not hasattr(sys, "ps1"):
        world = getattr(dist.distributed_c10d, "_world", None)  # torch 2
        for group in list(world.pg_map if world is not None else dist.distributed_c10d._pg_map):
            try:
                abort(f"{type(error).__name__}: {error}", group)
            except (ValueError, RuntimeError):
                pass  # of another backend
    _extension.close_all()


_register()
atexit.register(_end)
