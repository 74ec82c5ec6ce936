"""The keys of a scenario that say which points it has: `cases`, and `sweep` with its grid, zips, draws and conditions.

No point has them: `sweep_space` reads them before the points are made.
"""

from __future__ import annotations

from typing import Annotated, Any, Self

from pydantic import BeforeValidator, Field, ValidationError, model_validator

from clustersim.errors import InputError
from clustersim.reading import TreeNode, explain
from clustersim.spec import Spec, whole

MAX_POINTS = 100_000
"""Points of a scenario, before `where` leaves some out."""

Values = Annotated[list[Any], Field(min_length=1)]


Zip = dict[str, Values]


def _in_a_list(value: Any) -> Any:
    return [value] if isinstance(value, dict | str) else value


class DrawRange(Spec):
    """Values between two bounds, both included: numbers, or quantities with a unit."""

    min: int | float | str = Field(description="the smallest value, such as 8 or 100 Gbit/s")
    max: int | float | str = Field(description="the largest value; if both are whole numbers, all values are")
    log: bool = Field(default=False, description="draw the logarithm evenly: as many from 1 to 10 as from 10 to 100")
    step: Annotated[float, Field(gt=0)] | None = Field(
        default=None, description="only values that are a multiple of this above the smallest one"
    )


class SweepDraws(Spec):
    """Points that are drawn at random, the same ones on every machine."""

    points: Annotated[int, Field(ge=1, le=MAX_POINTS), BeforeValidator(whole)] = Field(
        description="how many points are drawn; equal ones are one point"
    )
    keys: Annotated[dict[str, Values | DrawRange], Field(min_length=1)] = Field(
        description="what is drawn: dotted keys of the scenario, each with a list of values or {min: ..., max: ...}"
    )
    seed: int = Field(default=0, ge=0, description="seed of the draws, apart from the seed of the simulation")


class SweepKeys(Spec):
    """Axes beside the lists in the scenario; all multiply. An axis replaces what the scenario has at its key."""

    grid: dict[str, Values] = Field(
        default={}, description="axes by dotted keys, as if the scenario had the lists: {batch.per_gpu: [8, 16]}"
    )
    zip: Annotated[list[Zip], BeforeValidator(_in_a_list, json_schema_input_type=Zip | list[Zip])] = Field(
        default=[],
        description="lists of equal length whose values go together: {num_gpus: [8, 16], batch.global: [64, 128]}; "
        "of a list of such maps, each is one axis",
    )
    random: SweepDraws | None = Field(default=None, description="points that are drawn independently of each other")
    latin_hypercube: SweepDraws | None = Field(
        default=None,
        alias="latin-hypercube",
        description="points that are drawn so that each key has one value in each of as many equal parts of its range",
    )
    where: Annotated[list[str], BeforeValidator(_in_a_list, json_schema_input_type=str | list[str])] = Field(
        default=[],
        description="only points for which this holds, such as num_gpus * batch.per_gpu <= 4096, or a list of which "
        "all must hold",
    )

    @model_validator(mode="after")
    def _one_axis_per_key(self) -> Self:
        every = [*self.grid, *(key for each in self.zip for key in each)]
        every += [key for draws in (self.random, self.latin_hypercube) if draws is not None for key in draws.keys]
        twice = next((key for number, key in enumerate(every) if key in every[:number]), None)
        if twice is not None:
            message = f"'{twice}' is given more than once in `sweep`; keep one"
            raise InputError(message, got=twice, allowed="each key once")
        for number, each in enumerate(self.zip):
            lengths = {key: len(values) for key, values in each.items()}
            if len(set(lengths.values())) > 1:
                got = ", ".join(f"{key} {length}" for key, length in lengths.items())
                message = f"the lists of a zip must be of equal length (got {got} values)"
                key = f"zip.{number}" if len(self.zip) > 1 else "zip"
                raise InputError(message, got=got, allowed="lists of equal length", key=key)
        return self


Cases = Annotated[dict[str, dict[str, Any]], Field(min_length=1)]
"""The keys of each case, which are merged into the scenario, by its name."""

ABOUT_CASES = (
    "named variants, {name: {keys that differ}}: each is merged into the scenario as `extends` does it, and may have "
    "lists of its own; `case` is the axis, and all other axes multiply with it"
)
ABOUT_SWEEP = "axes beside the lists in the scenario: grid, zip and draws; and which points to leave out"

NOT_IN_CASES = ("$schema", "name", "description", "extends", "cases", "sweep", "measured", "published")


class PointsKeys(Spec):
    """The keys of a scenario that say which points it has."""

    cases: Cases | None = Field(default=None, description=ABOUT_CASES)
    sweep: SweepKeys | None = Field(default=None, description=ABOUT_SWEEP)


def without_nulls(root: TreeNode) -> TreeNode:
    """Return the tree without `cases` and parts of `sweep` that are null: a file that extends another drops them so."""
    children = {
        key: node for key, node in root.children.items() if key not in PointsKeys.model_fields or not _is_null(node)
    }
    sweep = children.get("sweep")
    if sweep is not None and isinstance(sweep.value, dict):
        children["sweep"] = sweep.with_value({key: part for key, part in sweep.children.items() if not _is_null(part)})
    return root.with_value(children)


def _is_null(node: TreeNode) -> bool:
    return node.value is None


def read_points_keys(root: TreeNode) -> PointsKeys:
    """Return the `cases` and the `sweep` of a scenario, or raise InputError with all mistakes in them."""
    given = {key: node.plain() for key, node in root.children.items() if key in PointsKeys.model_fields}
    try:
        keys = PointsKeys.model_validate(given, strict=True)
    except ValidationError as error:
        raise InputError(problem.mistake for problem in explain(error, root, PointsKeys)) from None
    cases = root.child("cases")
    wrong = [
        (node.key_place or node.place).mistake(
            f"a case has no '{key}' of its own; give it at the top level of the scenario", f"cases.{name}.{key}", key
        )
        for name, case in (cases.children.items() if cases is not None else ())
        for key, node in case.children.items()
        if key in NOT_IN_CASES
    ]
    if wrong:
        raise InputError(wrong)
    return keys


def without_points_keys(root: TreeNode) -> TreeNode:
    """Return the tree of a scenario without the keys that say which points it has."""
    return root.with_value({key: node for key, node in root.children.items() if key not in PointsKeys.model_fields})
