"""Layers take the times of a table where it has their kernels, and the law's elsewhere. The tables are made here."""

from __future__ import annotations

from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from pydantic import ValidationError

from clustersim.errors import InputError
from clustersim.hardware import load_gpu
from clustersim.kernels.compute_time import ComputeSpec, SingleGpuRate, build_workload, rate_factor
from clustersim.kernels.fused_attention import KERNELS, AttentionKernel, is_fused, with_kernel
from clustersim.kernels.gemm_derating import TRAINING_DERATING
from clustersim.kernels.kernel_constants import constants_of
from clustersim.kernels.layer_times import estimate_layers
from clustersim.kernels.measured_tables import Kernels, KernelSource, chosen_kernels, installed, layer_kernels
from clustersim.kernels.measured_tables.attention import AttentionTimes
from clustersim.kernels.measured_tables.experts import ExpertShape, ExpertTimes
from clustersim.kernels.measured_tables.grid import TimeGrid
from clustersim.kernels.measured_tables.listing import list_kernels
from clustersim.kernels.measured_tables.products import ProductTable, without_casts
from clustersim.kernels.measured_tables.systems import system_of, systems
from clustersim.kernels.optimizer import OptimizerSpec
from clustersim.model.builder import Builder, Tensor
from clustersim.model.catalogue import load_model
from clustersim.model.layer import LayerTime, Model
from clustersim.model.precision import PRECISIONS
from clustersim.scenario import load_scenario
from clustersim.simulate.setup import alone_s
from clustersim.validation.question import with_law

SEARCH = installed.search_tables
SOURCES: tuple[KernelSource, ...] = ("law", "measured")

H100 = load_gpu("h100")
KEPT = TRAINING_DERATING["gh100-tensor"]
RATE = 1e15
AXES = tuple(np.array([16.0, 64.0, 1024.0, 65536.0]) for _ in range(3))


def product_s(points: np.ndarray) -> np.ndarray:
    """A law of the test's own, so that nothing else gives these times; it is not symmetric in m, n and k."""
    m, n, k = points.T
    return 2 * m * n**0.9 * k**1.1 / RATE


def product_grid(axes: tuple[np.ndarray, ...] = AXES) -> TimeGrid:
    points = np.stack([each.ravel() for each in np.meshgrid(*axes, indexing="ij")], axis=1)
    return TimeGrid.of_rows(list(points.T), product_s(points))


def use(monkeypatch: pytest.MonkeyPatch, grid: TimeGrid, attention: AttentionTimes | None = None) -> None:
    """Install synthetic tables: products of one grid, for every format but nvfp4."""
    table = ProductTable(grid, "lib", "1.2", "linear", "a device", has_cast=False)
    monkeypatch.setattr(installed, "search_tables", lambda: installed.Tables(Path("nowhere"), "made-tables 0.12.0"))
    monkeypatch.setattr(layer_kernels, "product_table", lambda folder, system, dtype: table)
    monkeypatch.setattr(layer_kernels, "attention_times", lambda folder, system, kind, width: attention)
    monkeypatch.setattr(layer_kernels, "expert_times", lambda folder, system, dtype: None)


@pytest.fixture
def tables(monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, product_grid())


BATCH, ROWS, INPUTS, OUTPUTS = 2, 128, 512, 2048


def one_layer(inputs: int = INPUTS, outputs: int = OUTPUTS, count: int = 1) -> Model:
    net = Builder("one", "one")
    first = net.linear("before", Tensor(256, ROWS), inputs, bias=False)
    net.loss("loss", net.linear("head", net.linear("in", first, outputs, bias=False, count=count), 64, bias=False))
    return net.model()


def times(model: Model, source: KernelSource = "measured", precision: str = "amp-bf16", name: str = "in") -> LayerTime:
    found = estimate_layers(model, H100, BATCH, precision, kernels=source)
    return next(each for each in found.layers if each.layer.name == name)


def of(m: float, n: float, k: float, grid: TimeGrid | None = None) -> float:
    """Return the table's seconds, as training keeps them."""
    return float((grid or product_grid()).seconds(np.array([[m, n, k]], dtype=float))[0]) / KEPT


@pytest.mark.usefixtures("tables")
def test_each_phase_takes_the_time_of_the_product_of_its_size() -> None:
    found, samples = times(one_layer()), BATCH * ROWS
    assert found.forward_s == pytest.approx(of(samples, OUTPUTS, INPUTS), rel=1e-12)
    assert found.backward_data_s == pytest.approx(of(samples, INPUTS, OUTPUTS), rel=1e-12)
    assert found.backward_weights_s == pytest.approx(of(INPUTS, OUTPUTS, samples), rel=1e-12)
    assert found.provenance == "measured"


