"""A model and data of the user's own, which a Python file makes."""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import Field

from clustersim.errors import InputError, Mistake
from clustersim.learning.tasks.task import LearningTask, Trainee
from clustersim.reading import read_text

if TYPE_CHECKING:
    from torch import Tensor, nn

KEY = "learning.task.module"
FUNCTION = "make_task"
"""What a file defines: a function of the seed that returns a `TorchTask`."""


@dataclass(frozen=True)
class TorchTask:
    """A torch module with its data, on the CPU.

    `inputs` and `targets` have a row for each sample to train on, `test_inputs` and `test_targets` for each sample that
    is evaluated. The module gets rows of the inputs, and `loss(outputs, targets)` is the mean loss of a batch, the
    cross entropy if it is left out. Targets of whole numbers are classes: then the accuracy is the share of rows whose
    largest output is at the class.
    """

    module: nn.Module
    inputs: Tensor
    targets: Tensor
    test_inputs: Tensor
    test_targets: Tensor
    loss: Callable[[Tensor, Tensor], Tensor] | None = None


class Own(LearningTask):
    """A torch model and data of your own: `task: {module: my_task.py}` runs the file, with all your rights.

    The file defines `make_task(seed)`, which returns a `clustersim.learning.TorchTask`. torch's random numbers are
    seeded before it is called.
    """

    named_by: ClassVar[str | None] = "module"

    kind: Literal["own"] = "own"
    module: str = Field(
        min_length=1,
        description="a Python file that defines make_task(seed), relative to the scenario's file. It is run, so name "
        "only files that you trust",
    )

    def title(self) -> str:
        return f"the model of {Path(self.module).name}"

    def path(self) -> Path:
        """Return the file, or raise InputError if there is none."""
        path = Path(self.module).expanduser()
        if "\0" in self.module or path.suffix != ".py" or not path.is_file():
            what = "a Python file ends in .py" if path.suffix != ".py" else "there is no such file"
            message = f"{what} (got '{self.module[:200]}')"
            raise InputError(message, got=self.module[:200], allowed="a Python file", key=KEY)
        return path

    def check(self) -> None:
        path = self.path()
        try:
            ast.parse(read_text(path), str(path))
        except SyntaxError as error:
            mistake = Mistake(f"SyntaxError: {error.msg}", file=str(path), line=error.lineno, named_by=KEY)
            raise InputError(mistake) from None

    def trainee(self, seed: int) -> Trainee:
        from clustersim.learning.training.own import own_trainee

        return own_trainee(self.path(), seed)
