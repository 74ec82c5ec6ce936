"""The worker's command line: the phases to measure, and the file to write."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from clustersim.profiling.campaign import LAYOUTS, PRECISIONS, parse_names
from clustersim.profiling.errors import ProfilingError

if TYPE_CHECKING:
    from real_run.ranks import Ranks

PHASES = ("all-reduce", "layers", "compute", "communication", "overlap", "no-overlap", "straggler", "server", "async")
_ALONE = ("layers", "compute")
"""Phases that a single rank can run."""

Measure = Callable[["Ranks"], dict[str, Any]]


class Phase(NamedTuple):
    """One measurement: its name, its kind, and its function."""

    name: str
    kind: str
    measure: Measure


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure all requested phases; return 0, or 3 if that is not possible."""
    options = _parser().parse_args(arguments)
    try:
        if find_spec("torch") is None:
            raise ProfilingError("the worker measures with torch, which is not installed here: pip install torch")
        return _run(options)
    except ProfilingError as error:
        print(error, file=sys.stderr)
        return 3


def _run(options: argparse.Namespace) -> int:
    import torch.distributed as dist

    from real_run.facts import gather_facts, request_topology
    from real_run.ranks import join
    from real_run.record import Record

    _check(options)
    request_topology()
    ranks = join(options.backend, options.device, options.timeout)
    _set_defaults(options, ranks)
    phases = list(_phases(options, ranks))
    head = {"tool": "1", "date": time.strftime("%Y-%m-%d"), "facts": gather_facts(ranks)}
    try:
        record = Record(options.output, head, [phase.name for phase in phases]) if ranks.is_first else None
    except OSError as error:
        dist.destroy_process_group()
        raise ProfilingError(f"cannot write {options.output}: {error.strerror}") from None
    for number, phase in enumerate(phases):
        if ranks.is_first:
            print(f"{number + 1} of {len(phases)}: {phase.name}", file=sys.stderr, flush=True)
        try:
            found = phase.measure(ranks)
        except Exception as error:
            if record is not None:
                record.fail(phase.name, f"{type(error).__name__}: {error}"[:500])
            raise
        if record is not None:
            record.add(phase.name, phase.kind, found)
    ranks.barrier()
    if record is not None:
        record.finish()
        print(f"run: {record.path}", file=sys.stderr)
    dist.destroy_process_group()
    return 0


def _check(options: argparse.Namespace) -> None:
    """Check the options before the processes of the job connect."""
    from clustersim.profiling.models import MODELS, canonical

    options.models = [canonical(name.strip()) for name in options.models.split(",")] if options.models else None
    for name in options.models or ():
        parse_names("model", name, sorted(MODELS))
    options.phases = parse_names("phase", options.phases, PHASES)
    options.precision = parse_names("precision", options.precision, PRECISIONS)[0]
    options.layout = parse_names("layout", options.layout, LAYOUTS)[0]
    size = int(os.environ.get("WORLD_SIZE", "1"))
    rank, colon, factor = options.straggler.partition(":")
    try:
        options.straggler = (int(rank), float(factor))
    except ValueError:
        raise ProfilingError(f"--straggler {rank}{colon}{factor}: write RANK:FACTOR, such as 1:2") from None
    if not (0 < options.straggler[0] < max(size, 2) and options.straggler[1] > 1):
        raise ProfilingError(
            f"--straggler {rank}:{factor}: the rank must be 1 to {size - 1}, as rank 0 is the server, and the "
            "factor above 1"
        )
    for name in ("iterations", "warm_up", "batch"):
        if getattr(options, name) is not None and getattr(options, name) < 1:
            raise ProfilingError(f"--{name.replace('_', '-')} must be at least 1 (got {getattr(options, name)})")


def _set_defaults(options: argparse.Namespace, ranks: Ranks) -> None:
    """Set the defaults of the device: a GPU trains ResNet-50 at batch 32, a CPU SqueezeNet at batch 2."""
    on_gpu = ranks.device.is_cuda
    options.models = options.models or (["resnet50"] if on_gpu else ["squeezenet-1.0"])
    options.batch = options.batch or (32 if on_gpu else 2)
    options.max_bytes = options.max_bytes or (2**28 if on_gpu else 2**24)
    if options.paced is not None and (on_gpu or not options.paced > 0):
        raise ProfilingError(
            f"--paced must be above 0 and is for ranks on a CPU (got {options.paced}); give --device cpu"
        )
    if options.precision == "tf32" and not on_gpu:
        raise ProfilingError("tf32 needs a CUDA device (got a CPU); give --precision fp32")


