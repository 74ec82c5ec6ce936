"""A wrong layout or cluster adds no false second mistake to keys that depend on it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from clustersim.errors import InputError, Mistake
from clustersim.scenario import load_scenario

Mistakes = Callable[..., list[Mistake]]

UNKNOWN_HOST = "topology: {kind: star, num_hosts: 8, link: 10 Gbit/s, host: {template: dgx-h1000, gpu: h100}}"


@pytest.mark.parametrize(
    ("overrides", "key", "words"),
    [
        (["software.contex_method=ring"], "software.contex_method", "did you mean 'context_method'?"),
        (["parallelism.context=3"], "parallelism.context", "the nearest that does is context: 2"),
        (["parallelism.context=3", "parallelism.sharding=nonsense"], "parallelism.sharding", "(got 'nonsense')"),
        (
            ["software=plain", "parallelism={tensor: 3, pipeline: 1}", "num_gpus=15"],
            "parallelism.micro_batches",
            "does not divide over 5 replicas of the model with 1 micro-batch each; the nearest batch that does is 5",
        ),
        (
            ["software=plain", "parallelism={tensor: 32, micro_batches: 3}"],
            "parallelism.micro_batches",
            "does not divide over 1 replica of the model with 3 micro-batches each",
        ),
    ],
)
def test_a_batch_is_not_checked_with_a_wrong_layout(overrides: list[str], key: str, words: str) -> None:
    with pytest.raises(InputError) as caught:
        load_scenario("long-context", overrides)
    (mistake,) = caught.value.mistakes
    assert mistake.key == key
    assert words in mistake.message


@pytest.mark.parametrize("layout", ["{tensor: 2, pipelin: 1}", "{tensor: 3}"])
def test_workers_are_not_checked_with_a_wrong_layout(mistakes: Mistakes, layout: str) -> None:
    (mistake,) = mistakes(f"strategy: {{kind: backup, backups: 4}}\nparallelism: {layout}")
    assert str(mistake.key).startswith("parallelism.")


def test_workers_are_checked_with_a_valid_layout(mistakes: Mistakes) -> None:
    (mistake,) = mistakes("strategy: {kind: backup, backups: 2}\nparallelism: {tensor: 2}")
    assert mistake.key == "strategy.backups"


@pytest.mark.parametrize(
    "added",
    [
        "parallelism: {offload: optimizer}",
        "jobs: 2",
        "strategy: {kind: server, servers: {num: 2, on: own-hosts}}",
        "failures: {gpu: {mtbf: 1000 h}, checkpoint: {host: 3}}",
    ],
)
def test_hosts_are_not_checked_with_an_unknown_template(mistakes: Mistakes, added: str) -> None:
    (mistake,) = mistakes(f"num_gpus: 1\n{UNKNOWN_HOST}\n{added}")
    assert mistake.key == "topology.host"
    assert "did you mean 'dgx-h100'?" in mistake.message


def test_mistakes_that_do_not_depend_on_a_wrong_key_are_reported_too(mistakes: Mistakes) -> None:
    beside = "model: alexnte\nnum_gpus: 0\ntransport: ncl"
    assert {each.key for each in mistakes(f"{beside}\ntopology: titn")} == {
        "model",
        "num_gpus",
        "transport",
        "topology",
    }
    wrong = mistakes("model: alexnte\nnum_gpus: 9\ntransport: ncl\nparallelism: {tensr: 2}")
    assert {each.key for each in wrong} == {"model", "num_gpus", "transport", "parallelism.tensr"}


def test_an_unreadable_profile_is_not_a_mistake_of_the_model(mistakes: Mistakes) -> None:
    (mistake,) = mistakes("num_gpus: 4\nparallelism: {tensor: 4}\ncompute: {profile: gone.json}")
    assert mistake.key == "compute.profile"
