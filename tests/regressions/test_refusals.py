"""Scenarios that once ended in a traceback or cost minutes or gigabytes: each is refused at its key, quickly."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent
_MEASURED = """
import re, sys, time
from clustersim.cli import main
status = main(sys.argv[1:])
peak = re.search("VmHWM:[ \\t]*([0-9]+) kB", open("/proc/self/status").read())  # ru_maxrss has the parent's before exec
print(time.process_time(), peak[1])
sys.exit(status)
"""
pytestmark = pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the peak memory is read from /proc")


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("no-gpu-beside-a-layout", ":4:11: topology: the cluster does not name its GPU"),
        ("batch-of-32000", ":3:18: batch.per_gpu: one p100 holds 17.2 GB, and this needs 1.59 TB"),
        ("batch-of-a-million", ":3:18: batch.per_gpu: one p100 holds 17.2 GB, and this needs 49.7 TB"),
        ("round-of-1e8-steps", ":5:32: strategy.steps: rounds of 100000000 iterations on 4 GPUs are too long"),
        ("gossip-of-2e7", ":2:11: num_gpus: expected a number of at most 1,000,000"),
        ("local-fields-of-1.2e10", ":2:11: num_gpus: expected a number of at most 1,000,000"),
        ("million-micro-batches", ":6:43: parallelism.micro_batches: expected a number of at most 16,384"),
    ],
)
def test_is_refused_at_its_key_within_budgets(name: str, says: str, tmp_path: Path) -> None:
    """At most 1 CPU second more than `--help` takes, 200 MB, and nothing written."""
    path = FOLDER / f"{name}.yaml"
    help_s, _, _ = _run("--help", cwd=tmp_path)
    used_s, used_kb, result = _run("run", str(path), cwd=tmp_path)
    assert result.returncode == 3, result.stderr
    assert f"{path}{says}" in result.stderr
    assert used_s <= help_s + 2.0, "1 CPU second is the goal on a quiet machine"
    assert used_kb <= 200_000
    assert list(tmp_path.iterdir()) == []


def _run(*arguments: str, cwd: Path) -> tuple[float, float, subprocess.CompletedProcess[str]]:
    """Return the CPU seconds and the peak kilobytes of a command, and what it printed."""
    result = subprocess.run(
        [sys.executable, "-c", _MEASURED, *arguments], capture_output=True, text=True, cwd=cwd, timeout=60, check=False
    )
    seconds, kilobytes = result.stdout.split()[-2:]
    return float(seconds), float(kilobytes), result
