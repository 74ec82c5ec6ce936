"""Encodes gradients before they travel and decodes them afterwards: compression, and copies into buckets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

from clustersim.program.issue import IterationIssue
from clustersim.program.iteration import Bucket, Iteration
from clustersim.program.ops import UPDATE, Compute, Op, Pass, Program, Ready


@dataclass(frozen=True)
class Wire:
    """Encoded gradients on the network, relative to the bytes that a worker sends.

    `adds` says whether they can be added on their way. For each byte sent, `back_per_byte` bytes come back to the
    worker: the gradients of `num_back` workers, one by one. A server that adds a gradient moves as many bytes of memory
    as for `added_per_byte` uncompressed bytes, for each byte that it has received.
    """

    adds: bool = True
    num_back: int = 1
    back_per_byte: float = 1.0
    added_per_byte: float = 1.0


@dataclass(frozen=True)
class Codec:
    """The seconds to compress or copy gradients before and after they travel, at a slowdown of 1.

    The GPU fills each bucket for `fill_s` [num_buckets] when it is ready, before backward goes on. The bucket then has
    the share `sent` of its bytes. The code that exchanges it copies it for `copied_s` [num_buckets]. The GPU empties
    all buckets for `empty_s`: before the update, or before forward where servers make the update (`at_servers`).
    """

    fill_s: Sequence[float]
    empty_s: float
    copied_s: Sequence[float]
    sent: float = 1.0
    at_servers: bool = False

    def packed(self, buckets: Sequence[Bucket]) -> list[Bucket]:
        """Return buckets as they travel: with their encoded bytes, and the seconds to copy them."""
        return [
            replace(bucket, num_bytes=bucket.num_bytes * self.sent, copied_s=copied_s)
            for bucket, copied_s in zip(buckets, self.copied_s, strict=True)
        ]


def with_codec(plan: Iteration, codec: Codec) -> Iteration:
    """Return an iteration in which the GPU also fills and empties buckets; that counts as compute.

    >>> from clustersim.program import plan_iteration
    >>> plan = plan_iteration(["a", "b"], [1, 1], [2, 2], [8, 8], 0.5, (0.0,), overlap=True)
    >>> coded = with_codec(plan, Codec([0.5, 0.25], 1.0, [0, 0]))
    >>> [bucket.ready_s for bucket in coded.buckets], coded.backward_s, coded.update_s
    ([2.5, 4.75], 4.75, 1.5)
    """
    so_far_s = list(accumulate(codec.fill_s, initial=0.0))
    packed = zip(codec.packed(plan.buckets), so_far_s[1:], strict=True)
    return Iteration(
        forward_s=plan.forward_s + (codec.empty_s if codec.at_servers else 0.0),
        backward_s=plan.backward_s + so_far_s[-1],
        update_s=plan.update_s + (0.0 if codec.at_servers else codec.empty_s),
        buckets=tuple(replace(bucket, ready_s=bucket.ready_s + delay_s) for bucket, delay_s in packed),
        issue=plan.issue and _delayed(plan.issue, codec),
    )


def _delayed(issue: IterationIssue, codec: Codec) -> IterationIssue:
    """Return issue times with the filling of each bucket before what follows it, and its emptying where it comes first.

    The host is assumed to issue these kernels in no time.
    """
    return issue.delayed(codec.empty_s if codec.at_servers else 0.0, codec.fill_s)


def with_codec_ops(program: Program, buckets: Sequence[Bucket], codec: Codec) -> Program:
    """Return a program in which each bucket is filled when it is ready, before any other compute.

    Where servers make the update, the buckets that have come back are emptied at the beginning.

    >>> with_codec_ops(Program(0, (Ready(0),)), [Bucket("a", 8, 0)], Codec([0.5], 0.0, [0])).lines()
    ['compute update 0 fill bucket a: 0.5 s', 'gradients ready: bucket 0']
    """
    parts: list[Op | Pass] = []
    if codec.at_servers and codec.empty_s:
        parts.append(Compute("empty buckets", codec.empty_s, UPDATE, 0))
    for part in program.parts:
        if isinstance(part, Ready) and codec.fill_s[part.bucket]:
            name = f"fill bucket {buckets[part.bucket].name}"
            parts.append(Compute(name, codec.fill_s[part.bucket], UPDATE, 0))
        parts.append(part)
    return replace(program, parts=tuple(parts))
