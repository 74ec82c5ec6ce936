"""Files of tables: made here, and the installed ones. Needs the extra `kernels` (make test-tables)."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from clustersim.cli import main
from clustersim.errors import InputError
from clustersim.hardware import load_gpu
from clustersim.kernels import estimate_layers
from clustersim.kernels.measured_tables import find_tables
from clustersim.kernels.measured_tables.attention import attention_times
from clustersim.kernels.measured_tables.experts import ExpertShape, expert_times
from clustersim.kernels.measured_tables.products import product_table
from clustersim.kernels.measured_tables.reading import read_columns, table_files
from clustersim.kernels.measured_tables.systems import AttentionTable, ExpertTable, System, systems
from clustersim.model import load_model

pytestmark = pytest.mark.tables
arrow = pytest.importorskip("pyarrow")

SYSTEM = System(
    "made", "made", (), 700, {"bfloat16": "lib", "fp8": "lib"}, {"bfloat16": ExpertTable("lib", "cut")},
    AttentionTable("lib", ("flash-attention-2",)),
)  # fmt: skip


def write(folder: Path, family: str, version: str, name: str, columns: dict[str, list[object]]) -> Path:
    from pyarrow import parquet

    path = folder / "made" / family / "lib" / version / f"{name}_perf.parquet"
    path.parent.mkdir(parents=True, exist_ok=True)
    parquet.write_table(arrow.table(columns), path)
    return path


def products(folder: Path, version: str, dtype: str, latency_ms: float) -> None:
    points = [(m, n, k) for m in (16, 64) for n in (32, 64) for k in (32, 128)]
    columns: dict[str, list[object]] = {name: [each[at] for each in points] for at, name in enumerate("mnk")}
    columns |= {"latency": [latency_ms] * 8, "gemm_dtype": [dtype] * 8, "kernel_source": ["linear"] * 8}
    write(folder, "gemm", version, "gemm", columns | {"device": ["a device"] * 8})


def test_the_newest_version_with_the_number_format_is_read_in_seconds(tmp_path: Path) -> None:
    products(tmp_path, "1.3.0rc9", "bfloat16", 1.0)
    products(tmp_path, "1.3.0rc20", "bfloat16", 2.0)
    products(tmp_path, "1.3.0rc23", "int8", 3.0)
    table = product_table(tmp_path, SYSTEM, "bfloat16")
    assert table is not None
    assert (table.version, table.kernels, table.device, table.has_cast) == ("1.3.0rc20", "linear", "a device", False)
    assert table.grid.seconds(np.array([[32.0, 48.0, 64.0]])) == pytest.approx([2e-3])
    assert product_table(tmp_path, SYSTEM, "nvfp4") is None


def test_a_product_in_fp8_is_without_its_cast_where_that_was_timed(tmp_path: Path) -> None:
    products(tmp_path, "1.0", "fp8", 1.0)
    whole = product_table(tmp_path, SYSTEM, "fp8")
    assert whole is not None
    assert whole.has_cast
    again = tmp_path / "again"
    products(again, "1.0", "fp8", 1.0)
    for name, latency in (("scale_matrix", 0.1), ("computescale", 0.2)):
        casts: dict[str, list[object]] = {"m": [16, 16, 64, 64], "k": [32, 128, 32, 128], "latency": [latency] * 4}
        write(again, "quantize", "1.0", name, casts | {"quant_dtype": ["fp8"] * 4})
    alone = product_table(again, SYSTEM, "fp8")
    assert alone is not None
    assert not alone.has_cast
    assert np.exp(alone.grid.log_seconds) == pytest.approx(0.7e-3)


def test_attention_has_the_rows_of_one_head_of_keys_and_no_window(tmp_path: Path) -> None:
    rows = [
        (batch, isl, heads, kv, window, dtype, 1.0 if (kv, window, dtype) == (1, 0, "bfloat16") else 9.0)
        for batch in (1, 4) for isl in (1, 16, 64) for heads in (2, 8) for kv in (1, 2) for window in (0, 128)
        for dtype in ("bfloat16", "fp8")
    ]  # fmt: skip
    names = ("batch_size", "isl", "num_heads", "num_key_value_heads", "window_size", "kv_cache_dtype", "latency")
    columns: dict[str, list[object]] = {name: [row[at] for row in rows] for at, name in enumerate(names)}
    columns |= {
        "attn_dtype": ["bfloat16"] * len(rows),
        "head_dim": [64] * len(rows),
        "kernel_source": ["fa"] * len(rows),
    }
    write(tmp_path, "attention", "1.0", "context_attention", columns)
    found = attention_times(tmp_path, SYSTEM, "attention", 64)
    assert found is not None
    assert np.exp(found.grid.log_seconds) == pytest.approx(1e-3)
    assert found.grid.axes[1].tolist() == [16, 64]
    assert attention_times(tmp_path, SYSTEM, "attention", 128) is None
    assert attention_times(tmp_path, SYSTEM, "encoder_attention", 64) is None


def test_experts_are_known_by_what_one_gpu_has(tmp_path: Path) -> None:
    rows = [
        (n, 512, 1024, 2, 8, tensor, expert, n * 1.0) for n in (64, 256) for tensor, expert in ((1, 1), (2, 1), (1, 4))
    ]
    names = ("num_tokens", "hidden_size", "inter_size", "topk", "num_experts", "moe_tp_size", "moe_ep_size", "latency")
    columns: dict[str, list[object]] = {name: [row[at] for row in rows] for at, name in enumerate(names)}
    fixed = {"moe_dtype": "bfloat16", "kernel_source": "cut", "distribution": "balanced"}
    write(tmp_path, "moe", "1.0", "moe", columns | {name: [text] * len(rows) for name, text in fixed.items()})
    found = expert_times(tmp_path, SYSTEM, "bfloat16")
    assert found is not None
    assert set(found.grids) == {ExpertShape(512, 1024, 8), ExpertShape(512, 512, 8), ExpertShape(512, 1024, 2)}
    assert found.grids[ExpertShape(512, 1024, 8)].axes[0].tolist() == [128, 512]
    assert found.grids[ExpertShape(512, 1024, 2)].axes[0].tolist() == [32, 128]


def test_a_broken_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "gemm_perf.parquet"
    path.write_bytes(b"no parquet")
    with pytest.raises(InputError, match=r"gemm_perf.parquet cannot be read.*install it again"):
        read_columns(path, ["m"], {})


@pytest.fixture(scope="module")
def folder() -> Path:
    found = find_tables()
    if found is None:
        pytest.skip("the measured tables are not installed")
    return found.folder


def test_every_table_that_a_system_names_is_there(folder: Path) -> None:
    for system in systems().values():
        for dtype in system.products:
            table = product_table(folder, system, dtype)
            assert table is not None
            assert table.grid.num_points > 30_000
            assert table.has_cast == (dtype == "nvfp4")
        for dtype in system.experts:
            assert expert_times(folder, system, dtype) is not None
        if system.attention:
            assert attention_times(folder, system, "attention", 128) is not None
        if system.encoder_attention:
            assert attention_times(folder, system, "encoder_attention", 64) is not None


@pytest.mark.parametrize(("system", "most"), [("a100_sxm", 0.055), ("h100_sxm", 0.035), ("b200_sxm", 0.05)])
def test_products_that_are_left_out_are_met(folder: Path, system: str, most: float) -> None:
    """The residuals of docs/physics/measured-kernels.md, of every fourth value of each axis."""
    table = product_table(folder, systems()[system], "bfloat16")
    assert table is not None
    found = []
    for axis, sizes in enumerate(table.grid.axes):
        for index in range(1, len(sizes) - 1, 4):
            points, seconds = table.grid.at(axis, index)
            found.append(np.log(table.grid.without(axis, index).seconds(points) / seconds))
    residuals = np.abs(np.concatenate(found))
    assert np.nanmedian(residuals) < most


def test_tables_that_are_older_than_the_newest_are_found_too(folder: Path) -> None:
    files = table_files(folder, "h100_sxm", "moe", "trtllm", "moe", "moe_dtype", "bfloat16")
    assert len(files) > 1


@pytest.mark.usefixtures("folder")
def test_a_forecast_takes_them_and_says_so() -> None:
    found = estimate_layers(load_model("llama-2-7b"), load_gpu("h100"), 1, "amp-bf16", kernels="measured")
    measured = [each for each in found.layers if each.provenance == "measured"]
    assert {each.layer.op for each in measured} == {"fully-connected"}
    assert "aiconfigurator-core 0.12." in found.assumptions[0]


@pytest.mark.usefixtures("folder")
def test_the_list_has_every_gpu(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", "kernels"]) == 0
    printed = capsys.readouterr().out
    assert "h100, h800: products in bfloat16" in printed
    assert "GB200 (no sheet): attention, causal" in printed
