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
from clustersim.cli.listing import SECTIONS
from clustersim.results.checked import shipped_forecasts
from clustersim.scenario.reference import key_paths, reference_page, table_with_examples
from clustersim.validation.register import shipped_entries
from clustersim.validation.score import Summary, summarise

DOCS = Path(__file__).resolve().parent
ROOT = DOCS.parent
REFERENCE = DOCS / "reference"

CLI_HEADING = """\
# Commands

`clustersim COMMAND --help` prints the same. Results go to stdout, progress and complaints to stderr.

| exit status | meaning |
| --- | --- |
| 0 | done; of a sweep: at least one point has a forecast |
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

[All keys](scenario.md) are on a page of their own, by section. `clustersim explain KEY` prints what a key takes and
means, in the same words. The example is what scenarios write most often, the number 1 aside.
"""
COMMON_RULE = """\
## How they are chosen

By a rule, and this page is generated (`make reference`). Counted are the scenarios that are
shipped, those in `validate`, and those in README and on these pages. The share of files in which a key is written is
taken for each of the three, and the keys with the highest mean are here, by subject. `name`, and keys called
`description` or `source`, are left out.
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


ACCURACY = """\
# How right is it

This page is generated (`make reference`) from [the register](register.md), [the cases](validation.md) and [the study
of the bands](coverage.md).

![Share of forecasts within an error: first forecasts, and cases seen during development](images/register.png)

## How right

- **Before the figure is known**, as for your training: the median error is {register_median} %, and nine in ten
  forecasts are within {register_p90} % ({register_points} figures of {register_sources} sources with equal weight).
  Each was written down first and compared afterwards: [the register](register.md).
- **With one run that you measured**: {anchored_median} % and {anchored_p90} % for the {anchored_points} other figures
  of those trainings of the register that have several ([anchor a forecast](how-to/anchor-a-forecast.md)). It is the
  cheapest way to a good forecast.
- **Where development could see the figures**: {cases_median} % and {cases_p90} % in {cases_points} figures ([the
  cases](validation.md)). That is not the error to expect of a new forecast.
- **Which of two is quicker**: of the pairs of strategies or layouts in these cases that differ by more than 5 %,
  {orderings} % are ranked as measured. So a comparison of options is more certain than the rate of each of them.

## For what

The forecasts of the register by the median of their errors. Look for the one that is most like yours; if none is, be
careful.

{by_error}
## How sure

Every forecast states a band: the measurement is expected inside it with a probability of 90 %. For sources that a
band was not made from, {held} % of the measurements were inside ({band_figures} figures of {band_sources} sources);
of bands made from older sources only, {held_later} % held. The upper end of a band is {band_width} times the lower
one in the median, and {anchored_width} times with a measured run. Where nothing like a forecast was ever checked, the
forecast says so. [How bands are made](coverage.md).

