"""What lines of code become when they are traced."""

from __future__ import annotations

import textwrap
from pathlib import Path

from clustersim.interchange.imported import Imported
from clustersim.interchange.torch_model import import_torch, parse_input

HEAD = """\
import torch
from torch import nn
from torch.nn import functional as F
"""


def traced_in(folder: Path, code: str, *inputs: str) -> Imported:
    """Return what imports the `build` of some lines of code, in a file of that folder."""
    file = folder / "my_code.py"
    file.write_text(HEAD + textwrap.dedent(code))
    return import_torch(f"{file}:build", [parse_input(text) for text in inputs])
