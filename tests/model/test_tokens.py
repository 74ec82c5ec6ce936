"""The tokens of a sample of each model: of text alone, of encoder and decoder both."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import clustersim
from clustersim.errors import InputError
from clustersim.interchange.hf_config import import_hf
from clustersim.model import load_model, read_workload_file, workload_text, write_workload_file
from clustersim.model.catalogue import MODELS

TOKENS = {
    35: "lstm-lm lstm-lm-medium",
    56: "gnmt",
    64: "bert-base-seq64 bert-large-seq64 transformer-big",
    128: "bert-base bert-base-mlm bert-large",
    192: "transformer-xl-base",
    384: "bert-base-seq384 bert-large-seq384 transformer-xl-large",
    512: "albert-base-mlm-seq512 bert-base-mlm-seq512 bert-base-seq512 bert-large-seq512",
    640: "t5-v1.1-small t5-v1.1-large t5-v1.1-xl t5-v1.1-xxl",
    1024: "gpt2-small gpt2-medium gpt2-large gpt2-xl megatron-1b megatron-2b megatron-4b megatron-8b megatron-1.2b "
    "megatron-2.5b megatron-4.2b megatron-8.3b",
    2048: "gpt-3 aquila2-7b internlm-7b megatron-1.7b megatron-3.6b megatron-7.5b megatron-18b megatron-39b "
    "megatron-76b megatron-145b megatron-175b megatron-310b megatron-530b megatron-1t mpt-125m mpt-350m mpt-760m "
    "mpt-1b mpt-3b mpt-7b mpt-13b mpt-30b mpt-70b",
    4096: "qwen3-0.6b qwen3-4b qwen3-8b qwen3-14b qwen3-32b qwen3-30b-a3b qwen3-235b-a22b deepseek-v2-lite deepseek-v3 "
    "deepseek-v3-mtp gpt-oss-20b gpt-oss-120b phi-4 llama-2-7b llama-2-13b llama-2-34b llama-2-70b megatron-core-1.7b "
    "megatron-core-16b megatron-core-70b mixtral-8x7b nemotron-4-15b",
    8192: "llama-3.2-1b llama-3.2-3b mistral-7b llama-3.1-8b llama-3.1-70b llama-3.1-405b",
    32_768: "gemma-3-12b gemma-3-27b",
}
OTHERS = """
alexnet alexnet-caffe alexnet-one-group alexnet-tensorflow amoebanet-d-18-256 caffenet clip-giant-14 googlenet
googlenet-aux inception-bn inception-bn-28-small inception-v3 inception-v3-aux jasper local-autoencoder-185m
local-autoencoder-680m local-autoencoder-1.0b local-autoencoder-1.9b local-autoencoder-3.0b local-autoencoder-6.9b
local-autoencoder-11.2b nin overfeat resnet18 resnet20 resnet32 resnet34 resnet50 resnet101 resnet152 resnext50-32x4d
resnext101-32x4d resnext101-32x8d siamese-omniglot squeezenet-1.0 squeezenet-1.0-fp16 squeezenet-1.0-pruned-8-bit
squeezenet-1.0-pruned-6-bit stable-diffusion-2-256 stable-diffusion-2-512 unet-5-64 ssd300-resnet34 ssd300-resnet50
vgg11 vgg13 vgg16 vgg16-cifar vgg19 vit-b-16 vit-g-14 vit-giant-14
"""  # images, images with captions, speech


def test_every_model_of_the_catalogue_has_its_tokens_or_none() -> None:
    expected: dict[str, int | None] = {name: tokens for tokens, names in TOKENS.items() for name in names.split()}
    expected |= dict.fromkeys(OTHERS.split())
    assert {name: load_model(name).tokens for name in MODELS} == expected


def test_a_sequence_length_in_the_name_is_the_tokens() -> None:
    assert [load_model(name).tokens for name in ("llama-2-7b-seq1304", "qwen3-8b-seq512")] == [1304, 512]


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({"model_type": "gpt2"}, 64),
        ({"model_type": "t5"}, 128),
        ({"model_type": "bart"}, 128),
        ({"model_type": "whisper"}, None),
        ({"model_type": "clip"}, None),
    ],
)
def test_an_imported_config_has_the_tokens_of_all_its_texts(
    tmp_path: Path, config: dict[str, str], expected: int | None
) -> None:
    path = tmp_path / "config.json"
    path.write_text(json.dumps(config))
    model = import_hf(path, tokens=64).model
    assert model.tokens == expected
    again, _ = read_workload_file(write_workload_file(model, tmp_path / "net.yaml"))
    assert again.tokens == expected


def test_a_workload_file_without_tokens_is_read_and_has_none(tmp_path: Path) -> None:
    """As those that versions before the key wrote."""
    path = tmp_path / "net.yaml"
    lines = workload_text(load_model("gpt2-small")).splitlines()
    assert "tokens: 1024" in lines
    scenario = {
        "model": str(path), "num_gpus": 1, "batch": {"per_gpu": 1}, "precision": "amp-bf16", "software": "plain",
        "topology": {"kind": "star", "num_hosts": 1, "link": "1 GB/s", "gpu": "h100"}, "transport": "nccl",
        "strategy": {"kind": "all-reduce"},
    }  # fmt: skip
    path.write_text("\n".join(lines) + "\n")
    run = clustersim.simulate(scenario)
    assert run.tokens_per_s == pytest.approx(1024 * run.samples_per_s)
    path.write_text("\n".join(line for line in lines if not line.startswith("tokens")) + "\n")
    old = clustersim.simulate(scenario)
    assert (old.tokens_per_s, old.samples_per_s) == (None, run.samples_per_s)


@pytest.mark.parametrize("tokens", ["0", "-1", "1.5", "many", "[1]", "99999999999999999999"])
def test_tokens_are_a_whole_number_of_at_least_1(tmp_path: Path, tokens: str) -> None:
    path = tmp_path / "net.yaml"
    path.write_text(f"name: n\ntokens: {tokens}\nlayers:\n  - {{name: a, flop: 8}}\n")
    with pytest.raises(InputError, match="expected a whole number of at least 1") as error:
        read_workload_file(path)
    assert (error.value.mistakes[0].key, error.value.mistakes[0].line) == ("tokens", 2)
