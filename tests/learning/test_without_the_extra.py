"""Without torch: training is refused before anything is simulated, and all else works."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import clustersim
from clustersim.cli import main
from clustersim.errors import InputError, NotInstalledError
from clustersim.learning.tasks import Digits
from clustersim.results.files import to_json
from clustersim.scenario import load_scenario
from clustersim.sweep.batch import Packed, do_batch, unpacked
from clustersim.sweep.executor import InProcess
from clustersim.sweep.ledger import SweepLedger, fill
from clustersim.sweep.task import PointTask, forecast_point
from tests.learning.scenario import SCENARIO, TRAINS

HOW = "pip install 'clustersim[learning]'"
pytestmark = pytest.mark.usefixtures("no_torch")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("trains.json").write_text(json.dumps(TRAINS))
    Path("several.json").write_text(json.dumps({**TRAINS, "num_gpus": [2, 4]}))
    return tmp_path


@pytest.mark.parametrize("command", ["run", "sweep"])
@pytest.mark.parametrize("scenario", ["trains.json", "several.json"])
def test_a_command_says_how_to_install_it_before_anything_is_simulated(
    command: str,
    scenario: str,
    folder: Path,
    trains_nothing: Callable[[], None],
    capsys: pytest.CaptureFixture[str],
) -> None:
    trains_nothing()
    assert main([command, scenario, "-q"]) == 3
    error = capsys.readouterr().err
    assert HOW in error
    assert "--no-learn" in error
    assert error.startswith(f"{scenario}:1:")
    assert "learning.task: training the task 'digits' needs torch" in error
    assert [path.name for path in folder.iterdir() if path.suffix != ".json"] == []


def test_the_task_may_be_that_of_one_point_alone(folder: Path, trains_nothing: Callable[[], None]) -> None:
    trains_nothing()
    cases = [{"case": "plain", "num_gpus": 2}, {"case": "trained", "learning": {"task": "digits"}}]
    Path("cases.json").write_text(json.dumps({**SCENARIO, "cases": cases}))
    assert main(["run", "cases.json", "-q"]) == 3


@pytest.mark.parametrize("options", [[], ["--ledger", "a.db", "--on", "in-process"]], ids=["run", "sweep"])
def test_no_learn_forecasts_the_same_as_without_the_key(
    options: list[str], folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("plain.json").write_text(json.dumps({**SCENARIO, "num_gpus": [2, 4]}))
    command, texts = "sweep" if options else "run", []
    for name, more in (("several.json", ["--no-learn"]), ("plain.json", [])):
        assert (
            main([command, name, "--json", "-q", *more, *(text.replace("a.db", f"{name}.db") for text in options)]) == 0
        )
        document = json.loads(capsys.readouterr().out)
        assert ("learning" in document["scenario"]) == bool(more)
        for key in ("scenario", "scenario_text"):
            del document[key]
        texts.append(to_json(document))
    assert texts[0] == texts[1]


def test_python_raises_an_input_error(trains_nothing: Callable[[], None]) -> None:
    trains_nothing()
    for call in (clustersim.simulate, clustersim.sweep):
        with pytest.raises(InputError, match=r"needs torch") as caught:
            call(TRAINS)
        assert HOW in str(caught.value)
        assert caught.value.mistakes[0].key == "learning.task"


def test_python_forecasts_without_training() -> None:
    run = clustersim.simulate(TRAINS, learns=False)
    assert run.learning is None
    assert run == clustersim.simulate(SCENARIO)
    assert clustersim.sweep(TRAINS, learns=False).runs == (run,)


def test_a_worker_without_torch_is_named() -> None:
    (tree,) = load_scenario(TRAINS).trees()
    done = unpacked(do_batch(*Packed.of(forecast_point, [PointTask(tree)])))
    assert isinstance(done.error, NotInstalledError)
    assert "the worker " in str(done.error)
    assert HOW in str(done.error)
    assert done.error.exit_status == 3


def test_what_a_task_needs_beside_torch_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Digits, "missing", lambda task: ["scikit-learn"])
    with pytest.raises(InputError, match="needs torch and scikit-learn: pip install"):
        clustersim.simulate(TRAINS)


def test_a_point_without_training_is_that_of_the_scenario_without_the_key(tmp_path: Path) -> None:
    options: dict[str, Any] = {"learns": False}
    with SweepLedger.open(tmp_path / "a.db") as ledger:
        fill(ledger, load_scenario(TRAINS), InProcess(), **options)
        assert fill(ledger, load_scenario(SCENARIO), InProcess()).counts().done == 1
        assert ledger.store.execute("SELECT count(*) FROM forecasts").fetchone() == (1,)
        trained = ledger.begin(load_scenario(TRAINS))
        assert trained.counts().left == 1
        assert ledger.begin(load_scenario(TRAINS), learns=False).counts().done == 1
        assert len(ledger.sweeps()) == 3


_WITHOUT = """
import resource, sys
from importlib import import_module
import_module("clustersim.learning.train").find_spec = lambda name: None
from clustersim.cli import main
status = main(sys.argv[1:])
print("torch" in sys.modules, resource.getrusage(resource.RUSAGE_SELF).ru_utime, file=sys.stderr)
sys.exit(status)
"""


def test_the_answer_comes_without_importing_torch(folder: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _WITHOUT, "run", "trains.json"],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 3
    assert HOW in done.stderr
    assert done.stderr.splitlines()[-1].startswith("False ")


@pytest.mark.parametrize(
    ("command", "what"),
    [
        (["why", "trains.json", "--no-upgrades", "-q"], "`clustersim why`"),
        (["diff", "trains.json", "--a", "num_gpus=2", "--b", "num_gpus=4", "-q"], "a comparison"),
        (["plan", "trains.json", "--gpus", "2", "--set", "strategy={kind: all-reduce}", "--no-report", "-q"], "a plan"),
    ],
)
def test_commands_that_train_nothing_say_so_and_go_on(
    command: list[str],
    what: str,
    folder: Path,
    trains_nothing: Callable[[], None],
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(command) == 0
    error = capsys.readouterr().err
    assert f"note: {what} trains nothing; `clustersim run` trains what `learning` says" in error


def test_a_page_of_what_if_trains_nothing(trains_nothing: Callable[[], None]) -> None:
    from clustersim.what_if import WhatIf

    study = WhatIf(TRAINS)
    found = study.evaluate({})
    assert found.sweep is not None
    assert found.sweep.runs[-1].learning is None
