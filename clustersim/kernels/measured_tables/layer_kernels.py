"""Seconds of the kernels of a model's layers: from a measured table where there is one, by the law elsewhere.

A linear layer's product forward is Y[m, n] = X[m, k] W[n, k]^T with m rows of a batch, n outputs and k inputs. Tables
have this one alone. The gradients are products of the same kind with m, n and k exchanged: of data [rows, inputs] over
outputs, of weights [outputs, inputs] over rows. They take the time of a product of their size. That the operands lie
differently in memory is not distinguished.

Outside a table's range there is no extrapolation. The law's time is taken, times the ratio of the table to the law at
the nearest point of the table's edge. Such a kernel is not measured. Where a neighbour is missing, the law's time
stays. Recurrent layers, convolutions and attention that is not fused have the law's times.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from clustersim.hardware.sheet import Gpu
from clustersim.kernels.attention_rates import CAUSAL, DOCUMENT, is_masked, pair_share, width_and_keys
from clustersim.kernels.fused_attention import KERNELS, is_fused
from clustersim.kernels.gemm_derating import gemm_derating
from clustersim.kernels.kernel_constants import KernelConstants
from clustersim.kernels.kernel_model import Gemm, GpuRates, Phase, gemm_seconds
from clustersim.kernels.measured_tables.attention import AttentionTimes, attention_times
from clustersim.kernels.measured_tables.experts import ExpertShape, ExpertTimes, expert_times
from clustersim.kernels.measured_tables.installed import Tables
from clustersim.kernels.measured_tables.products import ProductTable, product_table
from clustersim.kernels.measured_tables.systems import KernelSource, System, format_of, system_of, tables_in_use
from clustersim.model.layer import Layer
from clustersim.model.precision import Precision

_PRODUCT_OPS = ("fully-connected", "embedding", "router")


class Product(NamedTuple):
    """A kernel of one phase of a layer, as the law has it; `narrow` is the precision of one in 8 or 4 bits."""

    gemm: Gemm
    layer: Layer
    phase: Phase
    narrow: str = ""


class LayerKernels(NamedTuple):
    """Seconds of kernels [num_kernels], which of them are measured, which are scaled, and the tables, as phrases."""

    seconds: np.ndarray
    is_measured: np.ndarray
    is_scaled: np.ndarray
    tables: tuple[str, ...] = ()

    def measured_layers(self, layer_of: Sequence[int]) -> frozenset[int]:
        """Return the layers all of whose kernels are measured, given the layer of each kernel [num_kernels]."""
        of = np.asarray(layer_of, dtype=int)
        return frozenset(of[self.is_measured].tolist()) - frozenset(of[~self.is_measured].tolist())

    def assumptions(self, layer_of: Sequence[int], kinds: Sequence[int]) -> tuple[str, ...]:
        """Return what a forecast's reader should know of the tables; `kinds` is the first layer of each one's kind."""
        if not self.tables:
            return ()
        of, whole = np.asarray(layer_of, dtype=int), self.measured_layers(layer_of)
        measured = sum(kind in whole for kind in kinds)
        in_part = frozenset(of[self.is_measured].tolist()) - whole
        partly = sum(kind in in_part for kind in kinds)
        outside = sum(kind in frozenset(of[self.is_scaled].tolist()) for kind in kinds)
        sentences = [
            f"Kernels of {measured} of {len(kinds)} layers are measured: they are interpolated in tables of kernels "
            f"that were timed alone in CUDA graphs, {'; '.join(self.tables)}. Gradients take the time of a product of "
            "their size."
        ]
        if partly:
            sentences.append(
                f"Of {partly} layers only some kernels are measured: gradients of attention and experts are estimated."
            )
        if outside:
            sentences.append(
                f"{outside} layers have a product outside a table's range: its estimate is scaled to meet the table's "
                "edge."
            )
        return tuple(sentences)


def kernel_seconds(
    source: KernelSource,
    products: Sequence[Product],
    batch: int,
    gpu: Gpu,
    number: Precision,
    flash: int,
    rates: GpuRates,
    constants: KernelConstants,
) -> LayerKernels:
    """Return the seconds of kernels, by the law or from the tables that hold for the GPU.

    Where the GPU's rates are multiples of its sheet's, times from a table change as the law's do.
    `flash` is the kernel of fused attention of a layer that does not name one. Products from a table are as slow in
    training, beside a product that is timed alone, as those of the law, whose constants are fitted to such times
    (`gemm_derating`).
    """
    law_s = gemm_seconds([each.gemm for each in products], rates, constants)
    if gpu.of_sheet is not None and source == "measured":
        sheet_rates = _rates_of_sheet(rates, gpu, gpu.of_sheet)
        found = kernel_seconds(source, products, batch, gpu.of_sheet, number, flash, sheet_rates, constants)
        law_of_sheet_s = gemm_seconds([each.gemm for each in products], sheet_rates, constants)
        return found._replace(seconds=found.seconds * law_s / law_of_sheet_s)
    nothing = np.zeros(len(products), dtype=bool)
    system = system_of(gpu) if source == "measured" else None
    if system is None:
        return LayerKernels(law_s, nothing, nothing)
    tables = tables_in_use()
    seconds, is_measured, is_scaled = law_s.copy(), nothing.copy(), nothing.copy()
    named: list[str] = []
    for narrow in ("", "amp-fp8"):
        dtype = format_of(number, in_fp8=bool(narrow))
        at = [index for index, each in enumerate(products) if _is_product(each) and each.narrow == narrow]
        table = None if dtype is None else product_table(tables.folder, system, dtype)
        if not at or table is None:
            continue
        chosen = [products[index] for index in at]
        seconds[at], is_measured[at], is_scaled[at] = _from_table(chosen, table, law_s[at], rates, constants)
        named.append(_product_phrase(table, dtype or "", tables))
    for times, index in _attentions(products, tables, system, number, flash):
        forward_s = float(times.grid.seconds(_attention_point(products[index].layer, batch))[0])
        if np.isfinite(forward_s):
            seconds[index], is_measured[index] = forward_s / 2, True
            named.append(_attention_phrase(times, tables))
    for experts, into, out in _expert_pairs(products, tables, system, number):
        both_s = _experts_s(experts, products[into], batch, number, rates, constants)
        if np.isfinite(both_s):
            pair = [into, out]
            seconds[pair], is_measured[pair] = both_s * law_s[pair] / law_s[pair].sum(), True
            named.append(_expert_phrase(experts, tables))
    return LayerKernels(seconds, is_measured, is_scaled, tuple(dict.fromkeys(named)))


def _rates_of_sheet(rates: GpuRates, gpu: Gpu, sheet: Gpu) -> GpuRates:
    flop = sheet.flop_per_s["fp32"] / gpu.flop_per_s["fp32"]
    return rates._replace(
        flop_per_s=rates.flop_per_s * flop,
        ordinary_flop_per_s=rates.ordinary_flop_per_s * flop,
        memory_bytes_per_s=sheet.memory_bytes_per_s,
    )


def _is_product(each: Product) -> bool:
    """Return whether a kernel is a product of a matrix of weights, which runs once for each of `count` matrices."""
    return each.layer.op in _PRODUCT_OPS and each.gemm.columns >= 1


def _from_table(
    products: Sequence[Product], table: ProductTable, law_s: np.ndarray, rates: GpuRates, constants: KernelConstants
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return seconds, which are measured and which are scaled, [num_products] each."""
    gemms = [each.gemm for each in products]
    points = np.array([(gemm.columns, gemm.rows, gemm.inner) for gemm in gemms], dtype=float)
    calls = np.array([gemm.count * gemm.repeats for gemm in gemms], dtype=float)
    kept = np.array([gemm_derating(each.layer, constants) for each in products])
    around_s = np.array([_around_s(gemm, rates, constants) for gemm in gemms])
    inside_s = table.grid.seconds(points) * calls / kept
    edges = table.grid.nearest(points)
    edge_s = table.grid.seconds(edges) * calls / kept
    at_edges = [_at(gemm, edge, constants) for gemm, edge in zip(gemms, edges, strict=True)]
    law_edge_s = gemm_seconds(at_edges, rates, constants)
    scaled_s = (law_s - around_s) * edge_s / law_edge_s
    is_measured = np.isfinite(inside_s)
    is_scaled = ~is_measured & np.isfinite(scaled_s)
    core_s = np.where(is_measured, inside_s, np.where(is_scaled, scaled_s, law_s - around_s))
    return core_s + around_s, is_measured, is_scaled


