"""Software sheets: each setting has a source and a value that a scenario could give."""

from __future__ import annotations

import json
from typing import get_args

import pytest

from clustersim.hardware import TRANSPORTS
from clustersim.kernels.layer_times import Library
from clustersim.scenario.software_keys import FIELDS, STAYS, SoftwareKeys
from clustersim.scenario.software_sheets import checked_software
from clustersim.software import SOFTWARE, load_software
from clustersim.strategies import STRATEGIES

NAMED_IN_THE_DESIGN = (
    *("pytorch-ddp", "pytorch-ddp-compiled", "pytorch-ddp-2018", "pytorch-ddp-2020", "pytorch-ddp-2022"),
    *("pytorch-fsdp", "pytorch-fsdp-1", "torchtitan", "megatron-core", "megatron-lm-2021", "megatron-lm-2023"),
    *("megatron-deepspeed", "deepspeed-zero", "nemo-2023", "nemo-2025", "maxtext", "t5x", "llm.c", "nanogpt"),
    *("huggingface-trainer", "huggingface-trainer-2021", "huggingface-trainer-2023", "horovod-tensorflow-1"),
    *("tf-cnn-benchmarks", "mxnet-kvstore", "caffe", "caffe-cudnn", "caffe-mpi", "theano-mpi", "paddle", "oneflow"),
    "byteps",
)


def test_the_programs_that_people_use_have_a_sheet() -> None:
    assert set(NAMED_IN_THE_DESIGN) <= set(SOFTWARE)


@pytest.mark.parametrize("name", SOFTWARE)
def test_every_setting_has_a_source_and_is_one_that_a_scenario_has(name: str) -> None:
    sheet = load_software(name)
    assert (sheet.name, sheet.title) == (name, SOFTWARE[name])
    assert set(sheet.values) <= set(FIELDS) | set(STAYS)
    assert {"library", "host", "transport"} <= set(sheet.values)
    assert all(len(sheet.sources[f"values.{key}"]) > 5 for key in sheet.values)
    assert set(sheet.strategies) <= {*STRATEGIES, "any"}
    assert sheet.values["transport"] in TRANSPORTS


@pytest.mark.parametrize("name", SOFTWARE)
def test_every_setting_is_valid_where_a_scenario_would_write_it(name: str) -> None:
    settings = {key: value for key, value in load_software(name).values.items() if key in FIELDS}
    written = SoftwareKeys.model_validate_json(json.dumps({"name": name, **settings}), strict=True)
    assert {key for key in settings if getattr(written, key) is None} == set()
    sheet = SOFTWARE.find(name)
    assert checked_software(str(sheet)).values == load_software(name).values


@pytest.mark.parametrize("library", get_args(Library))
def test_every_library_is_that_of_a_program_or_a_setting_of_a_case(library: str) -> None:
    from clustersim.data import data_folder

    named = {load_software(name).values["library"] for name in SOFTWARE}
    texts = (path.read_text(encoding="utf-8") for path in data_folder("validate").glob("*/*.*"))
    assert library in named or any(f"library: {library}" in text for text in texts)


def test_only_the_program_that_is_none_has_an_ideal_network() -> None:
    assert [name for name in SOFTWARE if load_software(name).values["transport"] == "ideal"] == ["plain"]
