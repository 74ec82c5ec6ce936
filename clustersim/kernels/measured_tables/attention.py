"""Tables of fused attention forward, with a causal mask (`context_attention`) and without (`encoder_attention`).

Columns: batch_size, isl (tokens of a sequence), num_heads, num_key_value_heads, head_dim, window_size, attn_dtype,
kv_cache_dtype, latency in ms. The causal one was timed as an inference server runs it: keys and values are also copied
to a cache of pages, which training does not do (ai-dynamo/aiconfigurator, commit 095f58a5,
collector/vllm/collect_attn.py). With keys and values for every head, that copy takes a quarter of the time at 2,048
tokens on an H100. So the rows with one head of keys and values are taken, whatever the layer has: the kernel
computes the same FLOP, and the copy is that of one head.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from clustersim.kernels.measured_tables.grid import TimeGrid
from clustersim.kernels.measured_tables.reading import MS, read_columns, table_files
from clustersim.kernels.measured_tables.systems import System

AXES = ("batch_size", "isl", "num_heads")
KINDS = {"attention": ("attention", "context_attention"), "encoder_attention": ("encoder_attention",) * 2}
"""Family and name of the file, by the kind of attention."""

_ROWS: dict[str, dict[str, str | int]] = {
    "attention": {"num_key_value_heads": 1, "window_size": 0, "attn_dtype": "bfloat16", "kv_cache_dtype": "bfloat16"},
    "encoder_attention": {"attn_dtype": "bfloat16"},
}


class AttentionTimes(NamedTuple):
    """Seconds forward on a grid (sequences, tokens, heads) for one head width, and whose kernel it is."""

    grid: TimeGrid
    library: str
    version: str
    kernels: str


def attention_file(folder: Path, system: System, kind: str) -> Path | None:
    """Return the file of a system's kind of attention; None where there is none."""
    table = system.attention if kind == "attention" else system.encoder_attention
    family, name = KINDS[kind]
    if table is None:
        return None
    paths = table_files(folder, system.name, family, table.library, name, "attn_dtype", "bfloat16")
    return paths[0] if paths else None


@lru_cache(maxsize=16)
def attention_times(folder: Path, system: System, kind: str, width: int) -> AttentionTimes | None:
    """Return the times of heads of this width, in features; None where there are none."""
    path = attention_file(folder, system, kind)
    if path is None:
        return None
    rows = read_columns(path, [*AXES, "latency", "kernel_source"], {**_ROWS[kind], "head_dim": width})
    # a sequence of one token is a step of inference, by another kernel
    several = rows["isl"] > 1
    if not several.any():
        return None
    grid = TimeGrid.of_rows([rows[name][several] for name in AXES], rows["latency"][several] * MS)
    kernels = ", ".join(sorted(set(rows["kernel_source"][several].tolist())))
    return AttentionTimes(grid, path.parent.parent.name, path.parent.name, kernels)
