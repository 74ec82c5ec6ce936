"""Memory over an iteration: bytes on a GPU of each stage during the passes of its micro-batches."""

from __future__ import annotations

from dataclasses import dataclass, replace

from clustersim.report.figure import Figure, Json, axis, layout, legend
from clustersim.report.lanes import times_shown
from clustersim.report.palette import series_colour
from clustersim.report.rank_names import part_word
from clustersim.report.series import run_label
from clustersim.report.words import percent, size, time_unit
from clustersim.results import MemoryLine, Run, Sweep

MAX_STAGES = 6
"""Lines that can be distinguished; of more stages the first, the last and some between are drawn."""

_GB = 1e9


_QUIET = 0.25
"""Share of a GPU's memory up to which its use says little."""


@dataclass(frozen=True)
class MemoryTime:
    """The figure in numbers: for each stage its name, times in seconds and bytes; `gpu_bytes` is the GPU's memory."""

    title: str
    run: str
    names: list[str]
    times_s: list[list[float]]
    held_bytes: list[list[float]]
    gpu_bytes: float | None
    num_stages: int
    quiet: str


def memory_time_data(sweep: Sweep, run: Run, max_stages: int = MAX_STAGES) -> MemoryTime | None:
    """Return the memory of stages over time; None where it is not known."""
    lines = run.memory_lines
    if not lines:
        return None
    begin_s, end_s = _shown(run)
    steps = [_within(line, begin_s, end_s) if run.stashes_weights else line for line in lines]
    last = len(lines) - 1
    shown = sorted({round(number * last / (max_stages - 1)) for number in range(max_stages)})
    shown = shown if last >= max_stages else list(range(last + 1))
    times_s = [[begin_s, *steps[number].time_s, end_s] for number in shown]
    held = [[steps[number].num_bytes[-1], *steps[number].num_bytes, steps[number].num_bytes[-1]] for number in shown]
    return MemoryTime(
        title=_title(run, lines),
        run=run_label(sweep, run),
        names=[f"{part_word(run)} {lines[number].stage}" for number in shown],
        times_s=[[time_s - begin_s for time_s in each] for each in times_s],
        held_bytes=held,
        gpu_bytes=run.gpu_memory_bytes,
        num_stages=len(lines),
        quiet=_quiet(run, lines),
    )


def _shown(run: Run) -> tuple[float, float]:
    """Return start and end of the figure: those of the timeline, or one iteration where iterations overlap."""
    first = min(line.time_s[0] for line in run.memory_lines)
    last = max(line.time_s[-1] for line in run.memory_lines)
    begin_s, end_s = times_shown(run) or (first, last)
    if not begin_s <= first <= last <= end_s:  # the spans do not cover the memory line
        begin_s, end_s = first, last
    longest_s = max(line.time_s[-1] - line.time_s[0] for line in run.memory_lines)
    return begin_s, begin_s + max(run.iteration_s, longest_s) if run.stashes_weights else end_s


def _within(line: MemoryLine, begin_s: float, end_s: float) -> MemoryLine:
    """Return the memory of a stage wrapped into one iteration: changes after its end are shown at its start."""
    steps = zip(line.time_s, line.num_bytes, strict=True)
    back_s = end_s - begin_s
    moved = [(time_s - back_s if time_s > end_s * (1 + 1e-12) else time_s, held) for time_s, held in steps]
    moved.sort(key=lambda step: step[0])
    return replace(line, time_s=tuple(time_s for time_s, _ in moved), num_bytes=tuple(held for _, held in moved))


def _quiet(run: Run, lines: tuple[MemoryLine, ...]) -> str:
    share = max(max(line.num_bytes) for line in lines) / (run.gpu_memory_bytes or float("inf"))
    return f"No more than {percent(share)} of a GPU's memory is in use." if 0 < share < _QUIET else ""


def _title(run: Run, lines: tuple[MemoryLine, ...]) -> str:
    gpu_bytes = run.gpu_memory_bytes
    fullest = max(lines, key=lambda line: max(line.num_bytes))
    peak, least = max(fullest.num_bytes), min(fullest.num_bytes)
    where = f"{part_word(run).capitalize()} {fullest.stage} holds most:" if len(lines) > 1 else "A GPU holds"
    share = f" ({percent(peak / gpu_bytes)} of the GPU's memory)" if gpu_bytes else ""
    return f"{where} {size(peak)}{share} at its peak; {size(peak - least)} of it vary with the micro-batches"


def draw_memory_time(data: MemoryTime) -> Figure:
    """Draw one step line per stage, and the GPU's memory as a dashed line."""
    unit, factor = time_unit(max(times_s[-1] for times_s in data.times_s))
    traces: list[Json] = [
        {
            "type": "scatter",
            "mode": "lines",
            "name": name,
            "x": [float(f"{time_s / factor:.6g}") for time_s in times_s],
            "y": [float(f"{held / _GB:.6g}") for held in held_bytes],
            "line": {"color": series_colour(number), "width": 2, "shape": "hv"},
            "hovertemplate": f"{name} at %{{x:.4g}} {unit}: %{{y:.4g}} GB<extra></extra>",
        }
        for number, (name, times_s, held_bytes) in enumerate(
            zip(data.names, data.times_s, data.held_bytes, strict=True)
        )
    ]
    if data.gpu_bytes:
        traces.append(_gpu_memory(data.gpu_bytes, max(times_s[-1] for times_s in data.times_s) / factor))
    drawn = layout(
        360,
        showlegend=True,
        legend=legend(),
        xaxis=axis(f"time ({unit})", showgrid=False),
        yaxis=axis("memory (GB)", rangemode="tozero"),
    )
    under = f"Memory in use on a GPU of each stage over an iteration (GB): {data.run}. Dashed: the GPU's memory."
    left_out = data.num_stages - len(data.names)
    note = f"{len(data.names)} of {data.num_stages} stages are drawn." if left_out else ""
    return Figure(
        data.title, under, traces, drawn, {"xaxis": {"nticks": 5}}, label=data.run, note=note, quiet=data.quiet
    )


def _gpu_memory(num_bytes: float, end: float) -> Json:
    return {
        "type": "scatter",
        "mode": "lines",
        "name": "the GPU's memory",
        "x": [0, float(f"{end:.6g}")],
        "y": [num_bytes / _GB] * 2,
        "line": {"color": "@muted", "width": 1.5, "dash": "dash"},
        "hovertemplate": "the GPU has %{y:.4g} GB<extra></extra>",
    }