def _around_s(gemm: Gemm, rates: GpuRates, constants: KernelConstants) -> float:
    """Return the seconds of kernels around a product, such as casts to FP8, which tables do not have."""
    memory_rate = constants.shape.memory_efficiency * rates.memory_bytes_per_s
    launches = max(0.0, gemm.launches - _own_launches(gemm, constants))
    return (gemm.layout_bytes / memory_rate + launches * rates.launch_s) * gemm.repeats


def _own_launches(gemm: Gemm, constants: KernelConstants) -> float:
    """Return the launches in the law's time of a product alone: none where its fixed time has them."""
    return 0.0 if gemm.is_product else constants.shape.launches("matmul")


def _at(gemm: Gemm, point: np.ndarray, constants: KernelConstants) -> Gemm:
    """Return a product of another size (m, n, k), without the kernels around it."""
    columns, rows, inner = (float(size) for size in point)
    ratio = (rows * inner + columns * (rows + inner)) / (
        gemm.rows * gemm.inner + gemm.columns * (gemm.rows + gemm.inner)
    )
    return replace(
        gemm,
        rows=rows,
        columns=columns,
        inner=inner,
        num_bytes=gemm.num_bytes * ratio,
        layout_bytes=0.0,
        launches=min(gemm.launches, _own_launches(gemm, constants)),
    )


