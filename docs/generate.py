"""Writes the reference pages that are made from the program itself: `make reference`.

Tests compare the pages in the repository with what these functions return.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import typer
from ruamel.yaml import YAML

from clustersim.cli import app, main
from clustersim.scenario.reference import key_paths, reference_page, table_with_examples

DOCS = Path(__file__).resolve().parent
ROOT = DOCS.parent
REFERENCE = DOCS / "reference"

CLI_HEADING = """\
# Commands

`clustersim COMMAND --help` prints the same. Results go to stdout, progress and complaints to stderr.

| exit status | meaning |
| --- | --- |
| 0 | done |
| 1 | the simulation failed |
| 2 | usage: the command line itself is wrong |
| 3 | the scenario or another input file is wrong |
| 4 | outside the tolerance asked for |
| 130 | interrupted |

With `--json`, stdout gets exactly one document. When something goes wrong that is
`{"schema": "clustersim.error/1", "errors": [{"file", "line", "column", "key", "got", "allowed", "message"}]}`,
with null for what does not apply.
"""

COMMON_HEADING = """\
# The 40 most common keys

[All keys](scenario.md) are on a page of their own, by section. `clustersim explain KEY` prints what a key takes and means,
in the same words.

The 40 are chosen by a rule, and this page is generated (`make reference`). Counted are the scenarios that are shipped,
those in `validate`, and those in README and on these pages. The share of files in which a key is written is taken for
each of the three, and the keys with the highest mean are here, by subject. `name`, and keys called `description` or
`source`, are left out. The example is what these files write most often, the number 1 aside.
"""
NUM_COMMON = 40
SUBJECTS = {
    "What is trained": ("extends", "model", "batch", "precision", "gradient_precision", "optimizer"),
    "On which cluster": ("num_gpus", "topology", "placement", "transport"),
    "By which program, in which layout": ("software", "parallelism", "strategy"),
    "Times of layers, stragglers, and the run": (),
}
"""Headings of the page, with the top-level keys below them; the last has all others."""
LONGEST_EXAMPLE = 60
_YAML_BLOCK = re.compile(r"^```yaml[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def pages() -> Mapping[str, str]:
    """Return the pages by file name."""
    return {"cli.md": cli_page(), "common-keys.md": common_keys_page(), "scenario.md": reference_page()}


def common_keys_page() -> str:
    """Return the page of the keys that are written most often."""
    examples = common_keys(scenarios_that_count())
    left = dict(examples)
    parts = [COMMON_HEADING]
    for subject, tops in SUBJECTS.items():
        here = [path for path in left if not tops or path.split(".")[0] in tops]
        parts.append(f"## {subject}\n\n{table_with_examples({path: left.pop(path) for path in here})}")
    return "\n".join(parts)


def scenarios_that_count() -> list[list[str]]:
    """Return the text of scenarios: those shipped, those of validate, and those on pages."""
    pages = [ROOT / "README.md", *sorted(path for path in DOCS.rglob("*.md") if path.parent != REFERENCE)]
    return [
        [path.read_text(encoding="utf-8") for path in sorted((ROOT / "scenarios").glob("*.yaml"))],
        [path.read_text(encoding="utf-8") for path in sorted((ROOT / "validate").rglob("scenario.yaml"))],
        [text for page in pages for text in _YAML_BLOCK.findall(page.read_text(encoding="utf-8"))],
    ]


def common_keys(collections: Iterable[list[str]]) -> dict[str, str]:
    """Return the most common keys with an example each, in the order of the reference."""
    known = [path for path in key_paths() if path != "name" and not path.endswith(("description", "source"))]
    shares: Counter[str] = Counter()
    written: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for texts in collections:
        found = [dict(_keys_of(scenario)) for scenario in map(YAML(typ="safe").load, texts) if _is_scenario(scenario)]
        for keys in found:
            for path, example in keys.items():
                shares[path] += 1 / len(found)
                written[path][example] += 1
    common = sorted(known, key=lambda path: (-round(shares[path], 9), path))[:NUM_COMMON]
    return {path: _example(written[path]) for path in known if path in common}


def _is_scenario(document: Any) -> bool:
    return isinstance(document, dict) and bool({"model", "extends"} & set(document))


def _keys_of(value: Any, path: str = "", outer: str = "{}") -> Iterator[tuple[str, str]]:
    """Yield each key that holds a scalar or a list of them, with a line of YAML that sets it; `{}` is its place there."""
    if isinstance(value, list) and any(isinstance(element, dict) for element in value):
        for element in value:
            yield from _keys_of(element, path, outer.replace("{}", "[{}]"))
    elif isinstance(value, dict):
        for key, inner in value.items():
            place = outer.replace("{}", f"{{{key}: {{}}}}" if path else f"{key}: {{}}")
            yield from _keys_of(inner, f"{path}.{key}".lstrip("."), place)
    elif path:
        yield path, outer.replace("{}", _flow(value))


def _flow(value: Any) -> str:
    """Return a scalar or a list of them as YAML writes it on one line."""
    output = io.StringIO()
    yaml = YAML(typ="safe")
    yaml.default_flow_style, yaml.width = True, 1000
    yaml.dump([value], output)
    return output.getvalue().strip()[1:-1]


def _example(written: Counter[str]) -> str:
    """Return the line that is written most often, of those that are short and not the number 1."""
    fit = [text for text in written if len(text) <= LONGEST_EXAMPLE and not text.rstrip("]}").endswith(": 1")]
    return min(fit or written, key=lambda text: (-written[text], len(text), text))


def cli_page() -> str:
    """Return the page of all commands, from their own help."""
    sections = [f"## clustersim {command}\n\n```text\n{_help(command.split())}```\n" for command in _commands()]
    return "\n".join([CLI_HEADING, f"## clustersim\n\n```text\n{_help([])}```\n", *sections])


def _commands() -> list[str]:
    found = []
    for name, command in typer.main.get_command(app).commands.items():
        inner = getattr(command, "commands", None)
        found += [f"{name} {sub}" for sub in inner] if inner else [name]
    return found


def _help(command: list[str]) -> str:
    """Return a command's help, 100 columns wide whatever terminal this runs in."""
    os.environ["COLUMNS"] = "100"
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        main([*command, "--help"])
    return output.getvalue()


if __name__ == "__main__":
    for page, text in pages().items():
        (REFERENCE / page).write_text(text, encoding="utf-8")
