"""`clustersim serve` in a real browser: knobs turn, refusals are told, runs are pinned, and nobody else gets in."""

from __future__ import annotations

import json
import re
import shlex
import signal
import subprocess
import sys
from http.client import HTTPConnection
from pathlib import Path

import pytest

from clustersim.cli import main

pytestmark = pytest.mark.browser

ROOT = Path(__file__).resolve().parent.parent.parent
PAGE = ROOT / "docs" / "how-to" / "ask-what-if.md"
SCENARIO = """
name: small
model: vgg16
num_gpus: [4, 8, 16]
batch: {per_gpu: 64}
topology: {kind: star, num_hosts: 4, host: dgx-1, link: infiniband-edr}
software: plain
transport: nccl
strategy: {kind: all-reduce}
num_iterations: 2
"""


class Server:
    """A process that serves a scenario on a free port."""

    def __init__(self, *arguments: str, cwd: Path):
        self.process = subprocess.Popen(
            [sys.executable, "-m", "clustersim", "serve", *arguments, "--no-open", "--port", "0"],
            cwd=cwd,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"},
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # a shell's background jobs ignore it
        )
        line = self.process.stdout.readline()
        found = re.fullmatch(r"page: (http://127\.0\.0\.1:(\d+)/) \(Ctrl-C ends it\)\n", line)
        assert found, line + self.process.stderr.read()
        self.address, self.port = found[1], int(found[2])

    def end(self) -> tuple[int, str]:
        """Interrupt the process; return its exit status and what it wrote on stderr."""
        self.process.send_signal(signal.SIGINT)
        _, written = self.process.communicate(timeout=20)
        return self.process.returncode, written


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("serve")
    (folder / "small.yaml").write_text(SCENARIO)
    server = Server("small.yaml", cwd=folder)
    server.folder = folder
    yield server
    server.process.kill()


class Visit:
    """A page with everything that it complained about and asked for."""

    def __init__(self, browser, address, width=1280, scheme="light"):
        self.context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
        self.context.grant_permissions(["clipboard-read", "clipboard-write"])
        self.page = self.context.new_page()
        self.errors, self.requests = [], []
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("console", lambda message: self.errors.append(message.text) if message.type == "error" else None)
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.goto(address)
        self.wait_until("document.querySelectorAll('#plot-scaling .scatterlayer .trace').length > 0")

    def wait_until(self, condition, seconds=30):
        """Wait until an expression is true; not by `wait_for_function`, whose eval the page forbids."""
        for _ in range(10 * seconds):
            if self.page.evaluate(condition):
                return
            self.page.wait_for_timeout(100)
        pytest.fail(f"still not so after {seconds} s: {condition}; {self.errors}")

    def text(self, place):
        return self.page.locator(place).inner_text()

    def turn(self, label, keys):
        """Turn the slider of a label by keys."""
        self.page.locator(".knob", has_text=label).locator("[role=slider]").focus()
        for key in keys:
            self.page.keyboard.press(key)

    def choose(self, label, option):
        """Choose an option of a list."""
        self.page.locator(".knob", has_text=label).locator("button").first.click()
        self.page.get_by_role("option", name=option, exact=True).click()

    def turn_and_wait(self, label, keys):
        before = self.text("#headline")
        self.turn(label, keys)
        self.wait_until(f"document.getElementById('headline').innerText !== {json.dumps(before)}")


@pytest.fixture
def visit(browser, server):
    visit = Visit(browser, server.address)
    yield visit
    visit.context.close()
    assert visit.errors == []
    assert [url for url in visit.requests if not url.startswith((server.address, "data:", "blob:"))] == []


def test_a_turned_knob_changes_the_curve_the_command_and_the_address(visit):
    curve = "document.querySelector('#plot-scaling .js-plotly-plot').data.map((trace) => trace.y[trace.y.length - 1])"
    before = visit.page.evaluate(curve)
    visit.turn_and_wait("Link of the network", ["Home"])
    assert visit.page.evaluate(curve) != before
    assert visit.page.url.endswith("?topology.link=infiniband-fdr")
    assert "--set topology.link=infiniband-fdr" in visit.text("#command")
    assert "link: infiniband-fdr" in visit.text("#scenario")
    assert "infiniband-fdr, 50.4 Gbit/s" in visit.page.locator(".knob", has_text="Link of the network").inner_text()


