"""Words of other programs, and what a scenario says instead: messages about unknown keys and names use them."""

from __future__ import annotations

from collections.abc import Mapping

_SHARDED = "FSDP and ZeRO are `parallelism: {sharding: zero-3}` (or zero-1, zero-2), with `software: pytorch-fsdp`"
_PLAIN = "DistributedDataParallel is `strategy: {kind: all-reduce}`, with `software: pytorch-ddp`"
_HYBRID = "hybrid sharding is `parallelism: {sharding: zero-3, sharding_over: N}`, N GPUs that shard among themselves"
_REPLICATED = (
    "hybrid sharding is `parallelism: {sharding: zero-3, sharding_over: N}`: a mesh of R x N replicas shards over N, "
    "so N is dp_shard, and R follows"
)
_TWO_HOP = "tokens that go to experts once for each host (DeepEP) are `expert_exchange: two-hop`"
_DILOCO = "DiLoCo is `strategy: {kind: local, steps: 500, outer: nesterov}`"
_BATCH = "the batch is `batch: {per_gpu: N}` or `batch: {global: N}`"
_BF16 = "the number format is `precision: amp-bf16`"
_STEPS = "gradient accumulation is `parallelism: {micro_batches: N}`"
_TOKENS = "the tokens of a sample belong to the model: `clustersim list models`, or `clustersim import hf --tokens N`"
_NETWORK = "the network is `topology: {kind: star, link: 400 Gbit/s, host: dgx-h100}`, or a shipped cluster's name"

_KEYS: Mapping[str, str] = {
    "tp": "tensor parallelism is `tensor`", "tensor-parallel": "tensor parallelism is `tensor`",
    "tensor-model-parallel-size": "tensor parallelism is `tensor`",
    "pp": "pipeline parallelism is `pipeline`", "pipeline-parallel": "pipeline parallelism is `pipeline`",
    "pipeline-model-parallel-size": "pipeline parallelism is `pipeline`",
    "dp": "data parallelism is `data`", "data-parallel": "data parallelism is `data`",
    "ep": "expert parallelism is `expert`", "moe": "expert parallelism is `expert`",
    "cp": "context parallelism is `context`",
    "context-parallel-size": "context parallelism is `context`",
    "vpp": "interleaved stages are `schedule: interleaved` with `chunks`",
    "sp": "sequence parallelism is `sequence_parallel: true`",
    "deepep": _TWO_HOP, "moe-enable-deepep": _TWO_HOP, "moe-token-dispatcher-type": _TWO_HOP,
    "moe-router-group-topk": "the hosts with experts of a token are `expert_hosts`, with `expert_exchange: two-hop`",
    "dualpipe": "DualPipe is `schedule: dualpipe`", "diloco": _DILOCO, "outer-steps": _DILOCO,
    "fsdp": _SHARDED, "zero": _SHARDED, "zero-stage": _SHARDED, "deepspeed": _SHARDED, "ddp": _PLAIN,
    "hsdp": _HYBRID, "hybrid-shard": _HYBRID, "dp-shard": _REPLICATED, "dp-replicate": _REPLICATED,
    "data-parallel-shard-degree": _REPLICATED, "data-parallel-replicate-degree": _REPLICATED,
    "batch-size": _BATCH, "global-batch-size": _BATCH, "per-device-train-batch-size": _BATCH,
    "micro-batch-size": _BATCH,
    "gradient-accumulation-steps": _STEPS, "grad-accum": _STEPS, "gradient-accumulation": _STEPS,
    "accumulate-grad-batches": _STEPS,
    "seq-len": _TOKENS, "seq-length": _TOKENS, "sequence-length": _TOKENS, "context-length": _TOKENS, "tokens": _TOKENS,
    "gpus": "the number of GPUs is `num_gpus`", "world-size": "the number of GPUs is `num_gpus`",
    "nodes": "the number of hosts is `topology: {num_hosts: N}`", "gpu": "the GPU is `topology: {gpu: h100, ...}`",
    "network": _NETWORK, "cluster": _NETWORK,
    "dtype": _BF16, "mixed-precision": _BF16, "bf16": _BF16, "fp16": "the number format is `precision: amp-fp16`",
    "activation-checkpointing": "recomputed activations are `parallelism: {recompute: full}`",
    "gradient-checkpointing": "recomputed activations are `parallelism: {recompute: full}`",
    "flash-attention": "the kernel of attention is `software: {name: ..., attention: flash-attention-2}`",
    "compile": "`software` says what a program compiles: `clustersim list software`",
    "backend": "the library of messages is `transport: nccl`",
}  # fmt: skip
"""What a key of another program is here."""

