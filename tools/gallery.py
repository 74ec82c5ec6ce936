"""Makes the gallery: docs/gallery.md and docs/images/gallery, each figure from a shipped scenario.

    python tools/gallery.py [FIGURE ...]

With names of figures, only their pictures are made anew; `report` is the picture of a whole report in the README.
Needs Chromium and the extras `browser` and `learning`.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from gzip import decompress
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

import clustersim

if TYPE_CHECKING:
    from playwright.sync_api import Page

DOCS = Path(__file__).resolve().parent.parent / "docs"
PICTURES = DOCS / "images" / "gallery"
WIDTH = 860
_STYLE = """
.top, .tools, .choice, #contents, .hint, .modebar-container { display: none !important; }
body, main { display: block !important; margin: 0 !important; padding: 0 !important; max-width: none !important; }
.card { border: 0 !important; box-shadow: none !important; margin: 0 !important; grid-column: 1 / -1 !important; }
"""


@dataclass(frozen=True)
class Picture:
    """A figure of a report, the question that it answers, and the scenario and keys that it is made from."""

    figure: str
    question: str
    scenario: str
    settings: tuple[str, ...] = ()

    @property
    def command(self) -> str:
        return " ".join(["clustersim run", self.scenario, *(f"--set '{each}'" for each in self.settings)])


GALLERY = (
    Picture("scaling", "How much faster are more GPUs?", "firecaffe-googlenet"),
    Picture("learning-curves", "Which run learns fastest?", "time-to-accuracy"),
    Picture(
        "time-to-target",
        "Which number is best for the time to an accuracy?",
        "backup-workers-pay-when",
        ("stragglers.0.cv=0.6",),
    ),
    Picture("consensus", "How far apart are the workers' weights?", "time-to-accuracy"),
    Picture("pollux", "Does a formula know how many samples are needed?", "time-to-accuracy"),
    Picture(
        "learning-scale",
        "How long does a large model train at another batch?",
        "llama-h100",
        ("learning.scale={noise_scale: 81, batch: 16, steps: 9984}",),
    ),
    Picture("published", "How far is the forecast from what was measured?", "firecaffe-googlenet"),
    Picture("choosing", "Which strategy should I take?", "stragglers"),
    Picture("backups", "How many backup workers pay?", "backup-workers"),
    Picture("jobs", "What does another job on the same links cost?", "two-jobs"),
    Picture("breakdown", "Where does the time go?", "overlap-10gbe"),
    Picture("timeline", "What happens in one iteration?", "gpipe-bubble", ("parallelism.micro_batches=4",)),
    Picture("stragglers", "Who waits for whom?", "bounded-staleness"),
    Picture("who-was-last", "Why was the last rank last?", "asynchronous"),
    Picture("ranks", "Do all ranks do the same?", "firecaffe-googlenet"),
    Picture("link-classes", "Which kind of link is the bottleneck?", "where-servers-live"),
    Picture("links", "Which link is the bottleneck?", "which-all-reduce"),
    Picture("memory-over-time", "When is the memory full?", "gpipe-bubble", ("parallelism.micro_batches=4",)),
    Picture("layers", "Which layers take the time?", "overlap-10gbe"),
    Picture("clocks", "How far does a fast worker run ahead?", "bounded-staleness"),
    Picture("staleness", "How old are the gradients?", "softsync"),
    Picture("staleness-over-time", "When are gradients stale?", "asynchronous"),
    Picture("versions", "Which weights was each gradient computed from?", "hierarchical"),
    Picture("failures", "What do failures and checkpoints cost?", "failures"),
    Picture("checkpoints", "How often should a training be saved?", "failures"),
)


@contextmanager
def browser_page() -> Iterator[Page]:
    """Yield a page of a browser without a window."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        path = shutil.which("chromium") or shutil.which("google-chrome") or playwright.chromium.executable_path
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox", "--disable-gpu"])
        try:
            context = browser.new_context(viewport={"width": WIDTH, "height": 1000}, device_scale_factor=1.1)
            yield context.new_page()
        finally:
            browser.close()


_DOCUMENT = """<style>
  body { margin: 0; background: white; font-family: sans-serif; }
  #all { padding: 14px 18px; width: max-content; }
  h3 { font-size: 17px; margin: 0 8px; max-width: 740px; }
  p { font-size: 14px; margin: 4px 8px 10px; color: #555; }
  #plot { position: relative; overflow: hidden; }
  #plot svg { position: absolute; left: 0; top: 0; }
</style>
<div id="all"><h3></h3><p></p><div id="plot"></div></div>"""


