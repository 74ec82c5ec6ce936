"""What each stage of a layout holds as an iteration goes on, from the passes that were played."""

from __future__ import annotations

from clustersim.parallelism import ModelLayout
from clustersim.parallelism.memory_over_time import TimedPass, memory_over_time
from clustersim.program.ops import BACKWARD, FORWARD, RECOMPUTE, WEIGHTS
from clustersim.results import MemoryLine, Spans

_PHASES = {FORWARD: FORWARD, RECOMPUTE: BACKWARD, BACKWARD: BACKWARD, WEIGHTS: WEIGHTS}
_MICRO_BATCH = ", micro-batch "


def memory_lines(laid_out: ModelLayout, spans: Spans) -> tuple[MemoryLine, ...]:
    """Return a line for the first rank of each stage that noted down what it did; none where passes are not whole."""
    each, lines = laid_out.grid.num_ranks // laid_out.grid.pipeline, []
    passes = _passes(spans)
    for stage, held in enumerate(laid_out.held):
        steps = memory_over_time(held, passes.get(stage * each, []))
        if steps is not None:
            times_s, num_bytes = zip(*steps, strict=True)
            lines.append(MemoryLine(stage, stage * each, times_s, num_bytes))
    return tuple(lines)


def _passes(spans: Spans) -> dict[int, list[TimedPass]]:
    """Return the passes of each rank: what it computes of one micro-batch in one go is one."""
    passes: dict[int, list[TimedPass]] = {}
    for kind, rank, _, start_s, end_s, name, _ in spans.rows():
        _, is_pass, number = name.rpartition(_MICRO_BATCH)
        if kind not in _PHASES or not is_pass:
            continue
        own, phase = passes.setdefault(rank, []), _PHASES[kind]
        if own and own[-1][:2] == (phase, int(number)):
            own[-1] = own[-1]._replace(end_s=end_s)
        else:
            own.append(TimedPass(phase, int(number), start_s, end_s))
    return passes
