"""An ONNX file as a workload: shapes by onnx's own inference, operators by their formulas.

Only the sizes of weights are read. An exported graph is the inference graph: operations that an exporter folded or
dropped (batch norms, dropout) are not in it. onnx is loaded when `import_onnx` is called.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

from clustersim.errors import InputError
from clustersim.interchange.imported import Imported
from clustersim.interchange.onnx_model.sizes import parse_sizes

__all__ = ["import_onnx", "parse_sizes"]


def import_onnx(
    path: str | Path, sizes: Mapping[str, int] | None = None, name: str | None = None, batch: int | None = None
) -> Imported:
    """Return the model of an ONNX file, with the name `name` or the file's.

    It has `batch` samples, by default the first dimension of its first input (1 where that is open). `sizes`
    are those of other open dimensions.
    """
    if find_spec("onnx") is None:
        raise InputError("onnx is not installed; pip install 'clustersim[onnx]'", got="no onnx")
    from clustersim.interchange.onnx_model.graph import read_graph
    from clustersim.interchange.onnx_model.layers import model_of

    return model_of(read_graph(Path(path), sizes or {}, batch), name or Path(path).stem)