def save_png(page: Page, figure: dict[str, Any], title: str, subtitle: str, to: Path) -> None:
    """Draw a figure of plotly under its title, and save both as a picture."""
    page.set_content(_DOCUMENT)
    page.add_script_tag(
        content=decompress(files("clustersim.report").joinpath("plotly.min.js.gz").read_bytes()).decode()
    )
    page.evaluate(
        "([title, subtitle, figure]) => { document.querySelector('h3').textContent = title;"
        " document.querySelector('p').textContent = subtitle;"
        " const plot = document.getElementById('plot'); plot.style.height = `${figure.layout.height}px`;"
        " return Plotly.newPlot(plot, figure.data, figure.layout, {staticPlot: true}); }",
        [title, subtitle, figure],
    )
    page.locator("#all").screenshot(path=to)


_FIRST_WITH = """async (name) => {
  const card = document.getElementById(name), runs = document.getElementById("run");
  const choose = (value) => { runs.value = value; runs.dispatchEvent(new Event("change", {bubbles: true})); };
  for (const { value } of runs ? runs.options : []) {
    if (!card.classList.contains("folded")) break;
    choose(value);
    await new Promise((resolve) => setTimeout(resolve, 500));
  }
  return !card.classList.contains("folded");
}"""
"""Chooses the first run whose figure has something to tell; returns whether there is one."""


def figures_of(page: Page, report: Path, names: Sequence[str]) -> dict[str, str]:
    """Save the pictures of figures of a report, and return the title of each; one with nothing to tell is left out."""
    page.goto(report.as_uri())
    page.add_style_tag(content=_STYLE)
    page.wait_for_selector("body[data-drawn]", timeout=60_000)
    found = {}
    for name in names:
        card = page.locator(f"section#{name}")
        if not card.count() or not page.evaluate(_FIRST_WITH, name):
            continue
        card.scroll_into_view_if_needed()
        page.wait_for_selector(f"section#{name}[data-drawn=yes]", timeout=60_000)
        page.wait_for_timeout(500)
        card.screenshot(path=PICTURES / f"{name}.png")
        found[name] = page.locator(f"#title-{name}").inner_text()
    return found


def draw(wanted: Sequence[Picture]) -> dict[str, str]:
    """Simulate each scenario once and save its pictures; return the title of each figure."""
    titles: dict[str, str] = {}
    PICTURES.mkdir(parents=True, exist_ok=True)
    with browser_page() as page, tempfile.TemporaryDirectory() as folder:
        for scenario, settings in dict.fromkeys((each.scenario, each.settings) for each in wanted):
            sweep = clustersim.sweep(clustersim.load_scenario(scenario, overrides=list(settings)))
            report = Path(folder) / f"{scenario}.html"
            clustersim.write_report(sweep, str(report))
            mine = [each.figure for each in wanted if (each.scenario, each.settings) == (scenario, settings)]
            titles |= figures_of(page, report, mine)
            print(scenario, *settings, *(name for name in mine if name in titles), flush=True)
    return titles


def gallery_page(titles: dict[str, str]) -> str:
    """Return docs/gallery.md."""
    lines = [
        "# Gallery",
        "",
        "Every figure of a report, each from a shipped scenario, with the question that it answers.",
        "`python tools/gallery.py` draws them anew. [Read a report](how-to/read-a-report.md) says what each one shows.",
    ]
    for each in GALLERY:
        if each.figure in titles:
            picture = f"![{titles[each.figure]}](images/gallery/{each.figure}.png)"
            lines += ["", f"## {each.question}", "", picture, "", f"`{each.command}`"]
    return "\n".join(lines) + "\n"


def _written_titles() -> dict[str, str]:
    """Return the titles that the page has now."""
    page = DOCS / "gallery.md"
    lines = page.read_text(encoding="utf-8").splitlines() if page.exists() else []
    pictures = [line[2:-1].split("](images/gallery/") for line in lines if line.startswith("![")]
    return {name.removesuffix(".png"): title for title, name in pictures}


def draw_report(scenario: str = "firecaffe-googlenet") -> None:
    """Save the first screen of a report as docs/images/report.png."""
    with browser_page() as page, tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.html"
        clustersim.write_report(clustersim.sweep(clustersim.load_scenario(scenario)), str(report))
        page.set_viewport_size({"width": 1280, "height": 1300})
        page.goto(report.as_uri())
        page.wait_for_selector("body[data-drawn]", timeout=60_000)
        page.wait_for_timeout(500)
        page.screenshot(path=DOCS / "images" / "report.png")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("figures", nargs="*", help="only these figures, or `report`; default: all")
    chosen = parser.parse_args().figures
    if not chosen or "report" in chosen:
        draw_report()
    titles = draw([each for each in GALLERY if not chosen or each.figure in chosen])
    missing = [each.figure for each in GALLERY if (not chosen or each.figure in chosen) and each.figure not in titles]
    if missing:
        print("no such figure in the report: " + ", ".join(missing))
    (DOCS / "gallery.md").write_text(gallery_page({**_written_titles(), **titles}), encoding="utf-8")


if __name__ == "__main__":
    main()