def test_a_choice_of_a_list_is_a_new_forecast(visit):
    visit.choose("Algorithm of the all-reduce", "tree")
    visit.wait_until("document.getElementById('command').innerText.includes('strategy.algorithm=tree')")


def test_the_address_keeps_the_state(browser, server, visit):
    visit.turn_and_wait("Batch of a GPU", ["ArrowRight"])
    headline, address = visit.text("#headline"), visit.page.url
    visit.page.reload()
    visit.wait_until(f"document.getElementById('headline')?.innerText === {json.dumps(headline)}")
    other = Visit(browser, address)
    assert other.text("#headline") == headline
    assert "128 samples" in other.page.locator(".knob", has_text="Batch of a GPU").inner_text()
    other.context.close()


def test_a_refused_choice_shows_its_message_and_keeps_the_last_forecast_grey(visit):
    headline = visit.text("#headline")
    visit.turn("Batch of a GPU", ["End"])
    visit.wait_until("document.getElementById('refusal').innerText.includes('batch.per_gpu')")
    assert "needs" in visit.text("#refusal")
    assert visit.page.evaluate("document.getElementById('results').classList.contains('old')")
    visit.wait_until("Number(getComputedStyle(document.getElementById('results')).opacity) < 1")
    assert visit.text("#headline") == headline
    assert visit.page.locator("#plot-scaling .scatterlayer .trace").count() > 0
    visit.page.locator("#reset").click()
    visit.wait_until("!document.getElementById('results').classList.contains('old')")
    assert visit.text("#refusal") == ""
    assert visit.page.url.endswith("/")


def test_a_pinned_run_is_drawn_beside_the_present_one(visit):
    visit.page.locator("#pin").click()
    visit.wait_until("document.getElementById('differences').innerText.includes('pinned')")
    visit.turn("Network cards of a host", ["Home"])
    visit.wait_until("document.getElementById('differences').innerText.includes('Network cards of a host')")
    visit.wait_until("document.querySelector('#plot-scaling').innerHTML.includes('>pinned<')")
    assert "pinned=" in visit.page.url
    visit.page.locator("#unpin").click()
    visit.wait_until("document.getElementById('differences').innerText === ''")


def test_the_copied_command_gives_the_forecast_of_the_page(visit, server, monkeypatch, capsys):
    visit.turn_and_wait("GPUs", ["ArrowLeft"])
    visit.page.locator("#copy-command").click()
    visit.wait_until("document.getElementById('copy-command').innerText === 'Copied'")
    copied = visit.page.evaluate("navigator.clipboard.readText()")
    monkeypatch.chdir(server.folder)
    assert main([*shlex.split(copied)[1:], "--json", "--quiet"]) == 0
    run = json.loads(capsys.readouterr().out)["runs"][-1]
    shown = re.search(r"train ([\d\s]+) samples", visit.text("#headline"))
    assert float(re.sub(r"\s", "", shown[1])) == pytest.approx(run["samples_per_s"], rel=1e-3)


def test_an_address_with_a_value_that_no_knob_has_is_told(browser, server):
    page = browser.new_page()
    page.goto(f"{server.address}?topology.link=%2Fetc%2Fpasswd")
    page.wait_for_selector("#refusal p")
    assert "'Link of the network' has no value '/etc/passwd'" in page.locator("#refusal").inner_text()
    page.close()


@pytest.mark.parametrize(("width", "scheme"), [(1280, "dark"), (400, "light"), (400, "dark")])
def test_it_fits_the_screen_and_the_scheme(browser, server, width, scheme):
    visit = Visit(browser, server.address, width, scheme)
    assert visit.page.evaluate("document.documentElement.scrollWidth") <= width
    ink = visit.page.evaluate(
        "document.querySelector('#plot-scaling .xaxislayer-above text, #plot-scaling .x2tick text').style.fill"
    )
    assert ink == ("rgb(232, 235, 238)" if scheme == "dark" else "rgb(27, 31, 36)")
    visit.context.close()
    assert visit.errors == []