@pytest.mark.usefixtures("tables")
def test_independent_matrices_run_one_after_the_other() -> None:
    assert times(one_layer(count=3)).forward_s == pytest.approx(3 * of(BATCH * ROWS, OUTPUTS, INPUTS), rel=1e-12)


@pytest.mark.usefixtures("tables")
def test_the_law_is_untouched_by_installed_tables() -> None:
    assert times(one_layer(), "law").provenance == "estimated"
    assert times(one_layer(), "law").forward_s != pytest.approx(times(one_layer()).forward_s, rel=0.01)


def test_beyond_the_edge_the_law_is_scaled_to_meet_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    edge = 1024.0
    grid = product_grid((AXES[0], np.array([16.0, edge]), AXES[2]))
    use(monkeypatch, grid)
    found, law, law_at_edge = times(one_layer()), times(one_layer(), "law"), times(one_layer(outputs=1024), "law")
    wanted = law.forward_s * of(BATCH * ROWS, edge, INPUTS, grid) / law_at_edge.forward_s
    assert found.forward_s == pytest.approx(wanted, rel=1e-9)
    assert found.provenance == "estimated"
    just_inside, just_outside = times(one_layer(outputs=1024)), times(one_layer(outputs=1025))
    assert just_inside.provenance == "measured"
    assert just_outside.forward_s == pytest.approx(just_inside.forward_s, rel=0.35)  # one more tile of the law
    said = estimate_layers(one_layer(), H100, BATCH, "amp-bf16", kernels="measured").assumptions
    assert any("outside a table's range" in sentence for sentence in said)


def test_where_a_neighbour_is_missing_the_law_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    grid = product_grid()
    use(monkeypatch, replace(grid, log_seconds=np.full_like(grid.log_seconds, np.nan)))
    assert times(one_layer()).forward_s == pytest.approx(times(one_layer(), "law").forward_s, rel=1e-12)
    assert times(one_layer()).provenance == "estimated"


@pytest.mark.usefixtures("tables")
def test_a_product_in_fp8_has_its_casts_around_the_time_of_the_table() -> None:
    casts = times(one_layer(), "measured", "amp-fp8").forward_s - of(BATCH * ROWS, OUTPUTS, INPUTS)
    rate = constants_of(H100, "tensor").shape.memory_efficiency * H100.memory_bytes_per_s
    read, weights = BATCH * ROWS * INPUTS, INPUTS * OUTPUTS
    assert casts == pytest.approx(5 * (read + weights) / rate + 4 * H100.launch_s, rel=1e-9)


@pytest.mark.usefixtures("tables")
def test_layers_that_are_no_product_and_convolutions_have_the_law() -> None:
    model = load_model("resnet50")
    law, found = (estimate_layers(model, H100, 8, "amp-bf16", kernels=each).layers for each in ("law", "measured"))
    changed = {other.layer.op for one, other in zip(law, found, strict=True) if one.forward_s != other.forward_s}
    assert changed <= {"fully-connected"}


def attention_of(seconds: float) -> AttentionTimes:
    axes = (np.array([1.0, 64.0]), np.array([16.0, 8192.0]), np.array([1.0, 128.0]))
    return AttentionTimes(TimeGrid(axes, np.full((2, 2, 2), np.log(seconds))), "lib", "1.2", "fa3")


@pytest.mark.parametrize(("kernel", "is_in_table"), [("flash-attention-3", True), ("flash-attention-2", False)])
def test_attention_forward_is_measured_where_the_table_has_its_kernel(
    monkeypatch: pytest.MonkeyPatch, kernel: AttentionKernel, is_in_table: bool
) -> None:
    use(monkeypatch, product_grid(), attention_of(1.25e-3))
    model = with_kernel(load_model("llama-2-7b"), kernel)
    law, found = (estimate_layers(model, H100, 1, "amp-bf16", kernels=each).layers for each in ("law", "measured"))
    pairs = [pair for pair in zip(law, found, strict=True) if is_fused(pair[0].layer)][:2]
    assert (sum(one.forward_s for _, one in pairs) == pytest.approx(1.25e-3)) == is_in_table
    assert all(one.backward_s == other.backward_s for one, other in pairs)
    assert {one.provenance for _, one in pairs} == {"estimated"}  # most of their time is backward