def _attentions(
    products: Sequence[Product], tables: Tables, system: System, number: Precision, flash: int
) -> Iterator[tuple[AttentionTimes, int]]:
    """Yield the table of each kernel of fused attention forward that has one."""
    if format_of(number) is None:
        return
    for index, each in enumerate(products):
        layer, shape = each.layer, each.layer.shape
        if each.phase != "forward" or not is_fused(layer) or shape.get("blocks", 1) != 1 or DOCUMENT in shape:
            continue
        width, keys = width_and_keys(layer)
        kind = "attention" if is_masked(layer) else "encoder_attention"
        table = system.attention if kind == "attention" else system.encoder_attention
        kernel = shape.get("flash", flash)
        if (
            table is None
            or keys != shape["rows"]
            or pair_share(layer) < CAUSAL  # the tables' masks have no window
            or kernel not in [KERNELS[name] for name in KERNELS if name in table.kernels]
        ):
            continue
        times = attention_times(tables.folder, system, kind, width)
        if times is not None:
            yield times, index


def _attention_point(layer: Layer, batch: int) -> np.ndarray:
    return np.array([[batch, layer.shape["rows"], layer.shape["count"]]], dtype=float)


def _expert_pairs(
    products: Sequence[Product], tables: Tables, system: System, number: Precision
) -> Iterator[tuple[ExpertTimes, int, int]]:
    """Yield the table of each gated pair of layers of experts forward, into the experts and out of them."""
    dtype = format_of(number)
    times = None if dtype is None else expert_times(tables.folder, system, dtype)
    if times is None:
        return
    forward = [
        index
        for index, each in enumerate(products)
        if each.layer.op == "experts" and each.phase == "forward" and not each.narrow
    ]
    for into, out in pairwise(forward):
        first, second = products[into].layer.shape, products[out].layer.shape
        is_gated = first["count"] == 2 * first["experts"] and second["count"] == second["experts"] == first["experts"]
        is_pair = (first["inputs"], first["outputs"]) == (second["outputs"], second["inputs"])
        if is_gated and is_pair and _expert_shape(products[into]) in times.grids:
            yield times, into, out


def _expert_shape(into: Product) -> ExpertShape:
    shape = into.layer.shape
    return ExpertShape(shape["inputs"], shape["outputs"], shape["experts"])


def _experts_s(
    times: ExpertTimes, into: Product, batch: int, number: Precision, rates: GpuRates, constants: KernelConstants
) -> float:
    """Return the seconds of both products of experts, without the gate between them, a layer of its own here.

    The gate reads two numbers for each one that it writes, at the memory rate of element-wise kernels.
    """
    shape = into.layer.shape
    rows = batch * shape["rows"] * shape["experts"]
    whole_s = float(times.grids[_expert_shape(into)].seconds(np.array([[float(rows)]]))[0])
    gate_bytes = 3.0 * rows * shape["outputs"] * number.operand_bytes
    alone_s = whole_s - gate_bytes / (constants.memory_efficiency * rates.memory_bytes_per_s)
    return alone_s / gemm_derating(into.layer, constants) if alone_s > 0 else np.nan


def _product_phrase(table: ProductTable, dtype: str, tables: Tables) -> str:
    cast = ", with the cast of the input subtracted" if dtype == "fp8" and not table.has_cast else ""
    return (
        f"products in {dtype} by {table.library} {table.version} ({table.kernels}, {table.device}; "
        f"{tables.package}){cast}"
    )


def _attention_phrase(times: AttentionTimes, tables: Tables) -> str:
    return f"attention forward by {times.library} {times.version} ({times.kernels}; {tables.package})"


def _expert_phrase(times: ExpertTimes, tables: Tables) -> str:
    return f"experts forward by {times.library} {times.version} ({times.kernel}; {tables.package})"
