"""Writes a campaign as a case of `clustersim validate`: its table of figures, and their scenarios.

    python -m validate.lab.kept runs/lab-full.json

Flows are left out: their rates are not figures of a training or a collective. They are
compared by `python -m validate.lab --measured validate/lab/kept/campaign.json`.
"""

from __future__ import annotations

import csv
import io
import json
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from clustersim.errors import InputError
from clustersim.results.files import write_atomically
from validate.lab.case import Case
from validate.lab.document import read_campaign

FOLDER = Path(__file__).resolve().parent / "kept"
CAMPAIGN = "campaign.json"

_COLUMNS = ("scenario", "collective", "num_gpus", "topology.num_hosts", "topology.link", "bytes", "algorithm")
_METHOD = ("strategy", "num_iterations")
_FIXED = ("metric", "value", "unit", "role", "provenance", "where", "label")


def case_files(document: Mapping[str, Any], cases: Sequence[Case]) -> dict[str, str]:
    """Return the texts of all files of the case, by file name."""
    rows: list[dict[str, str]] = []
    files: dict[str, str] = {}
    where = f"{CAMPAIGN}, measured on {document['date']} on {document['machine']['num_cores']} cores"
    for case in cases:
        if "flows" in case.ask:
            continue
        settings = _collective(case, files) if "collective" in case.ask else _training(case, files)
        for metric, value, unit in _figures(case):
            fixed = {"metric": metric, "value": f"{value:.6g}", "unit": unit, "where": where, "label": case.name}
            rows.append({**settings, **fixed, "role": "prediction", "provenance": "read"})
    return {**files, "measured.csv": _table(rows)}


def _figures(case: Case) -> Iterator[tuple[str, float, str]]:
    for metric, figure in case.figures.items():
        yield metric, figure.median * 1e3, "ms"
    if len(case.staleness) > 1:
        counts = case.staleness
        yield "staleness.mean", sum(value * count for value, count in counts.items()) / sum(counts.values()), "updates"


def _collective(case: Case, files: dict[str, str]) -> dict[str, str]:
    """Return the columns of a collective; collectives that differ only in these columns share a file."""
    ask, topology = case.ask, case.ask["topology"]
    if topology["kind"] == "star":
        name, shape = "star", {"topology.num_hosts": str(topology["num_hosts"])}
    else:
        name, shape = "-".join(["torus", *map(str, topology["dims"])]), {}
    files.setdefault(f"{name}.yaml", _yaml("Collectives of torch over gloo, and ours over its send and receive.", ask))
    given = {key: str(ask[key]) for key in ("collective", "num_gpus", "bytes", "algorithm")}
    return {"scenario": name, **given, **shape, "topology.link": topology["link"]}


def _training(case: Case, files: dict[str, str]) -> dict[str, str]:
    """Return the columns of a training; trainings of one net on one cluster differ only in their strategy."""
    ask = case.ask
    name = f"{ask['name'].removeprefix('lab-')}-{ask['topology']['link'].split()[0]}"
    files.setdefault(
        f"{name}.yaml", _yaml(f"{ask['name']}, on links of {ask['topology']['link']}.", _renamed(ask, name))
    )
    for inner, text in case.files.items():
        outer = f"{name}.{inner}"
        longest = max(files.get(outer, ""), text, key=len)
        if not longest.startswith(files.get(outer, "")) or not longest.startswith(text):
            raise InputError(f"the case '{case.name}' has another {inner} than an earlier case on the same cluster")
        files[outer] = longest
    method = {"strategy": _value(ask["strategy"]), "num_iterations": str(ask["num_iterations"])}
    return {"scenario": name, "num_gpus": str(ask["num_gpus"]), **method}


def _renamed(value: Any, name: str) -> Any:
    """Return the input with the names of the files as written."""
    if isinstance(value, Mapping):
        return {key: _renamed(inner, name) for key, inner in value.items()}
    if isinstance(value, list):
        return [_renamed(inner, name) for inner in value]
    return f"{name}.{value}" if value in ("net.yaml", "draws.csv") else value


def _yaml(what: str, ask: Mapping[str, Any]) -> str:
    """Return a mapping as YAML with a line for each key, and its value as JSON."""
    lines = [f"# {what}", *(f"{key}: {_value(value)}" for key, value in ask.items())]
    return "\n".join(lines) + "\n"


def _value(value: Any) -> str:
    """Return a value as YAML; a text of words and numbers needs no quotes."""
    is_plain = isinstance(value, str) and value.replace(" ", "").replace("-", "").replace(".", "").isalnum()
    return str(value) if is_plain else json.dumps(value)


def _table(rows: Sequence[Mapping[str, str]]) -> str:
    out = io.StringIO()
    table = csv.DictWriter(out, [*_COLUMNS, *_METHOD, *_FIXED], restval="", lineterminator="\n")
    table.writeheader()
    table.writerows(rows)
    return out.getvalue()


def keep(path: Path) -> list[Path]:
    """Store a campaign: copy its file here and rewrite the case; return the files."""
    document, cases = read_campaign(path)
    for old in [*FOLDER.glob("*.yaml"), *FOLDER.glob("*.csv")]:
        old.unlink()
    kept = FOLDER / CAMPAIGN
    if path.resolve() != kept:
        shutil.copyfile(path, kept)
    return [kept, *(write_atomically(FOLDER / name, text) for name, text in case_files(document, cases).items())]


if __name__ == "__main__":
    for written in keep(Path(sys.argv[1])):
        print(written)
