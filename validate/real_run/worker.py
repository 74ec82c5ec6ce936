"""The script that `torchrun` starts, one process per GPU: `torchrun --nproc-per-node 8 validate/real_run/worker.py`."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path


def start() -> int:
    """Run the worker from its folder, with its modules, wherever the folder is."""
    folder = Path(__file__).resolve().parent
    sys.path[:0] = [str(folder.parent), str(folder.parent.parent)]
    status: int = import_module("real_run.command").main()
    return status


if __name__ == "__main__":
    sys.exit(start())