def _status(server, method="GET", path="/", host=None, body=None, **headers):
    """Return the status and the body of an answer."""
    connection = HTTPConnection("127.0.0.1", server.port, timeout=20)
    connection.putrequest(method, path, skip_host=True)
    connection.putheader("Host", host or f"127.0.0.1:{server.port}")
    for name, value in headers.items():
        connection.putheader(name.replace("_", "-"), value)
    if body is not None:
        connection.putheader("Content-Type", "application/json")
        connection.putheader("Content-Length", str(len(body)))
    connection.endheaders(body)
    answer = connection.getresponse()
    return answer.status, answer.read().decode()


def test_other_hosts_and_other_sites_are_refused(server):
    own = f"http://127.0.0.1:{server.port}"
    assert _status(server)[0] == 200
    assert _status(server, Origin=own)[0] == 200
    assert _status(server, host=f"localhost:{server.port}")[0] == 200
    assert _status(server, host="example.org")[0] == 403
    assert _status(server, host=f"127.0.0.1:{server.port + 1}")[0] == 403
    for origin in (
        "https://example.org",
        "null",
        own.replace("http:", "https:"),
        f"http://localhost:{server.port}.example.org",
    ):
        assert _status(server, Origin=origin)[0] == 403, origin
        assert _status(server, "POST", "/_dash-update-component", body=b"{}", Origin=origin)[0] == 403, origin
    assert _status(server, Sec_Fetch_Site="cross-site")[0] == 403


def test_the_page_leads_to_no_file(server):
    for path in (
        "/small.yaml",
        "/assets/../page.py",
        "/..%2f..%2fetc/passwd",
        "/_mcp",
        "/_dash-component-suites/../../etc/passwd",
    ):
        status, text = _status(server, path=path)
        assert "root:" not in text
        assert "model: vgg16" not in text
        assert status in {200, 403, 404}


def test_a_port_in_use_is_one_line(server):
    done = subprocess.run(
        [sys.executable, "-m", "clustersim", "serve", "small.yaml", "--no-open", "--port", str(server.port)],
        cwd=server.folder,
        capture_output=True,
        text=True,
        timeout=30,
        env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"},
    )
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
    assert f"port {server.port}" in done.stderr


def test_every_command_of_the_how_to_serves_until_it_is_interrupted(tmp_path):
    shown = re.findall(r"^    clustersim serve (.+)$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert shown
    for arguments in shown:
        server = Server(*shlex.split(arguments), cwd=tmp_path)
        assert _status(server)[0] == 200
        assert server.end() == (0, "")
    assert list(tmp_path.iterdir()) == []


def test_a_request_that_cannot_be_read_is_one_line(server):
    for body in (b"{}", b"[]", b"no json", b'{"output": 3}', b"null"):
        status, text = _status(server, "POST", "/_dash-update-component", body=body)
        assert status == 400, body
        assert text == "The request cannot be read."
    status, text = _status(server, "POST", "/_dash-update-component", body=b" " * 1_000_001)
    assert (status, text) == (413, "The request is too long.")


def test_a_name_is_no_markup(browser, tmp_path):
    name = "</title><script>window.broken = 1</script>{%scripts%}"
    (tmp_path / "named.yaml").write_text(SCENARIO.replace("name: small", f"name: '{name}'"))
    server = Server("named.yaml", cwd=tmp_path)
    page = browser.new_page()
    page.goto(server.address)
    page.wait_for_selector(".knobs .name")
    assert page.locator(".knobs .name").inner_text() == name
    assert page.title() == f"{name}: what if"
    assert page.evaluate("window.broken") is None
    page.close()
    status, written = server.end()
    assert (status, written) == (0, "")


def test_an_old_address_loses_what_no_knob_has(browser, server):
    visit = Visit(browser, f"{server.address}?pinned=gone%3D1%26batch.per_gpu%3D32")
    assert "The pinned run has no gone=1 any more" in visit.text("#warnings")
    assert visit.text("#refusal") == ""
    assert visit.errors == []
    visit.context.close()
