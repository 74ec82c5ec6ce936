"""Simulated tiles of every layer: closed forms, laws, and layouts that are refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import clustersim
from clustersim.errors import InputError
from clustersim.model.builder import Builder
from clustersim.model.write_workload import write_workload_file
from clustersim.program.ops import Send
from clustersim.scenario import load_scenario
from clustersim.simulate.forecast import forecast
from clustersim.simulate.setup import Setup

STAR = {"kind": "star", "num_hosts": 9, "host": {"gpu": "gtx-680"}, "link": "6 GB/s", "hop": "1 ns"}
IDEAL = {**STAR, "link": "1000 GB/s"}
BATCH, MAPS = 16, 8
COTS = "local-autoencoder-185m"


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Callable[[int, int], str]:
    """A workload file of local fields of 9 x 9 and a pooling over 5 x 5, twice, by height and width of the image."""
    folder: Path = tmp_path_factory.mktemp("stack")

    def written(height: int, width: int) -> str:
        net = Builder("stack", "Two layers of local fields")
        x = net.input(3, height, width)
        for number in (1, 2):
            x = net.locally_connected(f"local{number}", x, MAPS, kernel=9, pad=4, block=4)
            x = net.pool(f"pool{number}", x, 5, 1, pad=2, mean=True)
        net.loss("loss", x)
        return str(write_workload_file(net.model(), folder / f"{height}x{width}.yaml"))

    return written


def tiled(model: str, num_gpus: int, parallelism: dict[str, Any] | None = None, **other: Any) -> dict[str, Any]:
    return {
        "model": model,
        "num_gpus": num_gpus,
        "batch": {"global": BATCH},
        "topology": STAR,
        "software": {"name": "plain", "launch": "graphs"},
        "strategy": {"kind": "all-reduce"},
        "parallelism": {"kind": "local-fields", **(parallelism or {})},
        "num_iterations": 2,
        "compute": {"variability": 0},
        "memory_check": False,
        **other,
    }


def sent_bytes(run: clustersim.Run) -> float:
    """Return the bytes that leave hosts in an iteration; each goes up one host's link and down another's."""
    return sum(kind.num_bytes for kind in run.link_classes if kind.kind == "access") / 2


@pytest.mark.parametrize("model", [COTS, "resnet50"])
def test_one_tile_is_plain_training(model: str) -> None:
    asked = tiled(model, 1, software="plain", compute={})
    plain = clustersim.simulate({**asked, "parallelism": {}})
    assert clustersim.simulate(asked).iteration_s == pytest.approx(plain.iteration_s, rel=1e-12)


@pytest.mark.parametrize(("rows", "columns"), [(2, 2), (2, 3), (1, 4)])
def test_links_carry_the_borders_of_the_closed_form_and_nothing_else(stack, rows: int, columns: int) -> None:
    """Of poolings over 5 x 5 and fields of 9 x 9 on 48 x 36 positions of 8 maps, there and back."""
    positions = [(48 + 2 * border * (rows - 1)) * (36 + 2 * border * (columns - 1)) - 48 * 36 for border in (2, 4, 2)]
    run = clustersim.simulate(tiled(stack(48, 36), rows * columns, {"tiles": [rows, columns]}))
    assert sent_bytes(run) == pytest.approx(2 * BATCH * MAPS * 4.0 * sum(positions), rel=1e-9)


def test_copies_of_a_tile_add_their_gradients_up(stack) -> None:
    """Two copies of four tiles: each copy's borders for half of the batch, and each tile's gradients twice over."""
    alone = sent_bytes(clustersim.simulate(tiled(stack(48, 48), 4)))
    parameters = 2 * 48 * 48 * MAPS * 9 * 9 * (3 + MAPS) / 2
    run = clustersim.simulate(tiled(stack(48, 48), 8, {"data": 2}))
    assert sent_bytes(run) == pytest.approx(alone + 2 * parameters * 4.0, rel=1e-9)


def test_convolutions_add_their_gradients_up_over_all_tiles() -> None:
    """ResNet-18's borders, its mean of 512 maps, and all its gradients: a ring of n sends 2 (n - 1) times a buffer."""
    asked = tiled("resnet18", 4, strategy={"kind": "all-reduce", "algorithm": "ring"})
    point = load_scenario(asked).points()[0].point
    laid_out = Setup(point).laid_out
    assert laid_out is not None
    sends = (op for plan in laid_out.plans for op in plan.program.ops() if isinstance(op, Send))
    borders = sum(op.num_bytes for op in sends)
    summed = 11_689_512 * 4.0 + BATCH * 512 * 4.0
    assert sent_bytes(forecast(point).run) == pytest.approx(borders + 2 * 3 * summed, rel=1e-9)


