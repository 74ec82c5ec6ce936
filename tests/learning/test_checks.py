"""What `learning` may ask for: every mistake has its line, its key, what was got and what is allowed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from clustersim.errors import InputError
from clustersim.learning import LearningSpec, TaskData, learning_mistakes
from clustersim.learning.checks import MOST_GRADIENTS
from clustersim.scenario import load_scenario
from tests.learning.scenario import SCENARIO, TRAINS


def spec(**keys: Any) -> LearningSpec:
    return LearningSpec.model_validate_json(json.dumps({"task": "digits", **keys}), strict=True)


@pytest.mark.parametrize(
    ("learning", "key", "says"),
    [
        ({"task": "digits", "batch": 2000}, "learning.batch", "the task has 1,437 samples to draw from"),
        (
            {"task": "digits", "batch": 400, "data": "split"},
            "learning.batch",
            "each of 4 workers has 359 samples to draw from (got a batch of 400); take at most 359",
        ),
        ({"task": "digits", "batch": 360, "data": "by-label"}, "learning.batch", "take at most 359"),
        ({"task": "digits", "target": {"accuracy": 95}}, "learning.target.accuracy", "at most 1 (got 95)"),
        (
            {"task": "digits", "target": {"loss": 1.0, "accuracy": 0.5}},
            "learning.target",
            "give one (got loss and accuracy)",
        ),
        ({"task": "digits", "target": {}}, "learning.target", "give one (got neither)"),
        ({"task": "didgits"}, "learning.task", "did you mean 'digits'?"),
        ({"task": "digits", "evaluate_every": 0}, "learning.evaluate_every", "at least 1 (got 0)"),
        ({"task": "digits", "rate": 0.1}, "learning.rate", "there is no such key here"),
    ],
)
def test_a_mistake_has_its_line_and_its_key(learning: Mapping[str, Any], key: str, says: str, tmp_path: Path) -> None:
    lines = [*(f"{name}: {json.dumps(value)}" for name, value in SCENARIO.items()), f"learning: {json.dumps(learning)}"]
    (tmp_path / "a.yaml").write_text("\n".join(lines))
    with pytest.raises(InputError) as caught:
        load_scenario(tmp_path / "a.yaml")
    (mistake,) = caught.value.mistakes
    assert mistake.file is not None
    assert Path(mistake.file).name == "a.yaml"
    assert (mistake.line, mistake.key) == (len(lines), key)
    assert says in mistake.message
    assert mistake.got is not None
    assert mistake.allowed


def test_the_length_that_is_still_allowed_is_told_and_is_allowed() -> None:
    (mistake,) = learning_mistakes(spec(epochs=1e6, seeds=3), TaskData(1437, True, True), 4)
    assert mistake.key == "learning.epochs"
    assert "269,437,500 gradients over 3 seeds" in mistake.message
    assert mistake.remedy == "epochs: 74200"
    assert "take epochs: 74200 or batch: 216" in mistake.message
    for change in ({"epochs": 74_200.0}, {"epochs": 1e6, "batch": 216}):
        assert not list(learning_mistakes(spec(**{"seeds": 3, **change}), TaskData(1437, True, True), 4))
        assert spec(**{"seeds": 3, **change}).num_updates(1437, 1) * 3 <= MOST_GRADIENTS
    assert list(learning_mistakes(spec(epochs=75_000.0, seeds=3), TaskData(1437, True, True), 4))


def test_a_batch_that_is_refused_is_not_advised_and_fewer_seeds_are() -> None:
    (mistake,) = learning_mistakes(spec(epochs=1e5, seeds=1000), TaskData(1437, True, True), 4)
    assert "take epochs: 222 or seeds: 2" in mistake.message
    assert "batch" not in mistake.message
    assert not list(learning_mistakes(spec(epochs=1e5, seeds=2), TaskData(1437, True, True), 4))
    (split,) = learning_mistakes(spec(epochs=1e6, seeds=3, data="split"), TaskData(1437, True, True), 8)
    assert "batch" not in split.message, "each worker has 179 samples"


def test_tasks_without_classes_have_no_accuracy_and_are_not_sorted() -> None:
    asked = spec(target={"accuracy": 0.9}, data="by-label")
    found = list(learning_mistakes(asked, TaskData(1000, has_labels=False, has_accuracy=False), 2))
    assert [each.key for each in found] == ["learning.target.accuracy", "learning.data"]
    assert [each.allowed for each in found] == ["loss", "shared or split"]
    assert not list(learning_mistakes(asked, TaskData(), 2))


def test_what_is_never_evaluated_is_refused_once_the_updates_are_known() -> None:
    asked = spec(evaluate_every=100)
    assert not list(learning_mistakes(asked, TaskData(1437), 2))
    assert not list(learning_mistakes(asked, TaskData(1437), 2, num_updates=100))
    (mistake,) = learning_mistakes(asked, TaskData(1437), 2, num_updates=99)
    assert (mistake.key, mistake.got, mistake.allowed) == ("learning.evaluate_every", "100", "at most 99")


def test_more_workers_than_samples_cannot_split_them() -> None:
    (mistake,) = learning_mistakes(spec(data="split", batch=1), TaskData(10), 11)
    assert (mistake.key, mistake.allowed) == ("learning.data", "shared")


def test_keys_of_learning_are_axes_as_any_other() -> None:
    learning = {"task": {"kind": "digits", "hidden": [16, 32]}, "optimizer": {"rate": [0.05, 0.1]}}
    loaded = load_scenario({**SCENARIO, "learning": learning})
    assert list(loaded.axes) == ["learning.task.hidden", "learning.optimizer.rate"]
    rates = [point.learning.optimizer.rate for _, point in loaded.points() if point.learning is not None]
    assert rates == [0.05, 0.1] * 2


def test_a_wrong_training_hides_no_other_mistake() -> None:
    with pytest.raises(InputError) as caught:
        load_scenario({**TRAINS, "num_gpus": 0, "learning": {"task": "digits", "epochs": -1}})
    assert [each.key for each in caught.value.mistakes] == ["num_gpus", "learning.epochs"]


def test_jobs_on_one_cluster_train_one_task() -> None:
    assert load_scenario({**TRAINS, "strategy": {"kind": "all-reduce"}, "jobs": [{}, {"name": "other"}]}).points()
    with pytest.raises(InputError, match="jobs on one cluster share 'learning'"):
        load_scenario({**SCENARIO, "jobs": [{}, {"learning": {"task": "digits"}}]})
