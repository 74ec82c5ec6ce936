"""`clustersim list`: all names that a scenario may use, with one line each."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Annotated

import typer

from clustersim.common_words import hint_for_word
from clustersim.errors import InputError


def list_names(
    what: Annotated[
        str | None,
        typer.Argument(
            metavar="WHAT", help="Only one section, such as models or scenarios, or all lines with a word in them."
        ),
    ] = None,
) -> None:
    """List all kinds, models, devices, clusters and scenarios, with one line each."""
    found = [section(name) for name in ([what] if what in SECTIONS else SECTIONS)]
    if what is not None and what not in SECTIONS:
        found = [lines for name in SECTIONS if (lines := section(name, what))]
    if not found:
        hint = f"; {meaning}" if (meaning := hint_for_word(str(what))) else ""
        allowed = ", ".join(SECTIONS)
        message = f"no line has a word that begins so, and no section is called '{what}'{hint} (sections: {allowed})"
        raise InputError(message, got=what, allowed=allowed)
    typer.echo("\n\n".join(found))


def section(name: str, word: str = "") -> str:
    """Return the heading of a section and its members with a word in them, aligned; nothing if none has it."""
    begins = re.compile(rf"(?<![a-z0-9]){re.escape(word.lower())}")
    members = {member: line for member, line in SECTIONS[name]().items() if begins.search(f"{member} {line}".lower())}
    if word and not members:
        return ""
    width = max((len(member) for member in members), default=0)
    return "\n".join([f"{name}:", *(f"  {member:<{width}}  {line}".rstrip() for member, line in members.items())])


def _scenarios() -> Mapping[str, str]:
    from clustersim.data import shipped_files

    return {name: first_comment(path) for name, path in shipped_files("scenarios").items()}


def _clusters() -> Mapping[str, str]:
    from ruamel.yaml import YAML

    from clustersim.data import shipped_files

    reader = YAML(typ="safe", pure=True)
    return {name: reader.load(path)["description"] for name, path in shipped_files("topologies").items()}


def _cases() -> Mapping[str, str]:
    from clustersim.validation import load_case, own_cases, shipped_cases

    return {name: load_case(folder).title for name, folder in (shipped_cases() | own_cases()).items()}


def _models() -> Mapping[str, str]:
    from clustersim.model.catalogue import MODELS, describe

    return {name: describe(name) for name in MODELS}


def _precisions() -> Mapping[str, str]:
    from clustersim.model.precision import PRECISIONS

    return {name: precision.title for name, precision in PRECISIONS.items()}


def _gpus() -> Mapping[str, str]:
    from clustersim.hardware import GPUS, load_gpu

    sheets = {name: load_gpu(name) for name in GPUS}
    return {
        name: gpu.title if gpu.power_w is None else f"{gpu.title}, {gpu.power_w:g} W" for name, gpu in sheets.items()
    }


def _profiles() -> Mapping[str, str]:
    from clustersim.kernels.profile import read_profile, shipped_profiles

    return {name: read_profile(path).title for name, path in shipped_profiles().items()}


def _kernels() -> Mapping[str, str]:
    from clustersim.kernels.measured_tables.listing import list_kernels

    return list_kernels()


def _links() -> Mapping[str, str]:
    from clustersim.hardware import LINKS

    return LINKS


def _cpus() -> Mapping[str, str]:
    from clustersim.hardware import CPUS

    return CPUS


def _transports() -> Mapping[str, str]:
    from clustersim.hardware import TRANSPORTS

    return TRANSPORTS


def _software() -> Mapping[str, str]:
    from clustersim.software import SOFTWARE

    return SOFTWARE


def _software_hosts() -> Mapping[str, str]:
    from clustersim.software import HOSTS

    return HOSTS


def _strategies() -> Mapping[str, str]:
    from clustersim.strategies import STRATEGIES

    return _summaries(STRATEGIES)


def _collectives() -> Mapping[str, str]:
    from clustersim.collectives import COLLECTIVES, algorithms_of

    return {
        f"{op} {algorithm}": _first_line(inspect.getdoc(member))
        for op in COLLECTIVES
        for algorithm, member in algorithms_of(op).items()
    }


def _topologies() -> Mapping[str, str]:
    from clustersim.topology import TOPOLOGIES

    return _summaries(TOPOLOGIES)


def _hosts() -> Mapping[str, str]:
    from clustersim.topology import HOST_SHEETS, HOSTS

    return {**_summaries(HOSTS), **HOST_SHEETS}


def _placements() -> Mapping[str, str]:
    from clustersim.topology import PLACEMENTS

    return _summaries(PLACEMENTS)


def _stragglers() -> Mapping[str, str]:
    from clustersim.stragglers import STRAGGLERS

    return _summaries(STRAGGLERS)


def _tasks() -> Mapping[str, str]:
    from clustersim.learning import TASKS

    return _summaries(TASKS)


SECTIONS: dict[str, Callable[[], Mapping[str, str]]] = {
    "scenarios": _scenarios,
    "cases": _cases,
    "models": _models,
    "precisions": _precisions,
    "clusters": _clusters,
    "gpus": _gpus,
    "profiles": _profiles,
    "kernels": _kernels,
    "links": _links,
    "cpus": _cpus,
    "software": _software,
    "software-hosts": _software_hosts,
    "transports": _transports,
    "strategies": _strategies,
    "collectives": _collectives,
    "topologies": _topologies,
    "hosts": _hosts,
    "placements": _placements,
    "stragglers": _stragglers,
    "tasks": _tasks,
}


def _summaries(members: Mapping[str, object]) -> dict[str, str]:
    return {name: _first_line(inspect.getdoc(member)) for name, member in members.items()}


def first_comment(path: Path) -> str:
    """Return the first comment line of a YAML file that is not an editor directive."""
    return _first_line_of(
        line.lstrip("# ").strip()
        for line in path.read_text(encoding="utf-8").splitlines()
        if line.startswith("#") and "yaml-language-server:" not in line
    )


def _first_line(text: str | None) -> str:
    return _first_line_of((text or "").splitlines())


def _first_line_of(lines: Iterable[str]) -> str:
    return next((line for line in lines if line), "")
