"""Words of other programs: each is a name or a key here, or the message says what it is called here."""

from __future__ import annotations

import re
from collections.abc import Container, Iterator
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from clustersim import common_words
from clustersim.cli.listing import SECTIONS
from clustersim.collectives import ALL_REDUCE
from clustersim.common_words import LISTED
from clustersim.data import shipped_files
from clustersim.errors import InputError
from clustersim.hardware import GPUS, LINKS, TRANSPORTS
from clustersim.kernels.compression import COMPRESSIONS
from clustersim.model.catalogue import MODELS
from clustersim.model.precision import PRECISIONS
from clustersim.scenario import load_scenario
from clustersim.scenario.reference import explanation
from clustersim.software import SOFTWARE
from clustersim.strategies import STRATEGIES
from clustersim.topology import HOSTS, PLACEMENTS, TOPOLOGIES

BASE: dict[str, Any] = {
    "model": "gpt2-small",
    "num_gpus": 8,
    "batch": {"per_gpu": 4},
    "topology": {"kind": "star", "link": "infiniband-ndr", "host": "dgx-h100"},
}

TRIED = {
    "model": "llama-3-8b llama3-8b Llama-3.1-8B meta-llama/Llama-3.1-8B meta-llama/Llama-3.1-8B-Instruct llama3 llama "
    "llama-2-7b-hf gpt2 gpt-2 gpt3-175b openai-community/gpt2 resnet_50 ResNet50 resnet bert bert-large-uncased "
    "google-bert/bert-base-uncased mixtral mistralai/Mixtral-8x7B-v0.1 deepseek-ai/DeepSeek-V3 qwen3 Qwen/Qwen3-8B "
    "vit vit-base-patch16-224 vit_b_16 t5-large google/gemma-3-27b-it inceptionv3 stable-diffusion nanogpt",
    "topology.gpu": "a100-80gb A100 a100-80g a100-sxm h100-sxm h100-80gb-hbm3 h100_sxm5 NVIDIA-H100-80GB-HBM3 "
    "nvidia-a100 rtx4090 RTX_4090 tesla-v100 v100-sxm2-32gb b200-sxm mi300 mi300x-oam gh200-480gb tpu-v5 3090 a6000",
    "topology.host": "a100 h100 h100-sxm dgx-h200 hgx-h100 dgx dgx_h100 p4d p5.48xlarge",
    "topology.link": "roce RoCEv2 roce-100g ib IB infiniband hdr HDR100 ndr hdr-200 ib-hdr 400g 400G 400gbe 100GbE "
    "nvlink nvlink4 nvlink-v4 pcie pcie-gen4 efa ethernet 25G xgmi slingshot omni-path",
    "topology.kind": "fattree fat_tree clos leaf_spine spine-leaf torus3d 3d-torus switch ring mesh dragonfly+ "
    "rail-optimized nvswitch",
    "topology": "dgx-h100 p5 p4d p4d.24xlarge p5.48xlarge h100 a100 dgx-a100 a3-mega nvl72",
    "precision": "bf16 bfloat16 fp8 float8 float16 half float32 mixed amp bf16-mixed 16-mixed amp_bf16 mxfp8 nvfp4 fp4 "
    "int8 fp64 BF16 transformer-engine",
    "strategy.kind": "allreduce all_reduce ddp fsdp fsdp2 zero zero3 zero-3 zero2 deepspeed hsdp sync asgd hogwild "
    "async-sgd easgd bsp adpsgd ps parameter-server local-sgd localsgd diloco ssp tp pp horovod ring-allreduce",
    "strategy": "ddp fsdp zero3 horovod all-reduce all_reduce async",
    "parallelism": "fsdp ddp tp zero3",
    "parallelism.sharding": "3 2 zero3 zero-stage-3 full_shard fsdp fsdp2 FULL_SHARD shard_grad_op hybrid_shard ddp "
    "zero++ optimizer true",
    "parallelism.schedule": "1F1B one-f-one-b GPipe interleaved-1f1b zb zbh1 zero_bubble afab virtual-pipeline",
    "parallelism.recompute": "all block uniform activation-checkpointing",
    "optimizer": "AdamW SGD lars rmsprop adam8bit fused-adam adafactor sophia shampoo",
    "transport": "NCCL rccl openmpi oneccl ucx ib roce grpc infiniband msccl nvshmem",
    "software": "pytorch torch megatron megatron-lm nemo deepspeed fsdp ddp accelerate huggingface hf lightning "
    "horovod jax tensorflow tf fsdp2 transformer-engine axolotl colossalai mosaicml composer",
    "placement": "packed scatter cyclic",
    "compression": "powersgd topk 1bit onebit qsgd dgc terngrad signsgd",
}
"""What users of other programs write as values."""