_TARGETS = {
    name.replace("_", "-"): f"that is {here}"
    for here, names in {
        "q_proj, k_proj and v_proj": "c_attn qkv qkv_proj query_key_value wqkv attn.c_attn",
        "q_proj": "q query q_lin q_b_proj wq",
        "k_proj": "k key k_lin wk",
        "v_proj": "v value v_lin wv",
        "o_proj": "o out_proj out_lin wo attn.c_proj attention.output.dense",
        "gate_proj": "w1 wi_0",
        "up_proj": "c_fc fc1 fc_in lin1 w3 wi wi_1 dense_h_to_4h intermediate.dense",
        "gate_proj and up_proj": "gate_up_proj",
        "down_proj": "fc2 fc_out lin2 w2 dense_4h_to_h mlp.c_proj",
        "o_proj and down_proj": "c_proj",
        "all-linear": "all all-linear-layers",
    }.items()
    for name in names.split()
}
"""Linear layers of other models of Hugging Face than Llama, as the targets of adapters are called."""

_NAMES: Mapping[str, Mapping[str, str]] = {
    "strategy": {"ddp": _PLAIN, "fsdp": _SHARDED, "fsdp2": _SHARDED, "zero": _SHARDED, "deepspeed": _SHARDED,
                 "zero3": _SHARDED, "hsdp": _HYBRID, "diloco": _DILOCO,
                 "sync": _PLAIN, "parameter-server": "parameter servers are `{kind: server}`, or async",
                 "tensor-parallel": "tensor parallelism is `parallelism: {tensor: N}`",
                 "pipeline": "pipelines are `parallelism: {pipeline: N}`",
                 "megatron": "Megatron's layouts are `parallelism: {tensor: N, pipeline: N}`"},
    "sharding": {"fsdp": "FSDP is zero-3", "fsdp2": "FSDP is zero-3", "full": "FSDP's FULL_SHARD is zero-3",
                 "full-shard": "FSDP's FULL_SHARD is zero-3", "shard-grad-op": "FSDP's SHARD_GRAD_OP is zero-2",
                 "no-shard": "FSDP's NO_SHARD is none", "hsdp": _HYBRID, "hybrid-shard": _HYBRID,
                 "hybrid-shard-zero2": "that is zero-2 with sharding_over", "ddp": "that is none"},
    "precision": {"bf16": "bf16 kernels with fp32 weights are amp-bf16", "bfloat16": "that is amp-bf16",
                  "float16": "fp16 kernels with fp32 weights are amp-fp16", "half": "that is amp-fp16 or fp16",
                  "float32": "that is fp32", "mixed": "that is amp-bf16 or amp-fp16"},
    "GPU": {"a100-80gb": "that is a100", "a100-sxm4-80gb": "that is a100", "a100-sxm": "that is a100",
            "a100-sxm4-40gb": "that is a100-40gb", "h100-sxm": "that is h100", "h100-sxm5": "that is h100",
            "h100-80gb": "that is h100", "h200-sxm": "that is h200", "b200-sxm": "that is b200",
            "v100-16gb": "that is v100", "v100-sxm2": "that is v100", "4090": "that is rtx-4090",
            "3090": "that is rtx-3090", "5090": "that is rtx-5090"},
    "link": {"roce": "RoCE is Ethernet: roce-400g, or a rate", "rocev2": "RoCE is Ethernet: roce-400g, or a rate",
             "infiniband": "name a generation: infiniband-ndr, or a rate", "ib": "name a generation: infiniband-ndr",
             "ndr": "that is infiniband-ndr", "hdr": "that is infiniband-hdr", "edr": "that is infiniband-edr",
             "nvlink": "name a generation: nvlink-4", "ethernet": "name a rate: ethernet-100g",
             "efa": "name a rate: efa-400g"},
    "transport": {"rccl": "RCCL is nccl, on AMD's GPUs", "oneccl": "that is mpi", "infiniband": "that is a link: nccl"},
    "operation with FLOP or a shape": {
           "conv2d": "that is convolution", "conv": "that is convolution", "linear": "that is fully-connected",
           "dense": "that is fully-connected", "gemm": "that is fully-connected", "matmul": "that is fully-connected",
           "layernorm": "that is layer-norm", "batchnorm": "that is batch-norm"},
    "adapter target": _TARGETS,
}  # fmt: skip
"""What a name of another program is here, by what it names."""


def hint_for_key(key: str) -> str | None:
    """Return what a key of another program is called here; None if it is not known.

    >>> hint_for_key("tp")
    'tensor parallelism is `tensor`'
    """
    return _KEYS.get(_normal(key))


def hint_for_name(kind: str, name: str) -> str | None:
    """Return what a name of another program is called here; `kind` is what it names, as in messages.

    >>> hint_for_name("GPU", "A100_80GB")
    'that is a100'
    """
    return _NAMES.get(kind, {}).get(_normal(name))


def hint_for_word(word: str) -> str | None:
    """Return what a word of another program is called here, be it a key or a name; None if it is not known.

    >>> hint_for_word("conv2d")
    'that is convolution'
    """
    return hint_for_key(word) or next((hint for kind in _NAMES if (hint := hint_for_name(kind, word))), None)


def _normal(word: str) -> str:
    return word.strip().lower().replace("_", "-").replace(" ", "-")
