"""Words of other programs, and what a scenario says instead: messages about unknown keys and names use them."""

from __future__ import annotations

import re
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
_SERVERS = "parameter servers are `strategy: {kind: server}`, or async, softsync, backup and bounded-staleness"
_TENSOR = "tensor parallelism is `parallelism: {tensor: N}`"
_PIPELINE = "pipeline parallelism is `parallelism: {pipeline: N}`"


def _by_word(meanings: Mapping[str, str]) -> dict[str, str]:
    """Return the meaning of each word, from the words of each meaning."""
    return {word.replace("_", "-"): meaning for meaning, words in meanings.items() for word in words.split()}


_KEYS = _by_word({
    _TENSOR: "tp tensor_parallel tensor_parallel_size tensor_model_parallel_size tp_size tensor_parallel_degree",
    _PIPELINE: "pp pipeline_parallel pipeline_parallel_size pipeline_model_parallel_size pp_size num_stages "
               "pipeline_parallel_degree",
    "data parallelism is `parallelism: {data: N}`": "dp data_parallel data_parallel_size dp_size",
    "expert parallelism is `parallelism: {expert: N}`": "ep moe expert_parallel expert_model_parallel_size ep_size "
               "expert_parallel_size",
    "context parallelism is `parallelism: {context: N}`": "cp context_parallel context_parallel_size cp_size "
               "ring_attention",
    "interleaved stages are `parallelism: {schedule: interleaved, chunks: N}`": "vpp virtual_pipeline "
               "virtual_pipeline_model_parallel_size num_layers_per_virtual_pipeline_stage interleave",
    "sequence parallelism is `parallelism: {sequence_parallel: true}`": "sp",
    _TWO_HOP: "deepep moe_enable_deepep moe_token_dispatcher_type",
    "the hosts with experts of a token are `expert_hosts`, with `expert_exchange: two-hop`": "moe_router_group_topk",
    "DualPipe is `parallelism: {schedule: dualpipe}`": "dualpipe",
    "the order of micro-batches is `parallelism: {schedule: 1f1b}`": "pipeline_schedule pp_schedule pipeline_type",
    _DILOCO: "diloco outer_steps",
    _SHARDED: "fsdp fsdp2 zero zero_stage deepspeed zero_optimization fsdp_config fully_shard zero1 zero2 zero3",
    "sharding is `parallelism: {sharding: zero-3}`": "sharding_strategy fsdp_sharding_strategy",
    "the optimizer's state is sharded by `parallelism: {sharding: zero-1}`": "use_distributed_optimizer "
               "distributed_optimizer",
    _PLAIN: "ddp distributed_data_parallel allreduce distributed_strategy",
    _HYBRID: "hsdp hybrid_shard",
    _REPLICATED: "dp_shard dp_replicate data_parallel_shard_degree data_parallel_replicate_degree",
    "the batch is `batch: {per_gpu: N}` or `batch: {global: N}`": "batch_size bs",
    "the batch of all GPUs is `batch: {global: N}`": "gbs global_batch global_batch_size train_batch_size",
    "samples of a GPU in an update are `batch: {per_gpu: N}`; with micro-batches, that is all of them together":
               "mbs micro_batch micro_batch_size per_device_train_batch_size train_micro_batch_size_per_gpu "
               "per_device_batch_size local_batch_size per_gpu_batch_size",
    "gradient accumulation is `parallelism: {micro_batches: N}`": "gradient_accumulation_steps grad_accum gas "
               "gradient_accumulation accumulate_grad_batches num_microbatches microbatches num_micro_batches",
    "the tokens of a sample belong to the model: `clustersim list models`, or `clustersim import hf --tokens N`":
               "seq_len seqlen seq_length sequence_length context_length tokens max_seq_len max_seq_length n_ctx "
               "block_size max_length seq max_position_embeddings",
    "the layers of a model belong to the model: `clustersim list models`, or `clustersim import hf config.json`":
               "hidden_size num_layers n_layers n_layer n_embd d_model heads num_heads num_attention_heads vocab_size "
               "ffn_hidden_size num_hidden_layers intermediate_size num_experts",
    "the model is `model`, a name of `clustersim list models`": "model_name model_name_or_path arch architecture net",
    "the learning rate of a task is `learning: {task: digits, optimizer: {rate: 0.1}}`": "lr learning_rate",
    "the rate of a task rises and falls by `learning: {task: digits, optimizer: {warm_up: 0.1, schedule: cosine}}`":
               "warmup warmup_steps scheduler",
    "no optimizer of `learning` has it, and it does not change the time of an iteration": "weight_decay min_lr",
    "the optimizer is `optimizer: adamw`": "optim",
    "the number of updates is `num_iterations`": "max_steps train_iters iterations num_steps steps iters",
    "tokens until training ends are `train_tokens`, or `--tokens`": "total_tokens num_tokens token_budget "
               "training_tokens num_train_tokens",
    "samples of an epoch are `dataset_size`": "dataset train_samples",
    "the reading of samples is `input`": "num_workers dataloader data_loader dataloader_num_workers",
    "the number of GPUs is `num_gpus`": "gpus world_size ngpus n_gpus npus_count npu_count num_npus num_workers_total "
               "ntasks num_processes nranks ranks",
    "the number of hosts is `topology: {num_hosts: N}`": "nodes nnodes num_nodes hosts num_machines",
    "the GPUs of a host are `topology: {host: dgx-h100}`, or `topology: {num_gpus: N}`": "gpus_per_node nproc_per_node "
               "ntasks_per_node gres devices_per_node gpus_per_host",
    "the GPU is `topology: {gpu: h100}`": "gpu device gpu_type accelerator gpu_model device_type",
    "the network is `topology: {kind: star, link: 400 Gbit/s, host: dgx-h100}`, or a shipped cluster's name":
               "network cluster interconnect fabric topo topology_name",
    "the rate of a link is `topology: {link: 400 Gbit/s}`": "bandwidth",
    "the delay of a link is `topology: {hop: 600 ns}`": "latency",
    "the number format is `precision: amp-bf16`": "dtype torch_dtype mixed_precision bf16 amp autocast param_dtype "
               "mixed_precision_param",
    "the number format is `precision: amp-fp16`": "fp16",
    "the number format is `precision: amp-fp8`": "fp8 transformer_engine",
    "recomputed activations are `parallelism: {recompute: full}`": "activation_checkpointing gradient_checkpointing "
               "recompute_granularity recompute_activations activation_checkpoint checkpoint_activations ac_mode",
    "moving to the host's memory is `parallelism: {offload: optimizer}`": "cpu_offload offload_optimizer offload_param "
               "optimizer_offload",
    "the kernel of attention is `software: {name: pytorch-fsdp, attention: flash-attention-2}`": "flash_attention "
               "flash_attn attn_implementation use_flash_attn",
    "`software` says what a program compiles: `clustersim list software`": "compile torch_compile",
    "CUDA graphs belong to the host of a program: `clustersim list software-hosts`": "cuda_graphs cuda_graph "
               "enable_cuda_graph",
    "the program that trains is `software`": "framework trainer launcher",
    "the library of messages is `transport: nccl`": "backend nccl comm communication_backend dist_backend",
    "the sizes of buckets are `strategy: {kind: all-reduce, buckets: 25 MiB}`": "bucket_cap_mb bucket_size "
               "reduce_bucket_size allgather_bucket_size fusion_threshold",
    "the algorithm is `strategy: {kind: all-reduce, algorithm: ring}`": "all_reduce_implementation nccl_algo "
               "collective",
    _SERVERS: "ps parameter_server parameter_servers async_sgd",
    "the number of servers is `strategy: {kind: server, servers: {num: 4}}`": "num_ps num_servers n_servers",
    "failures are `failures: {gpu: {mtbf: 50000 h}, checkpoint: {write: 1 min}}`": "mtbf failure_rate",
    "prices are `prices`, or `--price`": "price cost cost_per_hour gpu_price",
    "stragglers are `stragglers: [{kind: lognormal, sigma: 0.1}]`": "straggler jitter slowdown",
    "the bound of staleness is `strategy: {kind: bounded-staleness, bound: 3}`": "staleness staleness_bound "
               "max_staleness",
    "the steps between two averages are `strategy: {kind: local, steps: 8}`": "h tau local_steps sync_every",
    "a GPU's memory and rates belong to its sheet: `clustersim list gpus`, or a sheet of your own": "local_mem_bw "
               "peak_perf memory gpu_memory flops tflops hbm",
})  # fmt: skip
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
    "strategy": _by_word({
        _PLAIN: "ddp horovod distributed_data_parallel",
        "that is all-reduce; with parameter servers it is server": "sync synchronous bsp",
        "elastic averaging is not simulated; the nearest is local": "easgd elastic_averaging",
        _SHARDED: "fsdp fsdp2 zero deepspeed zero1 zero2 zero3 zero_1 zero_2 zero_3 sharded",
        _HYBRID: "hsdp",
        _DILOCO: "diloco",
        _SERVERS: "parameter_server ps downpour",
        "that is async": "asgd hogwild asynchronous",
        "that is bounded-staleness": "ssp stale_synchronous",
        "that is local": "localsgd post_local_sgd fedavg federated",
        "that is gossip, with asynchronous: true": "ad_psgd adpsgd",
        "that is gossip": "decentralized d_psgd dpsgd",
        _TENSOR: "tensor_parallel tp tensor",
        _PIPELINE: "pipeline pp pipeline_parallel gpipe",
        "Megatron's layouts are `parallelism: {tensor: N, pipeline: N}`": "megatron 3d",
    }),
    "sharding": _by_word({
        "FSDP is zero-3": "fsdp fsdp2 true 3d fully_shard reshard_after_forward",
        "FSDP's FULL_SHARD is zero-3": "full full_shard",
        "FSDP's SHARD_GRAD_OP is zero-2": "shard_grad_op os+g",
        "sharding of the optimizer's state is zero-1": "os optimizer distributed_optimizer",
        "FSDP's NO_SHARD is none": "no_shard",
        "that is none": "ddp false 0 zero_0",
        _HYBRID: "hsdp hybrid_shard",
        "that is zero-2 with sharding_over": "hybrid_shard_zero2",
        "that is zero-3 with sharding_over": "zero++ hpz mics",
    }),
    "recompute": _by_word({"that is full": "true all uniform block on yes every activation_checkpointing",
                           "that is none": "false off no"}),
    "schedule": _by_word({"that is 1f1b": "one_f_one_b 1f1b_non_interleaved",
                          "that is gpipe": "afab all_forward_all_backward fill_drain",
                          "that is interleaved": "virtual_pipeline vpp interleave looped_bfs",
                          "that is zero-bubble": "zb zbh1 zb_h1 zbv zb_v"}),
    "precision": _by_word({
        "bf16 kernels with fp32 weights are amp-bf16": "bf16 bfloat16 bf16_mixed bf16_true",
        "fp16 kernels with fp32 weights are amp-fp16": "float16 half 16_mixed fp16_mixed",
        "that is fp32": "float32 float full single",
        "that is amp-bf16 or amp-fp16": "mixed amp auto",
        "that is amp-fp8": "fp8 float8 transformer_engine te fp8_hybrid e4m3",
        "that is amp-nvfp4": "fp4 mxfp4",
        "no format of training has 8-bit integers: amp-fp8": "int8",
        "no format of training has 64 bits: fp32": "fp64 float64 double",
    }),
    "GPU": _by_word({
        "that is a100": "a100_80gb a100_80g a100_sxm4_80gb a100_sxm a100_sxm4",
        "that is a100-40gb": "a100_sxm4_40gb a100_40g",
        "that is h100": "h100_sxm h100_sxm5 h100_80gb h100_80gb_hbm3 hopper",
        "that is h100-nvl": "h100_94gb",
        "that is h200": "h200_sxm h200_141gb",
        "that is b200": "b200_sxm b200_180gb blackwell",
        "that is v100": "v100_16gb v100_sxm2 v100_sxm2_16gb volta",
        "that is rtx-4090": "4090", "that is rtx-3090": "3090", "that is rtx-5090": "5090",
        "that is tpu-v5p, or tpu-v5e": "tpu_v5",
    }),
    "link": _by_word({
        "RoCE is Ethernet: roce-400g": "roce rocev2 roce_v2 rdma",
        "name a generation: infiniband-ndr": "infiniband ib",
        "that is infiniband-xdr": "xdr ib_xdr",
        "that is infiniband-ndr": "ndr ndr400 ib_ndr cx7 connectx_7",
        "that is infiniband-hdr": "hdr hdr200 hdr_200 ib_hdr cx6 connectx_6",
        "half the rate of HDR is infiniband-edr": "hdr100",
        "that is infiniband-edr": "edr ib_edr",
        "that is infiniband-fdr": "fdr ib_fdr",
        "name a generation: nvlink-4": "nvlink nvswitch",
        "name a generation: pcie-5-x16": "pcie",
        "that is pcie-3-x16": "pcie3 pcie_gen3", "that is pcie-4-x16": "pcie4 pcie_gen4",
        "that is pcie-5-x16": "pcie5 pcie_gen5",
        "name a rate: ethernet-100g": "ethernet eth tcp",
        "name a rate: efa-400g": "efa",
        "Omni-Path has no sheet; its rate is '100 Gbit/s', with `transport: nccl-omni-path`": "omni_path opa",
        "name a generation: xgmi-mi300": "xgmi infinity_fabric",
    }),
    "topology": _by_word({
        "that is leaf-spine": "clos two_tier rail_optimized rail rails spine",
        "that is star": "switch single one_switch fully_connected fullyconnected single_switch",
        "that is torus": "ring mesh 3d_torus 2d_torus torus3d torus2d hypercube",
        "a host is in a network: `topology: {kind: star, link: 400 Gbit/s, host: dgx-h100}`": "h100 h200 hgx_h100",
        "a host is in a network: `topology: {kind: star, link: 200 Gbit/s, host: dgx-a100}`": "a100 dgx_a100 hgx_a100",
        "a host is in a network: `topology: {kind: star, link: 400 Gbit/s, host: dgx-b200}`": "b200 dgx_b200 hgx_b200",
        "that is ec2-p5-48xlarge": "p5 p5.48xlarge", "that is ec2-p4d-24xlarge": "p4d p4d.24xlarge",
        "that is gb200-nvl72": "nvl72",
        "switches inside a host belong to the host: `topology: {kind: star, host: dgx-h100}`": "nvswitch nvlink",
    }),
    "host template": _by_word({
        "that is dgx-h100": "h100_sxm hgx_h100 h100", "that is dgx-a100": "hgx_a100 a100",
        "that is dgx-h100 with `gpu: h200`": "dgx_h200 hgx_h200 h200", "that is dgx-b200": "hgx_b200 b200",
        "EC2's hosts are in clusters: `topology: ec2-p5-48xlarge`": "p5 p5_48xlarge p5.48xlarge",
    }),
    "transport": _by_word({
        "RCCL is nccl, on AMD's GPUs": "rccl", "that is mpi": "oneccl openmpi mvapich mpich ucx",
        "that is a link, and the library is nccl": "infiniband ib roce rdma nvlink",
        "that is nccl": "msccl nvshmem hccl deepep", "that is tensorflow-grpc": "grpc",
    }),
    "software": _by_word({
        "Lightning and Accelerate run PyTorch's own: pytorch-ddp, or pytorch-fsdp": "accelerate lightning "
            "pytorch_lightning fabric fsspec composer axolotl llama_factory",
        "that is pytorch-ddp, or pytorch-fsdp": "pytorch torch",
        "that is huggingface-trainer": "hf transformers trl trainer",
        "that is megatron-core": "megatron megatron_lm mcore megatron_bridge transformer_engine",
        "that is nemo-2025": "nemo", "that is deepspeed-zero": "deepspeed zero", "that is pytorch-fsdp": "fsdp fsdp2",
        "that is pytorch-ddp": "ddp", "that is horovod-pytorch": "horovod", "that is maxtext": "jax flax xla pax",
        "that is tensorflow-2": "tensorflow tf keras", "that is llm-foundry": "mosaicml",
        "no sheet of it is shipped: describe it by one like plain, `clustersim software show plain`": "colossalai",
    }),
    "straggler": _by_word({
        "constant is always slow, slow-periods is slow at times": "slow slow_gpu slow_node",
    }),
    "placement": _by_word({"that is block": "packed pack fill", "that is spread": "scatter cyclic"}),
    "compression": _by_word({
        "that is top-k": "dgc topk_sgd random_k", "that is one-bit": "1bit signsgd onebit 1_bit_adam",
        "that is int8": "qsgd terngrad 8bit", "that is none; low-rank compression is not simulated": "powersgd",
    }),
    "optimizer": _by_word({
        "state and time are those of momentum": "lars rmsprop", "state and time are near those of adam": "nadam radam",
        "that is adam": "fusedadam fused_adam deepspeedcpuadam",
        "it is not simulated; adam has the most state": "adafactor sophia shampoo soap",
    }),
    "all-reduce algorithm": _by_word({
        "that is halving-doubling": "rabenseifner halvingdoubling hd butterfly",
        "that is doubling": "recursive_doubling", "that is auto": "nccl default",
        "that is nvls": "sharp collnet nvlssharp", "that is double-tree": "double_binary_tree",
    }),
    "model": _by_word({
        "that is gpt2-small": "gpt2 gpt_2 gpt2_base nanogpt",
        "that is gpt-3": "gpt3_175b", "that is llama-3.1-8b": "llama3 llama_3 llama",
        "its layers are those of llama-3.1-8b": "llama3_8b llama_3_8b meta_llama_3_8b",
        "its layers are those of llama-3.1-70b": "llama3_70b llama_3_70b meta_llama_3_70b",
        "that is bert-large": "bert_large_uncased bert_large_cased",
        "that is bert-base": "bert bert_base_uncased bert_base_cased", "that is resnet50": "resnet",
        "that is vit-b-16": "vit vit_base_patch16_224 vit_base", "that is mixtral-8x7b": "mixtral moe",
        "that is stable-diffusion-2-512": "sd2 stable_diffusion diffusion",
        "that is deepseek-v3": "deepseek deepseek_r1",
    }),
    "operation with FLOP or a shape": _by_word({
        "that is convolution": "conv2d conv conv1d conv3d", "that is fully-connected": "linear dense gemm matmul mlp",
        "that is layer-norm": "layernorm", "that is batch-norm": "batchnorm batchnorm2d",
    }),
    "adapter target": _TARGETS,
}  # fmt: skip
"""What a name of another program is here, by what it names."""


def hint_for_key(key: str) -> str | None:
    """Return what a key of another program is called here; None if it is not known.

    >>> hint_for_key("tp")
    'tensor parallelism is `parallelism: {tensor: N}`'
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


LISTED: Mapping[str, str] = {
    "model": "models", "GPU": "gpus", "CPU": "cpus", "link": "links", "software": "software", "case": "cases",
    "transport": "transports", "host template": "hosts", "shipped scenario": "scenarios", "scenario": "scenarios",
    "topology": "clusters", "profile": "profiles", "task": "tasks",
}  # fmt: skip
"""The section of `clustersim list` that has all members, by what they are called in messages."""


def _normal(word: str) -> str:
    """Return a word in small letters and kebab case, without the organisation before a model's name."""
    return re.sub(r"[\s_-]+", "-", word.strip().lower().rpartition("/")[2])
