"""What a page carries compressed, as text that its script unpacks: plotly.js and the data of the figures."""

from __future__ import annotations

import base64
import gzip
from functools import cache
from importlib.resources import files

from clustersim.results.files import to_json


def packed(document: object) -> str:
    """Return a document as JSON, compressed and in base64; the same document gives the same text."""
    return _text(gzip.compress(to_json(document).encode(), 9, mtime=0))


@cache
def packed_plotly() -> str:
    """Return plotly.js, compressed and in base64; `tools/plotly_bundle.py` makes the file."""
    return _text(files("clustersim.report").joinpath("plotly.min.js.gz").read_bytes())


def _text(content: bytes) -> str:
    return base64.b64encode(content).decode("ascii")