def test_experts_forward_share_the_measured_time_without_the_gate(monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, product_grid())
    whole_s, shape = 5e-3, ExpertShape(4096, 14_336, 8)
    known = ExpertTimes(
        {shape: TimeGrid((np.array([8.0, 32_768.0]),), np.full(2, np.log(whole_s)))}, "lib", "1.2", "cut"
    )
    monkeypatch.setattr(layer_kernels, "expert_times", lambda folder, system, dtype: known)
    model = load_model("mixtral-8x7b")
    found = estimate_layers(model, H100, 1, "amp-bf16", kernels="measured").layers
    law = estimate_layers(model, H100, 1, "amp-bf16").layers
    both = [pair for pair in zip(law, found, strict=True) if pair[0].layer.op == "experts"][:2]
    gate_s = 3 * 2 * 4096 * 14_336 * 2 / (constants_of(H100, "tensor").memory_efficiency * H100.memory_bytes_per_s)
    assert sum(other.forward_s for _, other in both) == pytest.approx((whole_s - gate_s) / KEPT, rel=1e-9)
    assert both[0][1].forward_s / both[1][1].forward_s == pytest.approx(both[0][0].forward_s / both[1][0].forward_s)
    assert all(one.backward_s == other.backward_s for one, other in both)


def test_a_cast_is_subtracted_and_a_point_that_is_mostly_cast_left_out() -> None:
    axes = (np.array([16.0, 64.0]), np.array([32.0, 64.0]), np.array([128.0, 256.0]))
    whole = TimeGrid(axes, np.log(np.full((2, 2, 2), 10e-6)))
    casts = [TimeGrid((axes[0], axes[2]), np.log(np.array([[1e-6, 2e-6], [3e-6, 7e-6]]))) for _ in range(2)]
    alone = np.exp(without_casts(whole, casts).log_seconds)
    assert alone[0, :, 0] == pytest.approx(8e-6)
    assert alone[1, :, 0] == pytest.approx(4e-6)
    assert np.isnan(alone[1, :, 1]).all()


# where the times come from


def source_of(asked: Kernels, gpu: str = "h100", precision: str = "amp-bf16") -> KernelSource:
    return chosen_kernels(asked, load_gpu(gpu), PRECISIONS[precision])


def test_without_the_extra_auto_is_the_law_and_measured_says_how_to_get_it() -> None:
    assert source_of("auto") == "law"
    with pytest.raises(InputError, match=r"not installed; pip install .*or write law"):
        source_of("measured")


def test_the_list_says_how_to_get_what_is_not_installed() -> None:
    assert list(list_kernels()) == ["none"]
    assert "pip install 'clustersim[kernels]'" in list_kernels()["none"]


@pytest.mark.parametrize("missing", ["pyarrow", installed.MODULE])
def test_what_is_missing_is_named_with_how_to_get_it(monkeypatch: pytest.MonkeyPatch, missing: str) -> None:
    search = SEARCH.__wrapped__
    monkeypatch.setattr(installed, "find_spec", lambda name: None if name == missing else find_spec("numpy"))
    found = search()
    assert isinstance(found, installed.Missing)
    assert found.reason.endswith("pip install 'clustersim[kernels]'")


def test_another_version_of_the_tables_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(installed, "find_spec", lambda name: find_spec("numpy"))
    monkeypatch.setattr(installed, "version", lambda name: "0.13.1")
    found = SEARCH.__wrapped__()
    assert isinstance(found, installed.Missing)
    assert "0.13.1" in found.reason


@pytest.mark.usefixtures("tables")
def test_auto_takes_the_tables_where_they_hold() -> None:
    assert source_of("auto") == source_of("measured") == "measured"
    assert source_of("law") == "law"
    assert source_of("auto", "k80", "fp32") == source_of("auto", "h100", "tf32") == "law"
    with pytest.raises(InputError, match=r"no measured table for .*\(v100\).*some for a100, a800, h100"):
        source_of("measured", "v100", "amp-fp16")
    with pytest.raises(InputError, match="no measured table for the precision tf32"):
        source_of("measured", "h100", "tf32")


def test_boards_with_other_memory_or_power_have_no_table() -> None:
    assert [each.name for each in map(system_of, map(load_gpu, ("a100", "h800"))) if each] == ["a100_sxm", "h100_sxm"]
    others = [load_gpu(name) for name in ("a100-40gb", "a100-pcie", "h100-96gb", "v100")]
    assert not any(map(system_of, others))
    assert system_of(replace(H100, power_w=500.0)) is None