Numbers that nothing has measured are marked `assumed`, and each report lists those that it rests on. Parts are
checked by themselves: [matrix products, collectives and the host](validation.md#kernels-collectives-host) against
measurements that nothing was fitted to, collectives against their closed forms to 1e-9, and the network [against
SimGrid](benchmarks.md). On your own machines you can check [against your
measurements](how-to/check-against-measurements.md) or in [the lab](how-to/run-the-lab.md).
"""
FIGURES = {
    "register": r"First forecasts, (?P<register_sources>\d+) sources: (?P<register_points>\d+) points, "
    r"median error (?P<register_median>[\d.]+)%, 90th percentile (?P<register_p90>[\d.]+)%",
    "validation": r"Predicted: (?P<cases_points>\d+) points, median error (?P<cases_median>[\d.]+)%, "
    r"90th percentile (?P<cases_p90>[\d.]+)%.* orderings right (?P<orderings>[\d.]+)%",
    "coverage": r"Used are (?P<band_figures>\d+) figures of (?P<band_sources>\d+) sources[\s\S]*?"
    r"## Coverage, leaving one source out[\s\S]*?\| 90% \| (?P<held>[\d.]+)% \| (?P<band_width>[\d.]+)[\s\S]*?"
    r"## Coverage over time[\s\S]*?\| 90% \| \d+ \| \d+ \| (?P<held_later>[\d.]+)%[\s\S]*?"
    r"## With an anchor[\s\S]*?\| 90% \| \d+ \| \d+ \| [\d.]+% \| (?P<anchored_width>[\d.]+)",
}
"""Where `ACCURACY` has its figures from: a page of docs/, and what is read there."""
CATALOGUE_HEADING = """\
# Names of models, devices and clusters

What `clustersim list` prints, without the cases: what a scenario may name. `clustersim list WORD` finds a word.
"""
NOT_IN_CATALOGUE = {"cases", "kernels"}


def pages() -> Mapping[str, str]:
    """Return the pages by their path in docs/."""
    return {
        "accuracy.md": accuracy_page(),
        "reference/catalogue.md": catalogue_page(),
        "reference/cli.md": cli_page(),
        "reference/common-keys.md": common_keys_page(),
        "reference/scenario.md": reference_page(),
    }


def accuracy_page() -> str:
    """Return the page on how right forecasts are, with the figures of the pages that hold all of them."""
    texts = {name: (DOCS / f"{name}.md").read_text(encoding="utf-8") for name in FIGURES}
    figures: dict[str, str] = {}
    for name, pattern in FIGURES.items():
        found = re.search(pattern, texts[name])
        assert found is not None, f"docs/{name}.md has another form than docs/generate.py reads"
        figures |= found.groupdict()
    anchored = anchored_in_the_register()
    figures |= {"anchored_points": str(anchored.num_points)}
    figures |= {
        "anchored_median": _percent(anchored.median_abs_error),
        "anchored_p90": _percent(anchored.p90_abs_error),
    }
    for name, text in figures.items():
        if name.endswith(("median", "p90", "orderings", "held", "later")):
            figures[name] = _rounded(text)
    return ACCURACY.format(**figures, by_error=_by_error(texts["register"]))


def anchored_in_the_register() -> Summary:
    """Return the errors of the register's trainings with several figures, the smallest of which is an anchor."""
    entries, by_source = shipped_entries(), defaultdict[str, list[float]](list)
    for checked in shipped_forecasts().of_anchored(True):
        if checked.case in entries:
            by_source[checked.source] += [1 / ratio - 1 for ratio in checked.ratios]
    return summarise(list(by_source.values()))


def _percent(error: float | None) -> str:
    assert error is not None
    return f"{100 * error:.1f}"


def _rounded(percent: str) -> str:
    return f"{float(percent):.0f}" if float(percent) >= 10 else percent


def _by_error(register: str) -> str:
    """Return the entries of the register in three lists, by the median error of their first forecasts."""
    medians = re.findall(r"^\| ([\w.-]+) \| .*? \| \d+ \| ([\d.]+)% \|", register, re.MULTILINE)
    titles = dict(re.findall(r"^## ([\w.-]+)\n\n\[([^\]]+)\]", register, re.MULTILINE))
    parts = []
    for low, high, heading in ((0, 10, "Within 10 %"), (10, 30, "10 to 30 %"), (30, 1e9, "More than 30 %")):
        found = sorted((float(error), name) for name, error in medians if name in titles and low <= float(error) < high)
        lines = [f"- [{titles[name]}](register.md#{name.replace('.', '')}): {error:.0f} %" for error, name in found]
        parts.append("\n".join([f"### {heading}", "", *lines, ""]))
    return "\n".join(parts)


def catalogue_page() -> str:
    """Return the page of all names that `clustersim list` knows, a table for each section."""
    parts = [CATALOGUE_HEADING]
    for name, members in SECTIONS.items():
        if name not in NOT_IN_CATALOGUE:
            rows = [f"| `{member}` | {line.replace('|', '&#124;')} |" for member, line in members().items()]
            parts.append("\n".join([f"## {name}", "", "| name | what |", "|---|---|", *rows, ""]))
    return "\n".join(parts)


def common_keys_page() -> str:
    """Return the page of the keys that are written most often."""
    examples = common_keys(scenarios_that_count())
    left = dict(examples)
    parts = [COMMON_HEADING]
    for subject, tops in SUBJECTS.items():
        here = [path for path in left if not tops or path.split(".")[0] in tops]
        parts.append(f"## {subject}\n\n{table_with_examples({path: left.pop(path) for path in here})}")
    return "\n".join([*parts, COMMON_RULE])


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
    common = sorted(set(known) & set(shares), key=lambda path: (-round(shares[path], 9), path))[:NUM_COMMON]
    return {path: _example(written[path]) for path in known if path in common}


def _is_scenario(document: Any) -> bool:
    return isinstance(document, dict) and bool({"model", "extends"} & set(document))


def _keys_of(value: Any, path: str = "", outer: str = "{}") -> Iterator[tuple[str, str]]:
    """Yield each key that holds a scalar or a list of them, with a line of YAML that sets it.

    `outer` is the line around `value`, with `{}` in its place.
    """
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
        (DOCS / page).write_text(text, encoding="utf-8")
