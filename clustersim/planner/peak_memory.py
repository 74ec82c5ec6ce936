"""Peak memory of layouts, fast enough for thousands of them: the same sums as for a simulated layout.

Parts with the same layers have the same activations, and stages with the same parts the same weights and state, so each
is computed once.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from clustersim.kernels.memory import CONTEXT_BYTES, SLACK, WORKSPACE_BYTES
from clustersim.kernels.narrow_gemms import narrow_inputs
from clustersim.model.casts import casts_of
from clustersim.parallelism.casting import casts_model, gathers_from_fp32, loss_peak_bytes
from clustersim.parallelism.experts import frozen_share, updated_share
from clustersim.parallelism.memory import (
    MemoryRules,
    PartActivations,
    PartInMemory,
    part_activations,
    stage_state,
    whole_gradient_bytes,
)
from clustersim.parallelism.offload import ACTIVATIONS
from clustersim.planner.layout_costs import LayoutCosts, SplitModel
from clustersim.planner.offloading import activation_bytes, with_offload
from clustersim.planner.pass_order import StagePasses, stage_passes
from clustersim.planner.space import Choice
from clustersim.program.exchange_buffers import ExchangeBuffers
from clustersim.scenario.buffers import channels_of, layout_buffers


class _Span(NamedTuple):
    """Layers `first` to before `end` of a part; `kinds` are equal for equal pieces, `blocks` are starts in the part."""

    first: int
    end: int
    kinds: tuple[int, ...]
    blocks: tuple[int, ...]


class PeakMemory:
    """Peak bytes of any rank, for each choice of a `LayoutCosts`."""

    def __init__(self, costs: LayoutCosts):
        self._costs = costs
        self._known_parts: dict[Hashable, PartActivations] = {}
        self._known_spans: dict[Hashable, tuple[_Span, ...]] = {}
        self._known_states: dict[Hashable, tuple[float, ...]] = {}
        self._num_channels = channels_of(costs.point)

    def peak_bytes(self, choice: Choice) -> float:
        """Return the peak bytes of a rank of the fullest stage; raise InputError if the layout is invalid."""
        layout, grid = choice.layout, choice.grid
        split = self._costs.split(choice)
        begins = self._costs.begins(choice)
        shapes = stage_passes(layout.schedule, grid.pipeline, layout.micro_batches, layout.chunks)
        spans = self._spans(choice, split, begins)
        stages, rules = range(grid.pipeline), self._rules(choice)
        if layout.offloads(ACTIVATIONS):
            held = [
                self._offloaded_activations(choice, split, spans[stage :: grid.pipeline], stage) for stage in stages
            ]
        else:
            own = [self._activations(choice, split, span, rules) for span in spans]
            held = [choice.micro_batch * _most_bytes(own[stage :: grid.pipeline], shapes[stage]) for stage in stages]
        states = self._states(choice, split, begins, spans)
        return max(state + (1 + SLACK) * activations for state, activations in zip(states, held, strict=True))

    def _spans(self, choice: Choice, split: SplitModel, begins: tuple[int, ...]) -> tuple[_Span, ...]:
        """Return the layers of each part of a choice's model."""
        key = choice.cut, begins
        if key not in self._known_spans:
            ends = (*begins[1:], len(split.pieces))
            self._known_spans[key] = tuple(
                _Span(first, end, split.kinds[first:end], tuple(_blocks(split, first, end)))
                for first, end in zip(begins, ends, strict=True)
            )
        return self._known_spans[key]

    def _offloaded_activations(self, choice: Choice, split: SplitModel, spans: Sequence[_Span], stage: int) -> float:
        """Return the bytes of a stage's activations if kept activations are offloaded to the host."""
        again = split.again[choice.layout.recompute]
        parts = [
            PartInMemory(split.pieces[each.first : each.end], 1.0, each.blocks, again[each.first : each.end])
            for each in spans
        ]
        rules = replace(self._rules(choice), micro_batch=choice.micro_batch)
        return activation_bytes(parts, with_offload(rules, self._costs, choice, stage))

    def _activations(self, choice: Choice, split: SplitModel, span: _Span, rules: MemoryRules) -> PartActivations:
        """Return the activations that a part keeps for one sample."""
        own = slice(span.first, span.end)
        again = split.again[choice.layout.recompute][own]
        narrow = tuple(piece.layer.name in rules.narrow for piece in split.pieces[own]) if rules.narrow else ()
        key = choice.cut, span.kinds, span.blocks, again, rules.casts_all, narrow
        if key not in self._known_parts:
            part = PartInMemory(split.pieces[own], 1.0, span.blocks, again)
            self._known_parts[key] = part_activations(part, rules)
        return self._known_parts[key]

    def _states(
        self, choice: Choice, split: SplitModel, begins: tuple[int, ...], spans: tuple[_Span, ...]
    ) -> tuple[float, ...]:
        """Return the bytes of each stage without its activations [num_stages]."""
        layout, grid = choice.layout, choice.grid
        buffers, num_shards = self._buffers(choice), grid.shard_group_size if layout.sharding else 1
        offloaded = () if layout.offload == "none" else (layout.offload, layout.micro_batches == 1)
        key = choice.cut, begins, grid.pipeline, layout.sharding, num_shards, buffers, offloaded
        if key not in self._known_states:
            known: dict[Hashable, float] = {}  # stages with the same pieces have the same state
            found = []
            for stage in range(grid.pipeline):
                own = spans[stage :: grid.pipeline]
                alike = tuple((each.kinds, each.blocks) for each in own), offloaded and stage
                if alike not in known:
                    known[alike] = self._state_bytes(choice, split, own, stage, buffers)
                found.append(known[alike])
            self._known_states[key] = tuple(found)
        return self._known_states[key]

    def _state_bytes(
        self, choice: Choice, split: SplitModel, spans: Sequence[_Span], stage: int, buffers: ExchangeBuffers
    ) -> float:
        """Return the bytes of a stage without its activations."""
        parts = [PartInMemory(split.pieces[each.first : each.end], 1.0, each.blocks, ()) for each in spans]
        pieces = [piece for part in parts for piece in part.pieces]
        rules = self._rules(choice, updated_share(pieces, choice.grid), frozen_share(pieces, choice.grid))
        if choice.layout.offload != "none":
            rules = with_offload(rules, self._costs, choice, stage)
        state = sum(stage_state(parts, rules).values())
        exchanged = sum(buffers.held(whole_gradient_bytes(parts, rules)).values())
        return (1 + SLACK) * state + WORKSPACE_BYTES + CONTEXT_BYTES + exchanged

    def _buffers(self, choice: Choice) -> ExchangeBuffers:
        strategy = self._costs.strategy(choice)
        return layout_buffers(self._costs.point, choice.layout, choice.grid, strategy, self._num_channels)

    def _rules(self, choice: Choice, share: float = 1.0, frozen: float = 1.0) -> MemoryRules:
        point, layout, grid = self._costs.point, choice.layout, choice.grid
        casts = casts_of(point.compute.casts, 1, point.precision, point.compute.wide_share)
        return MemoryRules(
            micro_batch=0,
            precision=point.precision,
            optimizer=point.optimizer,
            sharding=layout.sharding,
            share=share,
            frozen_share=frozen,
            gradient_bytes=point.gradient_bytes,
            weight_share=self._costs.setup.model.weight_share,
            casts_all=casts_model(layout, grid),
            from_fp32=gathers_from_fp32(layout),
            loss_bytes=loss_peak_bytes(point.compute.library, grid),
            narrow=narrow_inputs(self._costs.setup.model, point.precision, casts),
        )


def _most_bytes(activations: Sequence[PartActivations], shape: StagePasses) -> float:
    """Return the peak bytes of one sample's activations in a stage with these parts."""
    kept, again = (np.array([getattr(each, name) for each in activations]) for name in ("kept", "recomputed"))
    return float((shape.kept @ kept + again[shape.backward]).max()) + max(each.passing for each in activations)


def _blocks(split: SplitModel, first: int, end: int) -> list[int]:
    """Return the first layers of blocks in layers `first` to `end` - 1, relative to `first`; the first is 0."""
    starts = np.array(split.blocks)
    return [0, *(starts[(starts > first) & (starts < end)] - first).tolist()]