def test_an_image_that_grows_with_its_tiles_is_trained_as_fast_on_an_ideal_network(stack) -> None:
    one = clustersim.simulate(tiled(stack(48, 48), 1, topology=IDEAL)).iteration_s
    for rows, columns in ((2, 2), (3, 3)):
        model = stack(48 * rows, 48 * columns)
        run = clustersim.simulate(tiled(model, rows * columns, {"tiles": [rows, columns]}, topology=IDEAL))
        assert one <= run.iteration_s <= 1.03 * one


def test_nothing_is_computed_while_borders_are_on_their_way(stack) -> None:
    """All tiles of 2 x 2 being corners, each takes what is around it twice; half the rate takes as long again."""
    faster, slower = (
        clustersim.simulate(tiled(stack(48, 48), 4, topology={**STAR, "link": link})) for link in ("2 GB/s", "1 GB/s")
    )
    around = sum((24 + border) ** 2 - 24**2 for border in (2, 4, 2))
    taken_s = 2 * BATCH * MAPS * 4.0 * around / 2e9
    assert slower.iteration_s - faster.iteration_s == pytest.approx(taken_s, rel=1e-6)


@pytest.mark.parametrize(
    ("model", "num_gpus", "layout", "transport"),
    [(COTS, 6, {}, "mpi-cuda"), (COTS, 8, {"data": 2}, "nccl"), ("resnet18", 8, {"tiles": [2, 2]}, "nccl")],
)
def test_shortcuts_change_nothing(model: str, num_gpus: int, layout: dict[str, Any], transport: str) -> None:
    asked = tiled(model, num_gpus, layout, topology="cots-hpc", transport=transport, software="plain", compute={})
    quick, exact = (forecast(load_scenario(asked).points()[0].point, exact=exact) for exact in (False, True))
    assert quick.run.iteration_s == pytest.approx(exact.run.iteration_s, rel=1e-9)
    for part, seconds in exact.run.breakdown_s.items():
        assert quick.run.breakdown_s[part] == pytest.approx(seconds, rel=1e-9, abs=1e-9 * exact.run.iteration_s)


def test_a_slow_gpu_is_waited_for_by_those_around_it(stack) -> None:
    slow = [{"kind": "constant", "factor": 2, "of": [0]}]
    even, uneven = (
        clustersim.simulate(tiled(stack(48, 48), 4, stragglers=stragglers)).iteration_s for stragglers in ([], slow)
    )
    assert 1.8 * even < uneven <= 2 * even


def test_a_network_that_fits_no_gpu_fits_its_tiles() -> None:
    asked = tiled("local-autoencoder-680m", 4, batch={"global": 96}, topology="cots-hpc", memory_check=True)
    assert clustersim.simulate(asked).memory_bytes < 4 * 2**30
    with pytest.raises(InputError, match="one gtx-680 holds"):
        clustersim.simulate({**asked, "num_gpus": 1})


@pytest.mark.parametrize(
    ("layout", "other", "key", "words"),
    [
        ({"tiles": [3, 3]}, {}, "parallelism.tiles", "3 x 3 tiles are not the 4 GPUs"),
        ({"tensor": 2}, {}, "parallelism.tensor", "determines the layout over all GPUs"),
        ({"scheme": "gathered"}, {}, "parallelism.scheme", "is for kind: one-weird-trick"),
        ({"kind": "grid", "tiles": [2, 2]}, {}, "parallelism.tiles", "is for kind: local-fields"),
        ({}, {"strategy": {"kind": "local", "steps": 2}}, "parallelism.kind", "borders that tiles exchange"),
        ({}, {"model": "gpt2-small"}, "parallelism.kind", "cannot be divided into tiles"),
        ({"data": 3}, {"num_gpus": 9}, "parallelism.micro_batches", "does not divide over 3 replicas"),
    ],
)
def test_models_that_cannot_be_tiled_are_refused(layout, other: dict[str, Any], key: str, words: str) -> None:
    with pytest.raises(InputError) as error:
        clustersim.simulate({**tiled(COTS, 4, layout), **other})
    assert error.value.mistakes[0].key == key
    assert words in error.value.mistakes[0].message
