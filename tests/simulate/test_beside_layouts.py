"""What goes beside a layout, along its copies: laws that hold it to plain training, and one way of playing to another.

A layout of one stage with all layers of a model is plain training in other words, which is played by a crew.
"""

from __future__ import annotations

from typing import Any

import pytest

import clustersim
from clustersim.errors import InputError
from clustersim.scenario import load_scenario
from clustersim.simulate.forecast import forecast
from clustersim.workload import COMPRESSIONS, load_model

STAR = {"kind": "star", "num_hosts": 8, "gpu": "p100", "link": "10 Gbit/s", "hop": "1 us"}
DGX = {"kind": "star", "num_hosts": 2, "host": "dgx-a100", "link": "infiniband-hdr", "hop": "1 us"}
ONE_STAGE = {"stages": [len(load_model("squeezenet-1.0").layers)]}
KINDS: dict[str, dict[str, Any]] = {
    "fp16": {},
    "int8": {"group": 512},
    "one-bit": {"group": 512},
    "top-k": {"density": 0.01},
}


def scenario(**other: Any) -> dict[str, Any]:
    return {
        "model": "squeezenet-1.0",
        "num_gpus": 4,
        "batch": {"per_gpu": 8},
        "topology": STAR,
        "transport": "nccl",
        "strategy": {"kind": "all-reduce"},
        "num_iterations": 3,
        **other,
    }


def language(layout: dict[str, Any], num_gpus: int = 16, **other: Any) -> dict[str, Any]:
    """A small language model over hosts of eight."""
    return scenario(
        model="gpt-4x512x8-seq256", num_gpus=num_gpus, topology=DGX, batch={"global": 32}, parallelism=layout, **other
    )


def compressed(kind: str) -> dict[str, Any]:
    return {"kind": kind, **KINDS[kind]}


def assert_alike(one: Any, other: Any) -> None:
    assert one.iteration_s == pytest.approx(other.iteration_s, rel=1e-9)
    for part, seconds in other.breakdown_s.items():
        assert one.breakdown_s[part] == pytest.approx(seconds, rel=1e-9, abs=1e-9 * other.iteration_s)
    for links, others in zip(one.link_classes, other.link_classes, strict=True):
        assert links.num_bytes == pytest.approx(others.num_bytes, rel=1e-9)


def both(asked: dict[str, Any]) -> tuple[Any, Any]:
    """Return what is forecast with shortcuts and without."""
    point = load_scenario(asked).points()[0].point
    return forecast(point), forecast(point, exact=True)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "strategy",
    [{"kind": "all-reduce"}, {"kind": "all-reduce", "overlap": False}, {"kind": "server", "servers": {"num": 2}}],
)
def test_one_stage_compresses_as_plain_training_does(kind: str, strategy: dict[str, Any]) -> None:
    asked = scenario(strategy=strategy, compression=compressed(kind))
    plain, laid_out = clustersim.simulate(asked), clustersim.simulate({**asked, "parallelism": ONE_STAGE})
    assert_alike(laid_out, plain)
    assert laid_out.memory_parts == pytest.approx(plain.memory_parts)
    assert laid_out.buckets == plain.buckets


@pytest.mark.parametrize("kind", KINDS)
def test_compressed_gradients_of_ranks_played_as_one_are_those_of_each(kind: str) -> None:
    asked = language({"tensor": 2, "pipeline": 2, "micro_batches": 4}, compression=compressed(kind))
    folded, exact = both(asked)
    assert any("played as one" in shortcut for shortcut in folded.shortcuts)
    assert_alike(folded.run, exact.run)


def test_each_stage_gathers_the_gradients_of_its_own_part() -> None:
    """Of 4 copies each sends its compressed part to 3 others, over all stages the whole model's."""
    asked = scenario(num_gpus=8, parallelism={"pipeline": 2, "micro_batches": 2}, strategy={"kind": "all-reduce"})
    runs = [clustersim.simulate({**asked, "compression": kind}) for kind in ("none", compressed("int8"))]
    plain, small = (next(each.num_bytes for each in run.link_classes if each.kind == "access") / 2 for run in runs)
    gradients = load_model("squeezenet-1.0").num_parameters
    saved = gradients * (2 * 3 * 4 - 4 * 3 * (1 + 4 / 512))
    assert plain - small == pytest.approx(saved, rel=1e-9)


def test_a_gradient_of_two_bytes_is_sent_as_it_is() -> None:
    asked = language({"tensor": 2, "pipeline": 2, "micro_batches": 2}, precision="fp16", memory_check=False)
    plain, short = (clustersim.simulate({**asked, "compression": kind}) for kind in ("none", "fp16"))
    assert short.iteration_s == plain.iteration_s


@pytest.mark.parametrize("kind", ["one-weird-trick", "local-fields", "paths"])
def test_other_layouts_compress_what_copies_exchange(kind: str) -> None:
    model = {"one-weird-trick": "alexnet", "local-fields": "squeezenet-1.0", "paths": "googlenet"}[kind]
    layout = {"kind": kind} if kind == "one-weird-trick" else {"kind": kind, "data": 2}
    asked = scenario(model=model, parallelism=layout, compression=compressed("int8"))
    assert both(asked)[0].run.iteration_s == pytest.approx(both(asked)[1].run.iteration_s, rel=1e-9)
    sent = [sum(size for _, size, _ in clustersim.simulate({**asked, "compression": each}).buckets) for each in
            ("none", compressed("int8"))]  # fmt: skip
    assert sent[1] / sent[0] == pytest.approx(COMPRESSIONS["int8"].model_validate({"kind": "int8"}).wire_bytes(4) / 4)


@pytest.mark.parametrize(
    ("layout", "added", "key", "words"),
    [
        ({"sharding": "zero-1"}, {"compression": "fp16"}, "sharding", "with zero-1 copies add up gradients in shares"),
        (
            {"pipeline": 2, "schedule": "pipedream"},
            {"compression": "fp16"},
            "schedule",
            "the gradients of every micro-batch",
        ),
    ],
)
def test_what_does_not_go_beside_a_layout_is_told(layout, added, key: str, words: str) -> None:
    with pytest.raises(InputError) as told:
        clustersim.simulate(scenario(parallelism=layout, **added))
    assert told.value.mistakes[0].key == f"parallelism.{key}"
    assert words in told.value.mistakes[0].message


def test_experts_are_not_compressed() -> None:
    with pytest.raises(InputError, match="gradients of experts are added up") as told:
        clustersim.simulate(
            scenario(model="mixtral-8x7b", parallelism={"expert": 4}, compression="fp16", memory_check=False)
        )
    assert told.value.mistakes[0].key == "parallelism.expert"
