"""`clustersim explain`: what a key means; `clustersim init`: a scenario from five questions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from clustersim.errors import InputError


def explain(
    key: Annotated[
        str,
        typer.Argument(
            metavar="KEY",
            help="A key of a scenario, such as link or topology.link, or a column of the table, such as mfu.",
        ),
    ],
) -> None:
    """Print what a key of a scenario takes, its default and its meaning, or what a column of the table means."""
    from clustersim.report.columns import explained_column
    from clustersim.scenario.reference import explanation

    column = explained_column(key)
    try:
        found = explanation(key)
    except InputError:
        if not column:
            raise
        found = ""
    typer.echo("\n\n".join(filter(None, (column, found))))


def init(
    output: Annotated[Path, typer.Argument(metavar="FILE", help="The scenario file to write.")] = Path("scenario.yaml"),
    force: Annotated[bool, typer.Option("--force", help="Overwrite a file that exists.")] = False,
) -> None:
    """Ask five questions and write a scenario.

    An answer is checked at once, and asked for again if it cannot be used. Return takes the answer in brackets.
    """
    from clustersim.results.files import write_atomically

    if output.exists() and not force:
        raise InputError(f"{output} exists; name another file, or add --force", got=str(output), allowed="a new file")
    keys = {key: _asked(question, default, read) for key, (question, default, read) in _QUESTIONS.items()}
    keys = {**keys, "batch": {"per_gpu": keys["batch"]}}
    asked = _with_precision(keys)
    attempts = [*_attempts(asked), *_other_programs(keys)]
    fitting = next((attempt for attempt in attempts if _problem(attempt) is None), None)
    least = fitting or _attempts(asked)[0]
    written = write_atomically(output, _text(least))
    typer.echo(f"scenario: {written}")
    if fitting is None:
        typer.echo(f"the scenario is written, and cannot run yet: {_problem(least)}", err=True)
        return
    if fitting["software"] != keys["software"]:
        typer.echo(f"software is {fitting['software']}: {keys['software']} cannot: {_problem(asked)}", err=True)
    typer.echo(f"next: clustersim run {written}")


_PRECISIONS = ("amp-bf16", "amp-fp16", "fp32")
_PROGRAMS = ("torchtitan", "pytorch-fsdp")
"""What is tried in turn: number formats that a GPU may lack, and programs that shard what another cannot hold."""


def _with_precision(keys: dict[str, Any]) -> dict[str, Any]:
    """Return the keys with the first precision that the GPU and the program have."""
    tried = [{**keys, "precision": precision} for precision in _PRECISIONS]
    return next((each for each in tried if _problem({**each, "memory_check": False}) is None), tried[0])


def _other_programs(keys: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the scenarios with a program that shards, for a model that fits with no layout of the asked one."""
    for software in _PROGRAMS:
        if software != keys["software"]:
            yield from _attempts(_with_precision({**keys, "software": software}))


def _attempts(keys: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the scenarios to try in turn: a program that divides models by sharding alone, as FSDP does, shards first.

    Others shard if the whole model does not fit on each GPU, where they can; recomputation comes last.
    """
    from clustersim.software import load_software

    layouts, sharding = load_software(keys["software"]).layouts, {"sharding": "zero-3"}
    if "zero-3" not in layouts:
        return [keys]
    less = [sharding, *({**sharding, "recompute": recompute} for recompute in ("selective", "full"))]
    sharded = [{**keys, "parallelism": layout} for layout in less]
    return [keys, *sharded] if "tensor" in layouts else sharded


def _problem(keys: dict[str, Any]) -> InputError | None:
    """Return why a scenario of these keys cannot run; None if it can."""
    from clustersim.scenario import load_scenario

    try:
        load_scenario(keys)
    except InputError as error:
        return error
    return None


def _asked(question: str, default: str, read: Callable[[str], Any]) -> Any:
    """Return an answer that can be used."""
    while True:
        try:
            return read(typer.prompt(question, default=default).strip())
        except InputError as error:
            typer.echo(str(error), err=True)


def _model(answer: str) -> str:
    from clustersim.model import load_workload

    load_workload(answer)
    return answer


def _topology(answer: str) -> Any:
    from clustersim.topology import HOSTS, load_topology

    if answer not in HOSTS:
        load_topology(answer)
        return answer
    link = "infiniband-ndr" if answer in ("dgx-h100", "dgx-b200") else "100 Gbit/s"
    topology = {"kind": "star", "link": link, "host": answer}
    load_topology({**topology, "num_hosts": 1})
    return topology


def _numbers(answer: str) -> int | list[int]:
    numbers = [_count(part.strip()) for part in answer.split(",")]
    return numbers if len(numbers) > 1 else numbers[0]


def _count(answer: str) -> int:
    if not answer.isdecimal() or int(answer) == 0:
        raise InputError(f"expected a whole number above zero (got '{answer}')", got=answer, allowed="1, 2, ...")
    return int(answer)


def _software(answer: str) -> str:
    from clustersim.software import load_software

    load_software(answer)
    return answer


_QUESTIONS: dict[str, tuple[str, str, Callable[[str], Any]]] = {
    "model": ("Which model? (a name of `clustersim list models`, or a workload file)", "gpt2-small", _model),
    "num_gpus": ("How many GPUs? (one number, or several: 8,16,32)", "8,16", _numbers),
    "batch": ("How many samples on each GPU?", "4", _count),
    "topology": ("Which cluster? (a name of `clustersim list clusters` or `list hosts`)", "dgx-h100", _topology),
    "software": ("Which program trains? (a name of `clustersim list software`)", "pytorch-ddp", _software),
}
"""The question for each key, what Return answers, and what reads the answer."""

_COMMENTS = {
    "num_gpus": "a list is a forecast for each",
    "topology": "link: the rate of one network card, or a name of `clustersim list links`",
    "software": "`clustersim software show` prints its settings",
    "parallelism": "weights, gradients and optimizer state are sharded over all GPUs (FSDP)",
    "precision": "bf16 kernels, fp32 weights; see `clustersim list precisions`",
}


def _text(keys: dict[str, Any]) -> str:
    """Return a scenario as YAML; JSON of short values is YAML too."""
    lines = ["# Made by `clustersim init`; `clustersim explain KEY` says what a key means."]
    for key, value in keys.items():
        written = value if isinstance(value, str) else _flow(value)
        comment = f"  # {_COMMENTS[key]}{_cards(value)}" if key in _COMMENTS else ""
        lines.append(f"{key}: {written}{comment}")
    return "\n".join(lines) + "\n"


def _cards(topology: Any) -> str:
    """Return how many network cards a host of a topology has, and how others are written; empty for other values."""
    from clustersim.topology import HOSTS

    if not isinstance(topology, dict) or topology.get("host") not in HOSTS:
        return ""
    host = topology["host"]
    return f"; {HOSTS[host].model_fields['nics'].default} cards in a host, others: host: {{template: {host}, nics: 1}}"


def _flow(value: Any) -> str:
    """Return a number, list or map of short values in YAML's flow style.

    >>> _flow({"kind": "star", "link": "100 Gbit/s"}), _flow([8, 16])
    ('{kind: star, link: 100 Gbit/s}', '[8, 16]')
    """
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {_flow(inner)}" for key, inner in value.items()) + "}"
    return f"[{', '.join(map(str, value))}]" if isinstance(value, list) else str(value)
