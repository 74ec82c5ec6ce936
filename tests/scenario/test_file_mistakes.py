"""Which mistakes are the file's: told before any point, also where a wrong point is a row."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from clustersim.errors import InputError, Mistake
from clustersim.scenario import Scenario, load_scenario

Read = Callable[[str], Scenario]


@pytest.fixture
def read(tmp_path: Path, varied: Callable[[str], str]) -> Read:
    """Load a variation of the small scenario, wrong points and all."""

    def loaded(added: str) -> Scenario:
        path = tmp_path / "small.yaml"
        path.write_text(varied(added), encoding="utf-8")
        return load_scenario(path, strict=False)

    return loaded


def mistakes_of(read: Read, added: str) -> list[Mistake]:
    with pytest.raises(InputError) as caught:
        read(added)
    return list(caught.value.mistakes)


STAR = "topology: {{kind: star, num_hosts: 8, link: {link}, hop: 1 us, host: {{gpu: {gpu}}}}}"


@pytest.mark.parametrize(
    ("added", "key", "words"),
    [
        ("colour: red\nnum_gpus: [1, 2]", "colour", "there is no such key here"),
        ("num_gpus: [1, 2]\nseed: x", "seed", "expected a whole number"),
        ("num_gpus: [4, 0, 2]", "num_gpus", "expected a number of at least 1 (got 0)"),
        ("model: [alexnet, alexnt]", "model", "no model is called 'alexnt'"),
        (STAR.format(link="[1 Gbit/s, 2 Gb/s]", gpu="k80"), "topology.link", "expected a rate"),
        (STAR.format(link="1 Gbit/s", gpu="[k80, k8]"), "topology.host.gpu", "no GPU is called 'k8'"),
        ("topology: [titan, titam]", "topology", "titam"),
        ("strategy: {kind: all-reduce, algorithm: [ring, rng]}", "strategy.algorithm", "'rng'"),
        ("compute: {profile: [nowhere.json]}", "compute.profile", "nowhere.json"),
        ("measured: [{num_gpus: 4}]\nnum_gpus: [1, 2]", "measured.0", "samples_per_s"),
    ],
)
def test_a_key_or_a_value_that_is_never_valid_is_the_files(read: Read, added: str, key: str, words: str) -> None:
    (mistake,) = mistakes_of(read, added)
    assert mistake.key == key
    assert words in mistake.message
    assert mistake.line is not None


@pytest.mark.parametrize(
    ("added", "valid"),
    [
        ("num_gpus: [4, 9]", [True, False]),  # more GPUs than the cluster has
        ("num_gpus: [4, 3]\nbatch: {global: 8}", [True, False]),  # a batch that does not divide
        ("num_gpus: [3]\nbatch: {global: 8}", [False]),  # no point is right, and none says so before it is run
        ("batch: {per_gpu: [8, 1000000]}", [True, False]),  # does not fit
        ("strategy: {kind: [all-reduce, server]}\nparallelism: {sharding: zero-1}\nsoftware: null", [True, False]),
    ],
)
def test_what_keys_are_together_is_the_points(read: Read, added: str, valid: list[bool]) -> None:
    trees = read(added).trees()
    found = []
    for tree in trees:
        try:
            tree.point()
        except InputError:
            found.append(False)
        else:
            found.append(True)
    assert found == valid


def test_a_value_that_only_some_values_of_another_axis_refuse_is_the_points(read: Read) -> None:
    torus = "topology: {kind: torus, injection: 1 Gbit/s, gpu: k80}"
    links = "[[1 Gbit/s, 2 Gbit/s], [1 Gbit/s, 2 Gbit/s, 3 Gbit/s]]"
    trees = read(f"{torus}\nsweep: {{grid: {{topology.dims: [[4, 4], [2, 2, 4]], topology.link: {links}}}}}").trees()
    assert len(trees) == 4
    for number in (0, 3):
        trees[number].point()
    for number in (1, 2):
        with pytest.raises(InputError, match=r"topology\.link"):
            trees[number].point()


def test_all_wrong_values_are_told_at_once_each_with_its_value(read: Read) -> None:
    found = mistakes_of(read, "num_gpus: [1, x, 0]\nseed: [1, -1]\nmodel: [alexnet, nonet]")
    assert {(each.key, each.got) for each in found} == {
        ("model", "nonet"),
        ("num_gpus", "'x'"),
        ("num_gpus", "0"),
        ("seed", "-1"),
    }
    assert all("(at" not in each.message for each in found), "each stands at its value"


def test_a_mistake_without_a_place_names_the_value_alone(varied: Callable[[str], str]) -> None:
    from clustersim.reading.yaml_reader import read_yaml

    raw = read_yaml(varied("num_gpus: [1, 2]\nseed: [1, 2, 3]\nmodel: [alexnet, nonet]"), None)[0].plain()
    with pytest.raises(InputError) as caught:
        load_scenario(raw, strict=False)
    assert str(caught.value).endswith("(at model nonet)")


MANY = [*range(1, 1001)]


def listed(values: list[Any], place: int, wrong: Any) -> str:
    return ", ".join(map(str, [*values[:place], wrong, *values[place + 1 :]]))


@pytest.mark.parametrize("place", [3, 4, 500, 997])
@pytest.mark.parametrize("wrong", ["8x", 0, 2.5, "nonet"])
def test_a_wrong_value_is_found_wherever_it_is_in_a_long_list(read: Read, place: int, wrong: Any) -> None:
    (mistake,) = mistakes_of(read, f"batch: {{per_gpu: [{listed(MANY, place, wrong)}]}}")
    assert mistake.key == "batch.per_gpu"
    assert mistake.got is not None
    assert str(wrong) in mistake.got


def test_a_wrong_quantity_in_a_long_list_and_in_zips_and_draws(read: Read) -> None:
    links = [f"{number} Gbit/s" for number in MANY]
    zipped = f"{{num_gpus: [{listed([1] * 1000, 0, 2)}], topology.link: [{listed(links, 700, '7 us')}]}}"
    for added in (
        f"topology: {{kind: star, num_hosts: 8, link: [{listed(links, 3, '3 Gb/s')}], hop: 1 us, gpu: k80}}",
        f"sweep: {{zip: {zipped}}}",
        "sweep: {random: {points: 1000, keys: {batch.per_gpu: {min: 1, max: 9000}, seed: [1, 2, x]}}}",
        "sweep: {latin-hypercube: {points: 1000, keys: {num_gpus: {min: 1, max: 8}, seed: {min: -1, max: 900}}}}",
    ):
        assert len(mistakes_of(read, added)) == 1


def test_long_lists_of_right_numbers_cost_few_looks_at_points(read: Read, monkeypatch: pytest.MonkeyPatch) -> None:
    from clustersim.scenario import file_mistakes
    from clustersim.scenario.validate import read_keys

    looks: list[Any] = []
    monkeypatch.setattr(file_mistakes, "read_keys", lambda root: looks.append(root) or read_keys(root))
    read("sweep: {random: {points: 5000, keys: {seed: {min: 1, max: 9000}, topology.hop: {min: 1 us, max: 5 us}}}}")
    assert len(looks) <= 300


def test_of_very_many_wrong_values_some_are_told(read: Read) -> None:
    found = mistakes_of(read, f"batch: {{per_gpu: [1, {', '.join(f'{number}x' for number in MANY[:400])}]}}")
    assert 40 <= len(found) <= 60