def _phases(options: argparse.Namespace, ranks: Ranks) -> Iterator[Phase]:
    """Yield the phases to measure; a single rank only computes."""
    from real_run.sweep import all_reduce_sweep
    from real_run.training import Job

    wanted = [name for name in options.phases if ranks.size > 1 or name in _ALONE]
    if options.paced is not None and "layers" in wanted:
        wanted.remove("layers")  # pauses have no kernels
    if "all-reduce" in wanted:
        yield Phase("all-reduce", "all-reduce", partial(all_reduce_sweep, max_bytes=options.max_bytes))
    for model in options.models:
        paced_s = None if options.paced is None else options.paced / 1e3
        job = Job(model, options.batch, options.precision, options.layout, options.iterations, options.warm_up, paced_s)
        yield from _of_model(job, wanted, options)


def _of_model(job: Any, wanted: Sequence[str], options: argparse.Namespace) -> Iterator[Phase]:
    from real_run.data_parallel import communication_only, compute_only, data_parallel
    from real_run.layers import single_layers
    from real_run.servers import server_training

    buckets: list[int] = []

    def compute(ranks: Ranks) -> dict[str, Any]:
        found = compute_only(ranks, job)
        buckets[:] = ranks.share(found.get("buckets"))
        return found

    def communication(ranks: Ranks) -> dict[str, Any]:
        return communication_only(ranks, job, buckets or ranks.share(compute_only(ranks, job).get("buckets")))

    slow = replace(job, straggler=options.straggler)
    measures: dict[str, list[tuple[str, str, Any, Measure]]] = {
        "layers": [("layers", "layers", job, partial(single_layers, job=job, kernel_s=options.kernel_ms / 1e3))],
        "compute": [("compute only", "compute", job, compute)],
        "communication": [("communication only", "communication", job, communication)],
        "overlap": [("all-reduce, overlapped", "overlap", job, partial(data_parallel, job=job, overlap=True))],
        "no-overlap": [
            ("all-reduce after backward", "no-overlap", job, partial(data_parallel, job=job, overlap=False))
        ],
        "straggler": [
            ("all-reduce with a straggler", "no-overlap", slow, partial(data_parallel, job=slow, overlap=False)),
            ("asynchronous with a straggler", "async", slow, partial(server_training, job=slow, wait_for_all=False)),
        ],
        "server": [("parameter server", "server", job, partial(server_training, job=job, wait_for_all=True))],
        "async": [("asynchronous", "async", job, partial(server_training, job=job, wait_for_all=False))],
    }
    for name in wanted:
        for title, kind, trained, measure in measures.get(name, ()):
            about = trained.document()
            yield Phase(f"{job.model}: {title}", kind, partial(_with, about, measure))


def _with(about: dict[str, Any], measure: Measure, ranks: Ranks) -> dict[str, Any]:
    return {**about, **measure(ranks)}


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="real_run",
        description="Measure collectives and trainings on this cluster with torchrun, one process per GPU.",
    )
    parser.add_argument("--output", "-o", type=Path, default=Path("run.json"), metavar="FILE", help="%(default)s")
    parser.add_argument(
        "--models", metavar="LIST", help="models of clustersim's catalogue; resnet50, or squeezenet-1.0 on a CPU"
    )
    parser.add_argument("--batch", type=int, metavar="N", help="samples per rank; 32, or 2 on a CPU")
    parser.add_argument("--precision", default="fp32", metavar="P", help=f"one of {', '.join(PRECISIONS)}; %(default)s")
    parser.add_argument("--layout", default="nchw", metavar="L", help=f"one of {', '.join(LAYOUTS)}; %(default)s")
    parser.add_argument(
        "--phases", default=",".join(PHASES), metavar="LIST", help="phases to measure; all: %(default)s"
    )
    parser.add_argument(
        "--iterations", type=int, default=20, metavar="N", help="iterations of each training; %(default)s"
    )
    parser.add_argument("--warm-up", type=int, default=3, metavar="N", help="iterations before them; %(default)s")
    parser.add_argument(
        "--straggler", default="1:2", metavar="R:F", help="compute of rank R takes F times as long; %(default)s"
    )
    parser.add_argument("--max-bytes", type=int, metavar="N", help="largest all-reduce; 256 MiB, or 16 MiB on a CPU")
    parser.add_argument(
        "--kernel-ms", type=float, default=20.0, metavar="MS", help="measuring time per kernel; %(default)s"
    )
    parser.add_argument(
        "--paced",
        type=float,
        metavar="MS",
        help="iteration time of pauses that replace compute, for ranks that share cores",
    )
    parser.add_argument("--backend", default="auto", choices=["auto", "nccl", "gloo"], help="%(default)s: nccl on GPUs")
    parser.add_argument("--device", default="auto", choices=["auto", "cuda", "cpu"], help="%(default)s: a GPU if any")
    parser.add_argument(
        "--timeout", type=float, default=600.0, metavar="S", help="timeout for other ranks; %(default)s"
    )
    return parser
