"""A tile of every layer on each GPU: halos in closed form, weights with their tiles, and models without tiles."""

from __future__ import annotations

from collections import Counter

import pytest

from clustersim.errors import InputError
from clustersim.hardware import load_gpu
from clustersim.kernels import OptimizerSpec
from clustersim.kernels.compute_time import ComputeSpec, build_workload
from clustersim.model import Model, load_model
from clustersim.model.builder import Builder, Tensor
from clustersim.parallelism import ModelLayout, Parallelism, TrainingSetup, lay_out
from clustersim.parallelism.historical.halo import Tiles
from clustersim.parallelism.historical.local_fields import tile_pieces
from clustersim.program.ops import Call, Compute, Ready, Receive, Send

BATCH = 16


def stack(height: int, width: int, maps: int = 8, field: int = 9) -> Model:
    """Local fields of `field` x `field`, a pooling over 5 x 5, and the same again."""
    net = Builder("stack", "Two layers of local fields")
    x: Tensor = net.input(3, height, width)
    for number in (1, 2):
        x = net.locally_connected(f"local{number}", x, maps, kernel=field, pad=field // 2, block=4)
        x = net.pool(f"pool{number}", x, 5, 1, pad=2, mean=True)
    net.loss("loss", x)
    return net.model()


def laid_out(model: Model, num_gpus: int, batch: int = BATCH, **keys: object) -> ModelLayout:
    work = build_workload(model, load_gpu("gtx-680"), batch, "fp32", OptimizerSpec(), ComputeSpec())
    layout = Parallelism(kind="local-fields", **keys)
    return lay_out(layout, layout.grid(num_gpus), TrainingSetup(work, OptimizerSpec(), "cudnn", (0.0,), True))


def sent(out: ModelLayout) -> dict[int, float]:
    """Return the bytes that all tiles send before and after each layer, both ways together."""
    total: Counter[int] = Counter()
    for plan in out.plans:
        for op in plan.program.ops():
            if isinstance(op, Send):
                total[op.key.place] += op.num_bytes
    return dict(total)


def seconds(out: ModelLayout) -> list[float]:
    return [sum(plan.program.phase_s().values()) for plan in out.plans]


@pytest.mark.parametrize(("rows", "columns"), [(2, 2), (2, 3), (4, 1)])
def test_halos_have_the_closed_form_of_every_layer(rows: int, columns: int) -> None:
    """2 batch x bytes of a position x ((h + 2 b (rows - 1)) (w + 2 b (columns - 1)) - h w), b = (field - 1) / 2.

    None for the image itself, which every GPU reads with its border.
    """
    found = sent(laid_out(stack(48, 36), rows * columns, tiles=[rows, columns]))
    assert set(found) == {1, 2, 3}
    for layer, field in ((1, 5), (2, 9), (3, 5)):
        more_rows, more_columns = (2 * (field // 2) * (num - 1) for num in (rows, columns))
        positions = (48 + more_rows) * (36 + more_columns) - 48 * 36
        assert found[layer] == 2 * BATCH * 8 * 4.0 * positions


@pytest.mark.parametrize("name", ["local-autoencoder-185m", "resnet50", "inception-v3-aux"])
def test_every_message_is_received_as_it_was_sent(name: str) -> None:
    out = laid_out(load_model(name), 6, batch=2)
    ends: dict[type, Counter[tuple[int, int, object, float]]] = {Send: Counter(), Receive: Counter()}
    for tile, plan in enumerate(out.plans):
        for op in plan.program.ops():
            if isinstance(op, Send):
                ends[Send][tile, op.stage, op.key, op.num_bytes] += 1
            elif isinstance(op, Receive):
                ends[Receive][op.stage, tile, op.key, op.num_bytes] += 1
    assert ends[Send] == ends[Receive]
    assert ends[Send].total() > 0
    assert set(ends[Send].values()) == {1}


def test_gradients_of_a_halo_are_sent_back_to_its_tile() -> None:
    ways: dict[str, Counter[tuple[int, int, int]]] = {"activations": Counter(), "gradients": Counter()}
    for tile, plan in enumerate(laid_out(load_model("local-autoencoder-185m"), 9).plans):
        for op in plan.program.ops():
            if isinstance(op, Send):
                ends = (tile, op.stage) if op.key.what.startswith("act") else (op.stage, tile)
                ways[op.key.what.split()[0]][(*ends, op.key.place)] += op.num_bytes
    assert ways["activations"] == ways["gradients"]


@pytest.mark.parametrize("num_gpus", [4, 6, 25])
def test_tiles_add_up_to_the_layer(num_gpus: int) -> None:
    model = load_model("local-autoencoder-185m")
    parts = laid_out(model, num_gpus).parts
    for number, layer in enumerate(model.layers):
        own = [part.pieces[number].layer for part in parts]
        assert sum(each.flop for each in own) == pytest.approx(layer.flop, rel=1e-12)
        assert sum(each.num_parameters for each in own) == layer.num_parameters
        assert sum(each.output_elements for each in own) == pytest.approx(layer.output_elements, rel=1e-12)


def test_a_tile_smaller_than_the_halo_reads_from_farther_tiles() -> None:
    """Tiles of 2 x 2 with fields of 9 x 9: four positions beyond, which are on the two next tiles each way."""
    rows = tile_pieces(stack(24, 24), Tiles(12, 12), 4.0)
    middle = 6 * 12 + 6
    assert {border.tile for border in rows[middle][2].halos} == {
        row * 12 + column for row in range(4, 9) for column in range(4, 9)
    } - {middle}


def test_separate_weights_are_exchanged_among_replicas_only() -> None:
    out = laid_out(load_model("local-autoencoder-185m"), 8, data=2)
    assert [ranks.tolist() for ranks in out.replicas()] == [[tile, tile + 4] for tile in range(4)]
    sizes = [sum(bucket.num_bytes for bucket in plan.iteration.buckets) for plan in out.plans]
    assert sum(sizes) == 4 * 184_680_000


def test_shared_weights_are_all_reduced_over_all_tiles_of_all_replicas() -> None:
    out = laid_out(load_model("resnet50"), 8, data=2)
    assert [ranks.tolist() for ranks in out.replicas()] == [list(range(8))]
    for plan in out.plans:
        assert sum(bucket.num_bytes for bucket in plan.iteration.buckets) == 4 * 25_557_032
        ready = [op.bucket for op in plan.program.ops() if isinstance(op, Ready)]
        assert ready == list(range(len(plan.iteration.buckets)))


def test_means_are_added_up_and_fully_connected_layers_read_the_whole_image() -> None:
    """ResNet's mean of 2,048 maps; VGG's last 7 x 7 of 512, of which each GPU has its part of what follows alike."""

    def calls(name: str) -> set[tuple[str, str, float]]:
        ops = laid_out(load_model(name), 4).plans[0].program.ops()
        return {(op.op, op.axis, op.num_bytes) for op in ops if isinstance(op, Call)}

    assert calls("resnet50") == {("all-reduce", "tiles", BATCH * 2048 * 4.0)}
    assert calls("vgg16") == {("all-gather", "tiles", BATCH * 512 * 49 * 4.0)}
    parts = laid_out(load_model("vgg16"), 4).parts
    fc = next(number for number, piece in enumerate(parts[0].pieces) if piece.layer.op == "fully-connected")
    assert {part.pieces[fc].layer.num_parameters for part in parts} == {25088 * 4096 + 4096}


@pytest.mark.parametrize("name", ["local-autoencoder-185m", "resnet50"])
def test_one_tile_is_the_whole_model(name: str) -> None:
    work = build_workload(load_model(name), load_gpu("gtx-680"), 8, "fp32", OptimizerSpec(), ComputeSpec())
    out = laid_out(load_model(name), 1, batch=8)
    assert seconds(out)[0] == pytest.approx(work.forward_s + work.backward_s, rel=1e-12)
    assert dict(out.fullest) == pytest.approx(dict(work.memory_bytes), rel=1e-12)


def test_a_gpu_stores_its_tile_of_the_weights_and_the_halos() -> None:
    whole, tiled = laid_out(stack(48, 48), 1).fullest, laid_out(stack(48, 48), 16).fullest
    for what in ("weights", "gradients", "optimizer"):
        assert tiled[what] == whole[what] / 16
    around = [(12 + 4) ** 2 - 12**2, (12 + 8) ** 2 - 12**2, (12 + 4) ** 2 - 12**2]
    assert tiled["borders"] == BATCH * 8 * 4.0 * sum(around)


def test_an_image_that_grows_with_its_tiles_takes_each_gpu_the_same_time() -> None:
    """Except for the halos that poolings read: a few per cent of the bytes that they move."""
    one = seconds(laid_out(stack(48, 48, maps=16), 1))[0]
    for rows, columns in ((2, 2), (3, 2)):
        grown = seconds(laid_out(stack(48 * rows, 48 * columns, maps=16), rows * columns, tiles=[rows, columns]))
        assert max(grown) == pytest.approx(one, rel=0.02)


def test_the_optimizer_updates_the_tile() -> None:
    whole, tiled = (laid_out(stack(48, 48), num).plans[0].iteration.update_s for num in (1, 4))
    assert tiled == pytest.approx(whole / 4, rel=1e-12)


def test_a_layer_waits_for_its_halo() -> None:
    ops = list(laid_out(stack(48, 48), 4).plans[0].program.ops())
    first = next(at for at, op in enumerate(ops) if isinstance(op, Receive))
    before = [op for op in ops[:first] if isinstance(op, Compute)]
    assert [op.name for op in before] == ["local1"]
    after = next(op for op in ops[first:] if isinstance(op, Compute))
    assert after.name == "pool1"


@pytest.mark.parametrize(
    ("num_gpus", "keys", "words", "key"),
    [
        (8, {"tiles": [3, 3]}, r"3 x 3 tiles are not the 8 GPUs; .* tiles: \[2, 4\]", "tiles"),
        (8, {"tiles": [3, 2], "data": 2}, r"not the 4 GPUs of each of 2 replicas; .* tiles: \[2, 2\]", "tiles"),
        (8, {"data": 3}, "3 replicas of the model do not match 8 GPUs", "data"),
    ],
)
def test_a_grid_that_does_not_match_the_gpus_is_refused(
    num_gpus: int, keys: dict[str, object], words: str, key: str
) -> None:
    with pytest.raises(InputError, match=words) as caught:
        laid_out(stack(48, 48), num_gpus, **keys)
    assert caught.value.mistakes[0].key == key


@pytest.mark.parametrize(("num_gpus", "rows", "columns"), [(1, 1, 1), (7, 1, 7), (12, 3, 4), (64, 8, 8)])
def test_the_default_grid_is_the_nearest_to_a_square(num_gpus: int, rows: int, columns: int) -> None:
    assert Parallelism(kind="local-fields").tiles_on(num_gpus) == (rows, columns)


def test_more_tiles_than_positions_are_refused_with_the_nearest_grid() -> None:
    with pytest.raises(
        InputError, match=r"7 x 7 positions of 'layer4.0.conv2'.* tiles: \[4, 4\], with 4 replicas"
    ) as caught:
        laid_out(load_model("resnet50"), 64)
    assert caught.value.mistakes[0].key == "tiles"


def both_kinds_of_weights() -> Model:
    net = Builder("both", "Shared weights before others")
    x = net.conv("shared", net.input(3, 16, 16), 8, kernel=3, pad=1)
    net.loss("loss", net.locally_connected("own", x, 8, kernel=3, pad=1))
    return net.model()


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (load_model("gpt2-small"), "'embedding' does not read images"),
        (load_model("bert-base"), "does not read images"),
        (Model("flat", "flat", load_model("alexnet").layers[-3:]), "no layer of windows"),
        (both_kinds_of_weights(), "'shared' has weights that all positions share"),
    ],
)
def test_a_model_that_cannot_be_tiled_is_refused(model: Model, words: str) -> None:
    with pytest.raises(InputError, match=words) as caught:
        laid_out(model, 4)
    assert caught.value.mistakes[0].key == "kind"