def test_every_gpu_that_a_system_names_has_a_sheet_of_its_power() -> None:
    for system in systems().values():
        for name in system.gpus:
            assert system_of(load_gpu(name)) is system
        for table in filter(None, (system.attention, system.encoder_attention)):
            assert set(table.kernels) <= set(KERNELS)


@pytest.mark.usefixtures("tables")
def test_a_workload_says_which_tables_its_times_are_from() -> None:
    model = load_model("llama-2-7b")
    work = build_workload(model, H100, 1, "amp-bf16", OptimizerSpec(), ComputeSpec())
    assert work.kernels == "measured"
    assert "lib 1.2 (linear, a device; made-tables 0.12.0)" in work.assumptions[0]
    assert work.provenance()["measured"] > 0.4
    law = build_workload(model, H100, 1, "amp-bf16", OptimizerSpec(), ComputeSpec(kernels="law"))
    assert (law.kernels, law.provenance()["measured"]) == ("law", 0.0)


@pytest.mark.usefixtures("tables")
def test_layers_with_measured_times_do_not_ask_the_tables_by_themselves() -> None:
    model = one_layer()
    given = [LayerTime(layer, 1.0, 1.0, 1.0, "measured") for layer in model.layers]
    assert build_workload(model, H100, 1, "amp-bf16", OptimizerSpec(), ComputeSpec(), given).kernels == "law"


@pytest.mark.usefixtures("tables")
def test_kernels_that_a_process_waits_for_have_the_law() -> None:
    waited = ComputeSpec(launch="blocking")
    assert build_workload(one_layer(), H100, 1, "amp-bf16", OptimizerSpec(), waited).kernels == "law"
    with pytest.raises(ValidationError, match="timed without a wait for each"):
        ComputeSpec(launch="blocking", kernels="measured")


@pytest.mark.usefixtures("tables")
def test_kernels_in_cuda_graphs_have_measured_times_without_a_host() -> None:
    """The tables were timed in CUDA graphs."""
    graphs = ComputeSpec(launch="graphs", kernels="measured")
    work = build_workload(one_layer(), H100, 1, "amp-bf16", OptimizerSpec(), graphs)
    assert work.kernels == "measured"
    assert not any(time.forward_issue.host_s for time in work.layers)


@pytest.mark.usefixtures("tables")
def test_a_head_in_another_precision_is_not_measured() -> None:
    work = build_workload(load_model("llama-2-7b"), H100, 1, "amp-bf16", OptimizerSpec(), ComputeSpec(head="tf32"))
    head = next(each for each in work.layers if each.layer.name == "head")
    assert head.provenance == "estimated"


@pytest.mark.usefixtures("tables")
def test_a_published_rate_is_met_with_tables_too() -> None:
    model, optimizer = load_model("llama-2-7b"), OptimizerSpec()
    rate = SingleGpuRate(samples_per_s=1.5, batch=1, source="a test")
    work = build_workload(model, H100, 1, "amp-bf16", optimizer, ComputeSpec(single_gpu=rate, kernels="measured"))
    assert 1 / alone_s(work) == pytest.approx(1.5, rel=1e-9)
    factors = {each: rate_factor(model, H100, 1, "amp-bf16", optimizer, 1.5, kernels=each) for each in SOURCES}
    assert factors["law"] != pytest.approx(factors["measured"], rel=0.01)


def test_a_validation_has_the_law_unless_its_scenario_says_otherwise() -> None:
    scenario = {
        "model": "resnet50",
        "num_gpus": 1,
        "batch": {"per_gpu": 8},
        "topology": "dgx-1",
        "software": "plain",
        "strategy": {"kind": "all-reduce"},
    }
    point = load_scenario(scenario).points()[0].point
    assert point.compute.kernels == "auto"
    assert with_law(point).compute.kernels == "law"
    stated = point.model_copy(update={"compute": ComputeSpec(kernels="measured")})
    assert with_law(stated) is stated


def test_a_scenario_that_asks_for_tables_in_vain_is_told_at_its_key() -> None:
    scenario = {
        "model": "resnet50",
        "num_gpus": 1,
        "batch": {"per_gpu": 8},
        "topology": "dgx-1",
        "software": "plain",
        "strategy": {"kind": "all-reduce"},
        "compute": {"kernels": "measured"},
    }
    with pytest.raises(InputError) as caught:
        load_scenario(scenario)
    assert [(each.key, "clustersim[kernels]" in each.message) for each in caught.value.mistakes] == [
        ("compute.kernels", True)
    ]