TRIED_KEYS = """
tp dp pp ep cp sp fsdp zero mbs gbs micro_batch micro_batch_size global_batch_size batch_size train_batch_size
train_micro_batch_size_per_gpu per_device_train_batch_size seq_len seqlen seq_length max_seq_len n_ctx
block_size tensor_parallel tensor_parallel_size tensor_model_parallel_size pipeline_model_parallel_size
expert_parallel expert_model_parallel_size gradient_accumulation_steps gas lr learning_rate weight_decay optim
max_steps train_iters num_epochs gpus ngpus n_gpus world_size nproc_per_node nnodes num_nodes gpus_per_node
ntasks_per_node gres gpu gpu_type device accelerator cluster network interconnect bandwidth link latency dtype
torch_dtype mixed_precision bf16 fp8 amp activation_checkpointing gradient_checkpointing recompute_granularity
flash_attn torch_compile cuda_graphs backend nccl overlap bucket_cap_mb reduce_bucket_size zero_optimization
sharding_strategy fsdp_config cpu_offload offload_optimizer model_name_or_path hidden_size num_layers vocab_size
dataset num_workers straggler failure mtbf price cost use_distributed_optimizer sequence_parallel
num_layers_per_virtual_pipeline_stage num_microbatches npus_count npu_count topology_name local_mem_bw peak_perf
all-reduce-implementation ps servers staleness H tau tensor pipeline sharding numGpus
""".split()  # noqa: SIM905
"""What they write as keys."""

KNOWN: dict[str, Container[str]] = {
    "strategy": STRATEGIES,
    "sharding": ("none", "zero-1", "zero-2", "zero-3"),
    "recompute": ("none", "full"),
    "schedule": ("1f1b", "gpipe", "interleaved", "zero-bubble"),
    "precision": PRECISIONS,
    "GPU": GPUS,
    "link": LINKS,
    "topology": {*TOPOLOGIES, *shipped_files("topologies")},
    "host template": HOSTS,
    "transport": TRANSPORTS,
    "software": SOFTWARE,
    "placement": PLACEMENTS,
    "straggler": ("constant", "slow-periods"),
    "compression": COMPRESSIONS,
    "optimizer": ("adam", "momentum", "sgd"),
    "all-reduce algorithm": {*ALL_REDUCE, "auto", "nvls"},
    "model": MODELS,
    "operation with FLOP or a shape": ("convolution", "fully-connected", "layer-norm", "batch-norm"),
    "adapter target": (),
}


def changed(key: str, value: Any) -> dict[str, Any]:
    """Return the scenario with one key changed."""
    outer, _, inner = key.partition(".")
    if not inner:
        return {**BASE, outer: value}
    return {**BASE, outer: {**(BASE.get(outer) or {}), inner: value}}


def message_for(scenario: dict[str, Any]) -> str:
    with pytest.raises(InputError) as caught:
        load_scenario(scenario)
    return str(caught.value)


@pytest.mark.parametrize("key", TRIED)
def test_a_value_of_another_program_is_pointed_to_the_one_here(key: str) -> None:
    silent = []
    for word in TRIED[key].split():
        value = int(word) if word.isdecimal() and key == "parallelism.sharding" else word == "true" or word
        message = message_for(changed(key, value))
        if not re.search(r"; did you mean|; \w.*\w|: write |; write ", message.partition(" (known")[0]):
            silent.append(message)
    assert not silent


@pytest.mark.parametrize("key", TRIED_KEYS)
def test_a_key_of_another_program_is_pointed_to_the_one_here(key: str) -> None:
    message = message_for({**BASE, key: 8})
    assert re.search(r"there is no such key here; .* \(known: ", message), message
    (first, *_) = message.split(" (known: ")
    assert "did you mean" in first or "`" in first or "elsewhere" in first or "no key" in first


def common_keys() -> list[str]:
    """Return the keys of the page of common ones."""
    page = Path(__file__).parents[2] / "docs" / "reference" / "common-keys.md"
    return re.findall(r"^\| \[`([\w.]+)`\]", page.read_text(encoding="utf-8"), re.MULTILINE)


