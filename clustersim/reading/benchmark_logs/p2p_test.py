"""Reads the output of p2pBandwidthLatencyTest (NVIDIA, CUDA samples): matrices over pairs of GPUs of one host.

Unidirectional copies with peer access are used where the log has them, otherwise without. Not used are diagonals, which
count reads and writes of one GPU's own memory, and bidirectional figures, which are two copies at once. The CPU's
latencies are those of the call alone.
"""

from __future__ import annotations

import re

from clustersim.reading.benchmark_logs.matrix import Cell, read_matrix
from clustersim.reading.benchmark_logs.measurement import BenchmarkLog, CopyTime, Text

BANDWIDTH_BYTES = 160e6
"""A copy of the bandwidth test: 40 million integers."""

LATENCY_BYTES = 16.0
"""A copy of the latency test: four integers."""

_BANDWIDTH = re.compile(r"\s*Unidirectional P2P=(Enabled|Disabled) Bandwidth.*Matrix \(GB/s\)")
_LATENCY = re.compile(r"\s*P2P=(Enabled|Disabled) Latency.*Matrix \(us\)")


def is_p2p_test(text: Text) -> bool:
    """Say whether a log is from p2pBandwidthLatencyTest."""
    return any(_BANDWIDTH.match(line.text) or _LATENCY.match(line.text) for line in text.lines)


def read_p2p_test(text: Text) -> BenchmarkLog:
    """Return copies between pairs of GPUs: large ones by their rate, and small ones by their latency."""
    copies: list[CopyTime] = []
    notes = ["bidirectional figures, diagonals and latencies of the CPU are not used"]
    for title, size in ((_BANDWIDTH, BANDWIDTH_BYTES), (_LATENCY, LATENCY_BYTES)):
        matrices = _matrices(text, title)
        chosen = "Enabled" if "Enabled" in matrices else "Disabled"
        if chosen == "Disabled" and chosen in matrices:
            notes.append("there are no figures with peer access; those without it are used")
        for cell in matrices.get(chosen, []):
            if cell.row != cell.column:
                seconds = size / (1e9 * cell.value) if title is _BANDWIDTH else 1e-6 * cell.value
                copies.append(CopyTime(size, seconds, cell.line, (cell.row, cell.column)))
    if not copies:
        raise text.mistake(text.lines[-1].number, "there is no pair of GPUs in this log", allowed="two GPUs or more")
    return BenchmarkLog(text.file, "p2pBandwidthLatencyTest", tuple(copies), tuple(notes))


def _matrices(text: Text, title: re.Pattern[str]) -> dict[str, list[Cell]]:
    """Return the cells under each matching title, by its peer access setting."""
    found = {}
    for index, line in enumerate(text.lines):
        match = title.match(line.text)
        if match:
            if index + 1 >= len(text.lines) or not re.match(r"\s*(D\\D|GPU)\s+\d", text.lines[index + 1].text):
                raise text.mistake(
                    line.number, "no matrix follows this title: the log is truncated", line.text.strip()[:60]
                )
            found[match[1]] = read_matrix(text, index + 1)
    return found
