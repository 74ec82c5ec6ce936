"""Compression in a rank's iteration, and what compressed gradients are to those who exchange them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

from clustersim.program.iteration import Iteration
from clustersim.program.ops import UPDATE, Compute, Op, Pass, Program, Ready


@dataclass(frozen=True)
class Wire:
    """Gradients as they travel, against the bytes that a worker sends.

    `adds` says whether they can be added on their way. For each byte sent `back_per_byte` come back to the worker,
    of `num_back` workers' gradients one by one. A server that adds a gradient moves as much as it does for
    `added_per_byte` plain bytes for each byte that came.
    """

    adds: bool = True
    num_back: int = 1
    back_per_byte: float = 1.0
    added_per_byte: float = 1.0


def with_codec(plan: Iteration, encode_s: Sequence[float], decode_s: float, before_forward: bool) -> Iteration:
    """Return an iteration in which the GPU encodes each bucket when it is ready, before backward goes on.

    `encode_s` [num_buckets]. What comes back is decoded before the update; or before forward, where the update is
    made elsewhere. Both count as compute.

    >>> from clustersim.program import plan_iteration
    >>> plan = plan_iteration(["a", "b"], [1, 1], [2, 2], [8, 8], 0.5, (0.0,), overlap=True)
    >>> coded = with_codec(plan, [0.5, 0.25], 1.0, before_forward=False)
    >>> [bucket.ready_s for bucket in coded.buckets], coded.backward_s, coded.update_s
    ([2.5, 4.75], 4.75, 1.5)
    """
    so_far_s = list(accumulate(encode_s, initial=0.0))
    buckets = tuple(
        replace(bucket, ready_s=bucket.ready_s + delay_s)
        for bucket, delay_s in zip(plan.buckets, so_far_s[1:], strict=True)
    )
    return replace(
        plan,
        forward_s=plan.forward_s + (decode_s if before_forward else 0.0),
        backward_s=plan.backward_s + so_far_s[-1],
        update_s=plan.update_s + (0.0 if before_forward else decode_s),
        buckets=buckets,
    )


def with_codec_ops(program: Program, names: Sequence[str], encode_s: Sequence[float], decode_s: float) -> Program:
    """Return a program in which each bucket is encoded when it is ready, before anything else is computed.

    `names` and `encode_s` are [num_buckets]; what has come back is decoded at the beginning, which takes `decode_s`.

    >>> with_codec_ops(Program(0, (Ready(0),)), ["a"], [0.5], 0.0).lines()
    ['compute update 0 encode a: 0.5 s', 'gradients ready: bucket 0']
    """
    parts: list[Op | Pass] = [Compute("decode", decode_s, UPDATE, 0)] if decode_s else []
    for part in program.parts:
        if isinstance(part, Ready) and encode_s[part.bucket]:
            parts.append(Compute(f"encode {names[part.bucket]}", encode_s[part.bucket], UPDATE, 0))
        parts.append(part)
    return replace(program, parts=tuple(parts))
