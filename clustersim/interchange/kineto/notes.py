"""What a reader of a profile should know of the trace's time, as sentences."""

from __future__ import annotations

from clustersim.interchange.kineto.layers import Attributed

_MOST_OTHER = 0.05  # of the layers' time
_MOST_NAMES = 4


def time_notes(found: Attributed) -> list[str]:
    """Return notes on the steps, on time that belongs to no layer, and on what names none."""
    return [*_of_no_layer(found), *_on_marks(found), *_on_compiled(found), *_on_steps(found)]


def _of_no_layer(found: Attributed) -> list[str]:
    notes = []
    for seconds, what in (
        (found.communication_s, "are communication (kernels of NCCL and the copies around them)"),
        (found.recomputed_s, "compute forward passes again (activation checkpointing)"),
        (found.graph_s, "are kernels of CUDA graphs, whose operators a trace does not have"),
    ):
        if seconds > 0:
            notes.append(f"{seconds * 1e3:.3g} ms per step {what}: they belong to no layer.")
    if found.other_s > _MOST_OTHER * found.layers_s:
        notes.append(f"{found.other_s * 1e3:.3g} ms per step belong to no layer (copies, sums of gradients, scaling).")
    return notes


def _on_marks(found: Attributed) -> list[str]:
    if not found.unused_marks:
        return []
    names = ", ".join(f"'{name[:60]}'" for name in found.unused_marks[:_MOST_NAMES])
    more = len(found.unused_marks) - _MOST_NAMES
    names += f" and {more} more" if more > 0 else ""
    return [f"Marks around a pass or several modules name no layer: {names}. Modules and operators inside are layers."]


def _on_compiled(found: Attributed) -> list[str]:
    compiled = [layer for name, layer in found.layers.items() if name in found.compiled]
    if not compiled:
        return []
    seconds = sum(sum(map(sum, layer.seconds.values())) for layer in compiled) / found.num_steps
    share = f"{seconds / found.layers_s:.0%}" if found.layers_s > 0 else "0%"
    return [
        f"{len(compiled)} of {len(found.layers)} layers are regions of torch.compile, {share} of the layers' time: "
        "layers inside cannot be told apart, and all gradients of a region come when its backward pass ends. Compile "
        "block by block, or profile without torch.compile."
    ]


def _on_steps(found: Attributed) -> list[str]:
    if found.steps.is_marked:
        return []
    how = "torch writes ProfilerStep marks if the profiler has a schedule= and the loop calls prof.step()."
    if found.steps.bounds_us:
        return [
            f"The trace has no ProfilerStep marks: its {found.num_steps} steps end with those of the optimizer, and "
            f"the first begins with the trace. {how[0].upper()}{how[1:]}"
        ]
    return [f"The trace has no ProfilerStep marks: it is assumed to be one step. {how}"]
