"""The built site: every link and anchor leads somewhere, it asks nothing of other servers, and search finds pages."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from urllib.parse import unquote

import pytest

from tests.test_site_pages import documented

pytestmark = pytest.mark.site
ROOT = Path(__file__).resolve().parents[2]
_LINK = re.compile(r'<(?P<tag>\w+)\b[^>]*?\s(?:href|src)="(?P<url>[^"]*)"')
_ID = re.compile(r'\bid="([^"]+)"')
_FETCHED = {"img", "script", "iframe", "source"}


def build(config: Path, site: Path) -> subprocess.CompletedProcess[str]:
    """Build a site as `make docs` does."""
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--config-file", str(config)]
    return subprocess.run(
        [*command, "--site-dir", str(site)], cwd=ROOT, capture_output=True, text=True, timeout=300, check=False
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the site; return its folder."""
    folder = tmp_path_factory.mktemp("site")
    done = build(ROOT / "mkdocs.yml", folder)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


@pytest.fixture(scope="module")
def pages(folder: Path) -> dict[Path, str]:
    """Return the text of each page by its path in the site."""
    found = {path.relative_to(folder): path.read_text(encoding="utf-8") for path in folder.rglob("*.html")}
    assert len(found) > 150
    return found


def test_every_link_and_anchor_leads_somewhere(pages: dict[Path, str], folder: Path) -> None:
    anchors = {path: set(_ID.findall(text)) for path, text in pages.items()}
    wrong, num_links = [], 0
    for path, text in pages.items():
        if path.name == "404.html":  # served for any address, so its links begin at the root
            continue
        for match in _LINK.finditer(text):
            where, _, anchor = unquote(match["url"]).partition("#")
            if re.match(r"[a-z]+:", where):
                continue
            num_links += 1
            target = (folder / path.parent / where).resolve() if where else folder.resolve() / path
            known = anchors.get(target.relative_to(folder.resolve()))
            if not target.is_file() or (anchor and known is not None and anchor not in known and anchor[:2] != "__"):
                wrong.append((path.as_posix(), match["url"]))
    assert num_links > 10_000
    assert not wrong[:20]


def test_nothing_is_fetched_from_other_servers(pages: dict[Path, str], folder: Path) -> None:
    for path, text in pages.items():
        for match in _LINK.finditer(text):
            is_fetched = match["tag"] in _FETCHED or (match["tag"] == "link" and 'rel="canonical"' not in match[0])
            assert not (is_fetched and "//" in match["url"]), (path, match[0])
    for style in folder.rglob("*.css"):
        assert not re.search(r"url\(['\"]?(https?:)?//|@import", style.read_text(encoding="utf-8")), style


def test_search_works_without_a_server_and_has_every_part(folder: Path) -> None:
    text = (folder / "search" / "search_index.js").read_text(encoding="utf-8")
    found = {entry["location"] for entry in json.loads(text.removeprefix("var __index = "))["docs"]}
    for page in (
        "how-to/plan-a-cluster.html",
        "physics/collectives.html#protocols",
        "reference/scenario.html#topology-kind-",
        "reference/python.html#clustersim.network.Network.transfer",
        "accuracy.html#how-sure",
        "project/validate/index.html",
    ):
        assert page in found, page
    assert "project/validate/firecaffe/source.html" not in found  # sources of cases would hide what explains
    assert 'src="assets/iframe-worker.js"' in (folder / "index.html").read_text(encoding="utf-8")


def test_docstrings_are_rendered_with_arguments_and_errors(pages: dict[Path, str]) -> None:
    text = pages[Path("reference/python.html")]
    anchors = {
        found for page in ("python", "python-members") for found in _ID.findall(pages[Path(f"reference/{page}.html")])
    }
    assert documented() <= anchors
    for said in ("Texts such as", "Bytes of the message.", "Raises:", "Parameters:"):
        assert said in text, said
    assert '<span class="gp">&gt;&gt;&gt; </span>' in pages[Path("reference/python-members.html")]
    assert ":::" not in re.sub(r"<code>:::</code>", "", text)


def test_pages_are_light_or_dark_and_name_the_files_of_blocks(pages: dict[Path, str], folder: Path) -> None:
    assert 'data-md-color-scheme="slate"' in pages[Path("index.html")]
    assert "my_cluster.py" in re.findall(r'<span class="filename">([^<]*)</span>', pages[Path("how-to/extend-it.html")])
    assert not (folder / "generate.py").exists()


@pytest.mark.parametrize("link", ["no-such-page.md", "index.md#no-such-anchor", "/index.md", "no-such-folder/"])
def test_a_link_that_leads_nowhere_is_an_error(link: str, tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "index.md").write_text(f"# Page\n\n[a link]({link})\n", encoding="utf-8")
    config = tmp_path / "mkdocs.yml"
    config.write_text(f"INHERIT: {ROOT / 'mkdocs.yml'}\nnav: [index.md]\nhooks: []\nextra_css: []\n", encoding="utf-8")
    done = build(config, tmp_path / "site")
    assert done.returncode == 1
    assert link.partition("#")[0] in done.stdout + done.stderr


def test_a_line_of_code_is_an_element_so_that_copied_commands_have_no_blank_lines(folder: Path) -> None:
    text = (folder / "tutorial" / "reproduce-firecaffe.html").read_text(encoding="utf-8")
    assert re.search(r'<span id="__span-\d+-\d+"><span class="go">', text)
    assert "code > span:has(.go)" in (folder / "assets" / "site.css").read_text(encoding="utf-8")


def test_search_finds_the_names_of_links(folder: Path) -> None:
    text = (folder / "search" / "search_index.js").read_text(encoding="utf-8")
    docs = json.loads(text.removeprefix("var __index = "))["docs"]
    page = next(entry for entry in docs if entry["location"] == "tutorial/would-400g-help.html")
    assert all(word in page["text"] for word in ("EDR", "HDR", "NDR", "400G"))
