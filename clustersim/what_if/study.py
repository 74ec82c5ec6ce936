"""Evaluates settings of the knobs of one scenario; results are cached."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from threading import Lock
from typing import Any

from clustersim.errors import ClustersimError, InputError, Mistake
from clustersim.results.files import to_json
from clustersim.scenario import Scenario, load_scenario
from clustersim.simulate import Workloads
from clustersim.sweep import sweep
from clustersim.what_if.base import SIZES, base_of, source_name
from clustersim.what_if.changes import Turned, changes, command, set_texts, strategy_kind, turned
from clustersim.what_if.evaluation import Evaluation, refusal_parts
from clustersim.what_if.knob import Knob, knob_named
from clustersim.what_if.knobs import knobs

_MOST_CACHED = 32
_NUM_SMALLER = 3
"""Halvings of the number of GPUs that are on the curve of a scenario with one size."""

_REFUSALS = 2
"""Sizes in a row that are tried in vain."""


class WhatIf:
    """A scenario whose values may be changed by its `knobs`.

    `source` is a file, a shipped name, a mapping or a `Scenario`; `overrides` are texts of `--set` that always apply.
    Several threads may call `evaluate`; it works on one setting at a time. Files must not change meanwhile.
    """

    def __init__(self, source: str | Path | Mapping[str, Any] | Scenario, overrides: Sequence[str] = ()):
        self._source, self._overrides = source, tuple(overrides)
        scenario = load_scenario(source, overrides)
        self.name, self._base = scenario.name, base_of(scenario)
        self._command_source = source_name(source)
        found = (self._fitting(knob) if knob.key == SIZES else knob for knob in knobs(self._base))
        self.knobs: tuple[Knob, ...] = tuple(knob for knob in found if len(knob.stops) > 1)
        self._workloads = Workloads()
        self._known: OrderedDict[str, Evaluation] = OrderedDict()
        self._lock = Lock()

    def evaluate(self, settings: Mapping[str, Any], on_progress: Callable[[], None] = lambda: None) -> Evaluation:
        """Return the forecast with these values of knobs, by name; the scenario's own for all others.

        A value is as in `Stop.value`, or its text. Raise InputError for a knob or a value that is not there: a value
        that is there, and that the scenario refuses, is an evaluation. `on_progress` is called now and then, and stops
        the evaluation by an exception of its own.
        """
        by_name = {knob.name: knob for knob in self.knobs}
        for name in settings:
            knob_named(by_name, name)
        chosen = turned(self.knobs, settings, self._base)
        key = to_json({name: stop.text for name, stop in chosen.items()})
        with self._lock:
            on_progress()
            if key not in self._known:
                self._known[key] = self._evaluated(chosen, on_progress)
                if len(self._known) > _MOST_CACHED:
                    self._known.popitem(last=False)
            self._known.move_to_end(key)
            return self._known[key]

    @property
    def is_busy(self) -> bool:
        """Whether a thread evaluates now."""
        return self._lock.locked()

    def distinct(self, settings: Iterable[Mapping[str, Any]]) -> list[dict[str, str]]:
        """Return settings as the texts of the knobs that they turn, each once: some turn knobs that change nothing."""
        found = ({name: stop.text for name, stop in turned(self.knobs, each, self._base).items()} for each in settings)
        return list({to_json(each): each for each in found}.values())

    @property
    def listed(self) -> dict[str, list[str]]:
        """The values that the scenario itself lists, as texts, by the name of the knob; the number of GPUs first."""
        values = {SIZES: self._base.sizes} | {key: axis.values for key, axis in self._base.listed.items()}
        named = {key: knob.name for knob in self.knobs for key in values if knob.key == key}
        by_key = {knob.key: knob for knob in self.knobs}
        return {named[key]: [by_key[key].stop(value).text for value in values[key]] for key in values if key in named}

    def known(self, settings: Mapping[str, str]) -> tuple[dict[str, str], list[str]]:
        """Return the settings that knobs have, and those that none has as `name=text`: an address may be old."""
        by_name, found = {knob.name: knob for knob in self.knobs}, {}
        for name, text in settings.items():
            with suppress(InputError):
                found[name] = knob_named(by_name, name).stop(text).text
        return found, [f"{name}={text}" for name, text in settings.items() if name not in found]

    def strategy_kind(self, settings: Mapping[str, Any]) -> str:
        """Return the kind of the strategy with these settings; values that no knob has are passed over."""
        with suppress(InputError):
            return strategy_kind(
                {knob.name: knob.stop(settings[knob.name]) for knob in self.knobs if knob.name in settings}, self._base
            )
        return self._base.point.strategy.kind

    def sizes(self, most: int) -> list[int]:
        """Return the numbers of GPUs on a curve that ends at `most`: those of the scenario, or halvings."""
        listed = [size for size in self._base.sizes if size < most]
        if len(self._base.sizes) > 1:
            return [*listed, most]
        halvings = (most >> step for step in range(_NUM_SMALLER, 0, -1) if most % (1 << step) == 0)
        return [*halvings, most]

    def _fitting(self, knob: Knob) -> Knob:
        """Return the knob of the sizes with those of the scenario, and those next to it that it does not refuse.

        After two in a row that are refused, as where the model does not fit into memory, no further ones are tried.
        """
        texts = [*self._overrides, *set_texts(changes(self._base, (), {}))]
        own = {*self._base.sizes, knob.now.value}
        kept = {stop.value for stop in knob.stops if stop.value in own}
        down = [stop.value for stop in reversed(knob.stops) if stop.value < min(own)]
        up = [stop.value for stop in knob.stops if stop.value > max(own)]
        between = [stop.value for stop in knob.stops if min(own) < stop.value < max(own) and stop.value not in own]
        for sizes in (down, up, between):
            num_refused = 0
            for size in sizes:
                try:
                    load_scenario(self._source, [*texts, _sizes_text([size])])
                    kept.add(size)
                    num_refused = 0
                except InputError:
                    num_refused += 1
                if num_refused == _REFUSALS:
                    break
        stops = tuple(stop for stop in knob.stops if stop.value in kept)
        return replace(knob, stops=stops, current=stops.index(knob.now))

    def _evaluated(self, chosen: Turned, on_progress: Callable[[], None]) -> Evaluation:
        texts = [*self._overrides, *set_texts(changes(self._base, self.knobs, chosen))]
        size = chosen.get(SIZES)
        most = self._base.point.num_gpus if size is None else int(size.value)
        settings = {name: stop.text for name, stop in chosen.items()}
        try:
            alone = load_scenario(self._source, [*texts, _sizes_text([most])])
            texts += set_texts(base_of(alone).pins)
            scenario, left_out = self._loaded(texts, self.sizes(most))
            texts.append(_sizes_text([point.num_gpus for _, point in scenario.points()]))
            found = sweep(
                scenario, lambda share, point: on_progress(), workloads=self._workloads, strict=True, learns=False
            )
        except ClustersimError as error:
            mistakes = error.mistakes if isinstance(error, InputError) else (Mistake(str(error)),)
            return Evaluation(settings, command(self._command_source, [*texts, _sizes_text([most])]), mistakes=mistakes)
        return Evaluation(settings, command(self._command_source, texts), found, left_out=left_out)

    def _loaded(self, texts: Sequence[str], sizes: list[int]) -> tuple[Scenario, dict[int, str]]:
        """Return the scenario with these sizes; without the smaller ones that it refuses, and why it does."""
        with suppress(InputError):
            return load_scenario(self._source, [*texts, _sizes_text(sizes)]), {}
        left_out = {}
        for size in sizes[:-1]:
            try:
                load_scenario(self._source, [*texts, _sizes_text([size])])
            except InputError as error:
                left_out[size] = refusal_parts(error.mistakes[0])[0]
        kept = [size for size in sizes if size not in left_out]
        return load_scenario(self._source, [*texts, _sizes_text(kept)]), left_out


def _sizes_text(sizes: Sequence[int]) -> str:
    return f"{SIZES}={sizes[0] if len(sizes) == 1 else list(sizes)}"
