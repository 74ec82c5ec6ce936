"""Where parameter servers live, and what an update costs there."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from itertools import chain, groupby
from typing import Literal, Self

import numpy as np
from pydantic import Field, model_validator

from clustersim.errors import InputError
from clustersim.execution.job import Job
from clustersim.network.paths import BYTES_MOVED_PER_ADDED
from clustersim.spec import Spec
from clustersim.topology import Node

_HASH = 9973  # times the number of an array, as MXNet has it
_CUT_NUMBERS = 1e6  # arrays of so many are on all servers (MXNET_KVSTORE_BIGARRAY_BOUND), whatever a number takes


class Servers(Spec):
    """How many servers, and where. Each holds an equal share of every bucket, or whole ones."""

    num: int = Field(default=1, ge=1, description="number of servers")
    on: Literal["own-hosts", "workers", "host-memory", "gpu0", "gpus"] = Field(
        default="workers",
        description="`own-hosts`: hosts of their own, after the workers'; `workers`: memory of the workers' hosts; "
        "`host-memory`: memory of the first worker's host; `gpu0`: memory of the first worker's GPU; `gpus`: memory of "
        "the workers' GPUs",
    )
    local_sum: bool | Literal["scattered"] = Field(
        default=False,
        description="add the gradients of one host before they are pushed: on its first GPU, or `scattered`, each GPU "
        "an equal part, which it pushes and pulls itself and gives the others (BytePS)",
    )
    whole: bool | Literal["as-made", "hashed"] = Field(
        default=False,
        description="each bucket is on one server: the largest first, on the server that has the fewest bytes, or "
        "`as-made`, in the order in which a network is built, weights before biases (tf_cnn_benchmarks), or `hashed`, "
        "on the server that its number in that order says, but where it has a million numbers, which all share "
        "(MXNet's distributed store); else each server has an equal share of every bucket",
    )
    update_on: Literal["servers", "workers"] = Field(
        default="servers",
        description="who updates: the `servers`, which hand out parameters; or the `workers`, each its own copy of the "
        "model, with sums that servers hand out (MXNet's stores called `allreduce`)",
    )
    one_core: bool = Field(
        default=False,
        description="a server in a host's memory updates on one core, one bucket after another; else each as soon as "
        "its gradients are there, at the rate at which the transport adds",
    )
    pull: Literal["each", "together"] = Field(
        default="each",
        description="when parameters are handed out: `each` bucket as soon as it is updated (MXNet, TensorFlow's "
        "`distributed_replicated`), or all `together`, behind a barrier, when the last one is",
    )
    one_stream: bool = Field(
        default=False,
        description="GPUs copy as TensorFlow has them, which gives what a GPU sends others to one stream: one copy "
        "after another, and none before the GPU that gets it has computed what it had been given before; else all at "
        "once",
    )
    process: Literal["gpu", "host"] = Field(
        default="gpu",
        description="whose workers are one process, with a transport whose processes receive by one thread "
        "(`tensorflow-grpc`): each `gpu`'s by itself, or those of a `host`",
    )

    @model_validator(mode="after")
    def _has_what_a_core_updates(self) -> Self:
        if not self.one_core:
            return self
        why = {
            f"on: {self.on}": self.on in ("gpu0", "gpus") and "has GPUs update what lies in their memory",
            "update_on: workers": self.update_on == "workers" and "leaves servers nothing to update",
        }
        for way, does in why.items():
            if does:
                raise InputError(f"{way} {does}, and no core of a host", key="one_core", got="true", allowed="false")
        return self

    @model_validator(mode="after")
    def _has_a_stream(self) -> Self:
        if self.one_stream and self.on not in ("gpu0", "gpus"):
            message = "one_stream has GPUs hand out one copy after another: write on: gpus (or gpu0) beside it"
            raise InputError(message, key="one_stream", got="true", allowed="false")
        return self

    @property
    def is_patient(self) -> bool:
        """Whether a server that has all gradients of a bucket may have to wait for others to be updated."""
        return self.one_core or self.one_stream or self.pull == "together"

    def own_ways(self) -> str:
        """Return the first key by which all workers wait for all, or nothing."""
        ways = {"update_on": self.update_on != "servers", "one_core": self.one_core, "one_stream": self.one_stream}
        ways["pull"] = self.pull != "each"
        return next((key for key, is_set in ways.items() if is_set), "")

    def holders(self, sizes: Sequence[float], names: Sequence[str], bytes_per_number: float = 4.0) -> list[list[int]]:
        """Return the servers that share each bucket [len(sizes)], of those `names`, which come as backward has them.

        With `hashed`, the one that 9973 times its number says, of those that are made before it, or all where it has a
        million numbers (apache/mxnet, `EncodeKey` in src/kvstore/kvstore_dist.h).

        >>> Servers(num=5, whole="hashed").holders([8.0, 6e6, 2.0], ["b, tensor 2", "b", "a"])
        [[3], [0, 1, 2, 3, 4], [0]]
        """
        everybody = list(range(self.num))
        if self.whole == "hashed":
            cut = _CUT_NUMBERS * bytes_per_number
            numbers = {bucket: number for number, bucket in enumerate(as_made(names))}
            hashed = [[numbers[bucket] * _HASH % self.num] for bucket in range(len(sizes))]
            return [everybody if size >= cut else one for size, one in zip(sizes, hashed, strict=True)]
        return [[owner] for owner in self.owners(sizes, names)] if self.whole else [everybody] * len(sizes)

    def owners(self, sizes: Sequence[float], names: Sequence[str] = ()) -> list[int]:
        """Return the one server of each bucket [len(sizes)] where they are not shared out: always that which has the
        fewest bytes, the first of several. The largest bucket goes first (MXNet, CommDevice::InitMergeBuffer).

        With `as-made`, buckets with these `names`, which come as backward has them, go in the order in which they are
        made (tensorflow/benchmarks, ParamServerDeviceSetter in variable_mgr.py).

        >>> Servers(num=2, whole=True).owners([1.0, 4.0, 2.0, 3.0])
        [0, 0, 1, 1]
        >>> Servers(num=2, whole="as-made").owners([3.0, 1.0, 2.0, 1.0], ["b", "b, tensor 2", "a", "a, tensor 2"])
        [1, 0, 0, 1]
        """
        order = sorted(range(len(sizes)), key=lambda number: -sizes[number])
        if self.whole == "as-made":
            order = as_made(names)
        held, owners = [0.0] * self.num, [0] * len(sizes)
        for bucket in order:
            owners[bucket] = held.index(min(held))
            held[owners[bucket]] += sizes[bucket]
        return owners

    def worker_nodes(self, job: Job) -> list[Hashable]:
        """Return where each rank's messages to servers start and end [num_ranks]: a buffer, or the rank's process."""
        processes = job.network.topology.processes
        if processes is None:
            return job.buffer_nodes()
        workers = processes.of_hosts if self.process == "host" else processes.of_gpus
        return [Node(workers[gpu]) for gpu in job.gpus]

    def nodes(self, job: Job) -> list[Hashable]:
        """Return the memory that each server lives in [num], or the process there that it is."""
        processes, places = job.network.topology.processes, self._places(job)
        if processes is None:
            return places
        return [Node(processes.servers[job.network.topology.node(place)]) for place in places]

    def gpu_ranks(self, job: Job) -> list[int]:
        """Return the rank on whose GPU each server is, where they are on GPUs [num]."""
        return [0 if self.on == "gpu0" else number % job.num_ranks for number in range(self.num)]

    def _places(self, job: Job) -> list[Hashable]:
        """Return the memory that each server lives in [num]."""
        topology, devices = job.network.topology, job.devices
        if self.on == "gpu0":
            return [devices[0].node] * self.num
        if self.on == "host-memory":
            return [devices[0].host_memory] * self.num
        if self.on == "own-hosts":
            first_gpu = [int(np.flatnonzero(topology.gpu_hosts == host)[0]) for host in self._own_hosts(job)]
            return [Node(topology.memory[gpu]) for gpu in first_gpu]
        first_of_host = np.unique(job.hosts, return_index=True)[1]
        places = [device.node for device in devices]
        if self.on == "workers":
            places = [devices[rank].host_memory for rank in sorted(first_of_host.tolist())]
        return [places[number % len(places)] for number in range(self.num)]

    def _own_hosts(self, job: Job) -> list[int]:
        """Return a host for each server that no worker and no other job's server has [num]; the same every time."""
        if not job.server_hosts:
            free = np.setdiff1d(np.arange(job.network.topology.num_hosts), list(job.hosts_in_use))
            after = np.concatenate([free[free > job.hosts.max()], free[free < job.hosts.max()]])
            if len(after) < self.num:
                raise InputError(
                    f"{self.num} servers on hosts of their own need {self.num} more hosts than the workers use; "
                    f"the cluster has {len(after)} left",
                    got=str(self.num),
                    allowed=f"at most {len(after)}",
                )
            job.server_hosts += after[: self.num].tolist()
            job.hosts_in_use.update(job.server_hosts)
        return job.server_hosts


def as_made(names: Sequence[str]) -> list[int]:
    """Return the numbers of buckets, named as backward has them, in the order in which a network makes its tensors.

    >>> as_made(["b", "b, tensor 2", "a", "a, tensor 2"])
    [2, 3, 0, 1]
    """
    layers = [list(members) for _, members in groupby(range(len(names)), lambda at: names[at].split(", tensor ")[0])]
    return list(chain(*reversed(layers)))


def update_s(job: Job, node: Hashable, num_bytes: float, one_core: bool = False) -> float:
    """Return what the optimizer takes in an idle memory for so many bytes of gradient, at the rate of adding there.

    That is the rate of the library's own adding, or one core's, which `one_core` asks for whatever the library does.
    """
    topology = job.network.topology
    number = topology.node(node)
    adder = topology.adders.get(number)
    if adder is None or job.transport.add_s_per_byte == 0:
        return 0.0
    rates = [float(topology.links.bytes_per_s[adder])]
    if job.transport.add_s_per_byte is not None and not one_core:
        rates.append(BYTES_MOVED_PER_ADDED / job.transport.add_s_per_byte)
    elif (core := topology.core_bytes_per_s(number)) is not None:
        rates.append(core)
    return num_bytes * job.update_bytes_per_byte / min(rates)
