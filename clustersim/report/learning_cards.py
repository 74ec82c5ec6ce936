"""Cards of the part on learning: the table of all trained runs, and what is trained and what is not."""

from __future__ import annotations

from collections.abc import Iterator

from clustersim.report.learning_words import first_at_target, level_words
from clustersim.report.page import bullets, card, grid
from clustersim.report.trainings import TrainedRun, TrainingComparison, comparisons
from clustersim.report.words import count, duration, listed, percent, times
from clustersim.results import Sweep
from clustersim.results.learning_efficiency import Efficiency, efficiencies, samples_per_second

_WORDS = ("conditions", "run")

MAX_ROWS = 32
"""Runs of the table; of more, the best are shown."""


def learning_cards(sweep: Sweep) -> Iterator[str]:
    """Yield the cards; none where nothing was trained."""
    found = comparisons(sweep)
    if found:
        yield efficiency_card(found)
        yield trained_card(sweep, found)


def efficiency_card(found: tuple[TrainingComparison, ...]) -> str:
    """Return the table of all trained runs: speed, use of samples, and their product."""
    headings, body = efficiency_rows(found)
    under = (
        "Samples of the task per simulated second, and until the target. Hardware efficiency: samples per second over "
        "the most of any run. Statistical efficiency: the fewest samples until the target over the own ones. Both: "
        "their product over the largest one, the speed to the target."
    )
    if len(body) > MAX_ROWS:
        under += f" The first {MAX_ROWS} of {count(len(body))} runs, the best of each comparison first."
    table = grid(headings, body[:MAX_ROWS], _WORDS, "scroll many")
    return card(efficiency_title(found[0]), under, table, True, "Efficiency")


def efficiency_rows(found: tuple[TrainingComparison, ...]) -> tuple[list[str], list[list[str]]]:
    """Return headings and rows of texts, the best run of each comparison first."""
    have = [bool(one.where) for one in found]
    headings = ["conditions"] * any(have) + ["run", "samples/s", "samples to target", "time to target", "interval"]
    headings += ["seeds", "hardware", "statistical", "both", "final loss", "final accuracy"]
    body = []
    for one in found:
        shares = efficiencies([each.learning for each in one.trainings])
        most = max((share.product or 0.0 for share in shares if share is not None), default=0.0)
        for each, share in zip(one.trainings, shares, strict=True):
            body.append([*[one.where] * any(have), *_row(each, share, most)])
    return headings, body


def _row(training: TrainedRun, share: Efficiency | None, most: float) -> list[str]:
    learning = training.learning
    rate, pair = samples_per_second(learning), learning.time_to_target_interval
    has_target = learning.target is not None
    product = None if share is None or share.product is None or not most else share.product / most
    return [
        training.name,
        _known(None if rate is None else count(rate)),
        _known(None if learning.samples_to_target is None else count(round(learning.samples_to_target))),
        _known(None if learning.time_to_target_s is None else duration(learning.time_to_target_s)),
        _known(None if pair is None else f"{duration(pair[0])}–{duration(pair[1])}"),
        f"{learning.num_reached}/{learning.seeds}" if has_target else count(learning.seeds),
        _known(None if share is None else percent(share.hardware)),
        _known(None if share is None or share.statistical is None else percent(share.statistical)),
        _known(None if product is None else percent(product)),
        "diverged" if learning.diverged == learning.seeds else f"{learning.final_loss:#.3g}",
        _known(None if learning.final_accuracy is None else f"{learning.final_accuracy:.3f}"),
    ]


def _known(text: str | None) -> str:
    return "–" if text is None else text


def efficiency_title(main: TrainingComparison) -> str:
    """Say whether the first at the target has the speed, or needs the fewest samples."""
    ahead = first_at_target(main)
    shares = efficiencies([each.learning for each in main.trainings])
    by_run = {id(each): share for each, share in zip(main.trainings, shares, strict=True)}
    share = None if ahead is None else by_run[id(ahead.first)]
    if ahead is None or share is None or share.statistical is None or len(main.trainings) < 2:
        return "Speed and use of samples"
    name = ahead.first.name
    speed = "applies the most samples per second" if share.hardware > 0.995 else (
        f"applies {percent(share.hardware)} of the most samples per second"
    )  # fmt: skip
    words = level_words(main.metric, main.target or 0.0)
    if share.statistical > 0.995:
        needs = f"needs the fewest to {words}"
    else:
        needs = f"needs {times(1.0 / share.statistical)} the fewest to {words}"
    return f"{name[:1].upper()}{name[1:]} {speed} and {needs}"


def trained_card(sweep: Sweep, found: tuple[TrainingComparison, ...]) -> str:
    """Return what is trained, what is not, and what of the answer holds for a real job."""
    learning = found[0].trainings[0].learning
    settings = sorted({each.learning.settings for one in found for each in one.trainings} - {""})
    how = f": {settings[0]}" if len(settings) == 1 else ""
    tasks = listed(list(dict.fromkeys(one.task for one in found)))
    model = sweep.scenario.get("model")
    what = f"the model of the scenario ({model})" if isinstance(model, str) else "the models of the scenario"
    seeds = "one seed" if learning.seeds == 1 else f"{learning.seeds} seeds"
    texts = [
        f"Trained, by torch: {tasks}{how}; {seeds}.",
        f"Not trained: {what}. Its times and messages are simulated; they give the order in which workers "
        "read and write the weights of the task, and when.",
        "Holds for a real job: the order of reads and writes, how old gradients are, and what is dropped or averaged.",
        "Need not hold: seconds to the target, its level and where the lead changes. They depend on the model, its "
        "data, the batch and the learning rate.",
    ]
    return card("What is trained, and what is not", "", bullets(texts), name="What is trained")
