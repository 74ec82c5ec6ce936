"""Cases anchored on their smallest configuration: which figure is the anchor, and what is scored."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from clustersim.cli import main
from clustersim.errors import InputError
from clustersim.model.layer import Anchoring
from clustersim.scenario import load_scenario
from clustersim.simulate import forecast
from clustersim.validation import validate
from clustersim.validation.anchored import validate_anchored
from clustersim.validation.anchored_text import anchored_text
from clustersim.validation.markdown import validation_page

HEADER = "scenario,num_gpus,batch.per_gpu,metric,value,unit,role,provenance,where\n"
TRUTH = Anchoring(1.25)


def without_rate(folder: Path) -> Path:
    """Take the rate of one GPU out of a case, so that nothing else calibrates it."""
    path = folder / "scenario.yaml"
    lines = [line for line in path.read_text().splitlines() if "single_gpu" not in line]
    path.write_text("\n".join(lines) + "\ncompute: {kernels: law, variability: 0}\nprecision: fp16\n")
    return folder


def figure(folder: Path, num_gpus: int, batch: int) -> float:
    """Return the samples per second of a cluster whose kernels take 1.25 times as long as estimated."""
    overrides = [f"num_gpus={num_gpus}", f"batch.per_gpu={batch}"]
    (point,) = load_scenario(folder / "scenario.yaml", overrides).points()
    return forecast(point.point.anchored(TRUTH)).run.samples_per_s


@pytest.fixture
def case(make_case) -> Path:
    """Return a case of a slower cluster, with two figures of two GPUs and two of four."""
    folder = without_rate(make_case())
    rows = [
        f"scenario,{num},{batch},samples_per_s,{figure(folder, num, batch)!r},images/s,prediction,read,made up"
        for num, batch in ((4, 32), (2, 32), (2, 16), (4, 16))
    ]
    rows.append("scenario,4,16,samples_per_s,1,images/s,prediction,recalled,a talk")
    (folder / "measured.csv").write_text(HEADER + "\n".join(rows) + "\n")
    return folder


def test_the_smallest_configuration_predicts_the_rest(case: Path) -> None:
    verdict = validate_anchored([str(case)], workers=1)
    (group,) = verdict.groups
    assert (group.num_gpus, group.global_batch, group.line) == (2, 32, 4)
    assert group.factor == pytest.approx(1.25, rel=1e-6)
    assert [each.line for each in group.figures] == [2, 3, 5]  # neither the anchor nor what was only recalled
    assert group.errors() == pytest.approx([0.0] * 3, abs=1e-6)
    assert min(group.errors(anchored=False)) > 0.1
    assert verdict.summary().num_points == verdict.summary(several_sizes=True).num_points == 3
    assert verdict.summary(is_calibrated=True).num_points == 0


def test_a_case_with_a_rate_of_one_gpu_is_listed_apart(make_case) -> None:
    rows = ["scenario,1,32,samples_per_s,320,images/s,calibration,read,a",
            "scenario,4,32,samples_per_s,1100,images/s,prediction,read,a"]  # fmt: skip
    verdict = validate_anchored([str(make_case(HEADER + "\n".join(rows)))], workers=1)
    (group,) = verdict.groups
    assert group.is_calibrated
    assert group.factor == pytest.approx(1.0, abs=1e-6)
    assert verdict.summary().num_points == 0
    assert verdict.summary(is_calibrated=True).num_points == 1
    assert "calibrated already" in anchored_text(verdict)


def test_a_figure_of_another_model_or_precision_is_no_anchor(case: Path) -> None:
    header = HEADER.replace("batch.per_gpu", "precision,model,batch.per_gpu")
    others = (("fp16", "squeezenet-1.0"), ("fp32", "squeezenet-1.0"), ("fp16", "alexnet"))
    rows = [
        f"scenario,2,{precision},{model},32,samples_per_s,500,images/s,prediction,read,a" for precision, model in others
    ]
    (case / "measured.csv").write_text(header + "\n".join(rows))
    assert validate_anchored([str(case)], workers=1).groups == ()


def test_a_figure_that_no_factor_reaches_is_listed(case: Path) -> None:
    text = (case / "measured.csv").read_text().splitlines()
    text[3] = text[3].replace(text[3].split(",")[4], "3")
    (case / "measured.csv").write_text("\n".join(text))
    verdict = validate_anchored([str(case)], workers=1)
    assert verdict.groups == ()
    assert "5 times slower than estimated" in verdict.skipped[0].reason


def test_text_json_and_page(case: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["validate", str(case), "--anchored", "--workers", "1", "-q"]) == 0
    assert "anchored, groups of several sizes: 3 points, median error 0.0%" in capsys.readouterr().out
    assert main(["validate", str(case), "--anchored", "--json", "--workers", "1", "-q", "--max-error", "1%"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["schema"] == "clustersim.anchored/1"
    assert document["summary"]["num_points"] == 3
    page = tmp_path / "page.md"
    assert main(["validate", str(case), "--anchored", "--markdown", str(page), "--workers", "1", "-q"]) == 0
    text = page.read_text()
    assert "## With one measured run as an anchor" in text
    assert "### Nothing else calibrates" in text
    assert "## With one measured run" not in validation_page(validate([str(case)], workers=1))
    assert main(["validate", "--anchored", "--real", "x.json"]) == 2


def test_an_unknown_case_is_refused() -> None:
    with pytest.raises(InputError, match="no case is called"):
        validate_anchored(["nothing"])