@pytest.mark.parametrize("key", [*common_keys(), *TRIED_KEYS])
def test_explain_says_something_of_every_word(key: str) -> None:
    try:
        text = explanation(key)
    except InputError as error:
        text = str(error)
        assert "; " in text
    else:
        assert "takes: " in text


@pytest.mark.parametrize("kind", common_words._NAMES)
def test_a_name_that_a_hint_gives_exists_and_the_word_does_not(kind: str) -> None:
    known = KNOWN[kind]
    for word, hint in common_words._NAMES[kind].items():
        if kind != "adapter target":
            assert word not in known, f"{word} needs no hint"
            for named in re.findall(NAMED, hint):
                assert named in known, hint


NAMED = r"(?:that is|generation:|name a rate:|layers are those of) (?!a link)([a-z0-9.+-]*\w)"


def fragments() -> Iterator[str]:
    hints = {*common_words._KEYS.values(), *(hint for names in common_words._NAMES.values() for hint in names.values())}
    for hint in sorted(hints):
        yield from re.findall(r"`([^`]+)`", hint)


def keys_in(value: Any, where: str = "") -> Iterator[str]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield f"{where}.{key}".lstrip(".")
            yield from keys_in(inner, f"{where}.{key}".lstrip("."))
    if isinstance(value, list):
        for each in value:
            yield from keys_in(each, where)


@pytest.mark.parametrize("fragment", sorted(set(fragments())))
def test_what_a_hint_says_to_write_has_keys_that_exist(fragment: str) -> None:
    if fragment.startswith("clustersim list "):
        assert fragment.split()[2] in SECTIONS
    elif not fragment.startswith(("clustersim ", "--")):
        read = YAML(typ="safe").load(fragment)
        for key in keys_in(read) if isinstance(read, dict) else [read]:
            assert explanation(key.rpartition(".")[2] if key.startswith("software.") else key)


def test_failures_and_optimizers_that_hints_give_can_be_written() -> None:
    hints = [common_words._KEYS[word] for word in ("mtbf", "lr", "warmup")]
    for hint in hints:
        (fragment,) = re.findall(r"`([^`]+: [^`]+)`", hint)
        load_scenario({**BASE, "num_iterations": 4, **YAML(typ="safe").load(fragment)})


def test_an_unknown_model_prints_five_names_and_the_command_that_lists_all() -> None:
    message = message_for({**BASE, "model": "lama-3-8b"})
    assert len(message) < 250
    assert message.endswith("; all: `clustersim list models`)")
    (near,) = re.findall(r"nearest: ([^;]+);", message)
    assert len(near.split(", ")) <= 5


def test_sections_that_messages_name_exist() -> None:
    assert set(LISTED.values()) <= set(SECTIONS)


@pytest.mark.parametrize(
    ("topology", "key"),
    [
        ({"kind": "star", "host": "dgx-h100"}, "link"),
        ({"kind": "fat-tree", "k": 4, "host": "dgx-h100"}, "link"),
        ({"kind": "leaf-spine", "num_leaves": 2, "hosts_per_leaf": 2, "host": "dgx-h100"}, "link"),
        ({"kind": "torus", "dims": [2, 2], "host": {"gpu": "k20x"}}, "link"),
        (
            {"kind": "star", "link": "100 Gbit/s", "host": {"template": "dual-socket", "gpu": "k80"}},
            "host.interconnect",
        ),
    ],
)
@pytest.mark.parametrize(("written", "other"), [("x", "a rate, such as '100 Gbit/s'"), ("9 x", "a link's name")])
def test_a_link_may_be_a_name_or_a_rate_and_the_message_says_both(
    topology: dict[str, Any], key: str, written: str, other: str
) -> None:
    outer, _, inner = key.partition(".")
    wrong = {outer: {**topology["host"], inner: written}} if inner else {outer: written}
    assert f"or {other}" in message_for({**BASE, "topology": {**topology, **wrong}})


@pytest.mark.parametrize(
    ("written", "meaning"), [("fsdp", "{sharding: zero-3}"), ("tp: 8", "{tensor: N}"), ("hsdp", "sharding_over")]
)
@pytest.mark.parametrize("software", [{}, {"software": "torchtitan"}])
def test_a_layout_that_is_written_as_one_word_is_pointed_to_its_keys(
    written: str, meaning: str, software: dict[str, str]
) -> None:
    for layout in (written, [written, {"tensor": 8}]):
        with pytest.raises(InputError) as caught:
            load_scenario({**BASE, **software, "parallelism": layout}).points()
        assert meaning in str(caught.value)
