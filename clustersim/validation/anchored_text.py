"""The scores of anchored forecasts as text for a terminal: a line for each group, and the summary last."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median

from clustersim.validation.anchored import AnchoredGroup, AnchoredVerdict
from clustersim.validation.text import aligned, number_text, percent_text, summary_text

_WORDS = ("case", "model", "GPU", "precision", "anchor")


def anchored_text(verdict: AnchoredVerdict) -> str:
    """Return the scores as text: groups that nothing else calibrates first."""
    parts = []
    for is_calibrated, title in ((False, "anchored"), (True, "anchored, and calibrated already")):
        rows = [group_cells(group) for group in verdict.groups if group.is_calibrated == is_calibrated]
        if rows:
            parts.append("\n".join([title, *aligned([group_headings(), *rows], _WORDS, indent="  ")]))
    skipped = [f"no anchor: {each.case}: {each.reason}" for each in verdict.skipped]
    return "\n\n".join([*parts, "\n".join([*skipped, *anchored_lines(verdict)])])


def anchored_lines(verdict: AnchoredVerdict) -> Iterator[str]:
    """Yield the summaries: with and without the anchor, and of the figures that have the anchor's layout or another."""
    rows = {
        "anchored, groups of several sizes": verdict.summary(several_sizes=True),
        "the same figures without an anchor": verdict.summary(several_sizes=True, anchored=False),
        "anchored, all groups": verdict.summary(),
        "all groups without an anchor": verdict.summary(anchored=False),
        "anchored, with the layout and strategy of the anchor": verdict.summary(like_anchor=True),
        "anchored, with another layout or strategy": verdict.summary(like_anchor=False),
        "anchored, and calibrated already": verdict.summary(is_calibrated=True),
        "calibrated already, without an anchor": verdict.summary(is_calibrated=True, anchored=False),
    }
    return (f"{name}: {summary_text(summary)}" for name, summary in rows.items() if summary.num_points)


def group_headings() -> list[str]:
    """Return the headings of `group_cells`."""
    return ["case", "model", "GPU", "precision", "anchor", "factor", "figures", "median", "worst", "without"]


def group_cells(group: AnchoredGroup) -> list[str]:
    """Return a group as texts: its anchor, and the median and the worst error with it, and the median without it."""
    sizes, without = ([abs(error) for error in group.errors(each)] for each in (True, False))
    gpus = f"{group.num_gpus} GPU{'' if group.num_gpus == 1 else 's'}"
    return [
        group.case,
        group.model,
        group.gpu,
        group.precision,
        f"{gpus}, batch {group.global_batch}: {number_text(group.measured)} {group.unit}",
        f"{group.factor:.3f}",
        str(len(sizes)),
        percent_text(median(sizes), signed=False),
        percent_text(max(group.errors(), key=abs)),
        percent_text(median(without), signed=False),
    ]
