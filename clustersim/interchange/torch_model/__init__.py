"""Any torch module as a workload: traced on the meta device, where tensors have shapes and no values.

`import_torch` runs the module forward twice, on batches of 2 and 3 samples, and backward once. The additional work
of a call for the third sample is the work of one sample. torch is loaded when it is called.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec

from clustersim.errors import InputError
from clustersim.interchange.imported import Imported
from clustersim.interchange.torch_model.inputs import InputSpec, parse_input

__all__ = ["InputSpec", "import_torch", "parse_input"]


def import_torch(target: str, inputs: Sequence[InputSpec], name: str | None = None) -> Imported:
    """Return the model built by `target` (`my_module:build`, or `my/file.py:build`), as a workload.

    `inputs` are one sample's, in the order of the module's `forward`. Its name is `name`, or else the module's class.
    """
    if find_spec("torch") is None:
        raise InputError("torch is not installed; pip install 'clustersim[torch]'", got="no torch")
    if not inputs:
        raise InputError("no input is given; add --input 3,224,224, the shape of one sample", key="--input")
    from clustersim.interchange.torch_model.layers import traced
    from clustersim.interchange.torch_model.target import built

    module = built(target)
    return traced(module, inputs, target, name or type(module).__name__)
