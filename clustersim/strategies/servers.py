"""Number and places of parameter servers, and what an update costs there."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from itertools import chain, groupby
from typing import Literal, Self

import numpy as np
from pydantic import Field, model_validator

from clustersim.errors import InputError
from clustersim.execution.job import Job
from clustersim.network.paths import BYTES_MOVED_PER_ADDED
from clustersim.spec import Spec, of_software
from clustersim.topology import Node

_HASH = 9973  # MXNet multiplies the number of an array by it
_SPLIT_SIZE = 1e6  # arrays of this many numbers are split over all servers (MXNET_KVSTORE_BIGARRAY_BOUND)


class Servers(Spec):
    """Number and places of parameter servers. Each has an equal share of every bucket, or whole buckets."""

    num: int = Field(default=1, ge=1, description="number of servers")
    on: Literal["own-hosts", "workers", "host-memory", "gpu0", "gpus"] = Field(
        default="workers",
        description="`own-hosts`: separate hosts, after those of the workers; `workers`: memory of the workers' hosts; "
        "`host-memory`: memory of the first worker's host; `gpu0`: memory of the first worker's GPU; `gpus`: memory of "
        "the workers' GPUs",
    )
    local_sum: bool | Literal["scattered"] = Field(
        default=False,
        description="add the gradients of a host before they are pushed: `true` on its first GPU, or `scattered`: "
        "each GPU adds, pushes and pulls an equal part and sends it to the others (BytePS)",
    )
    whole: bool | Literal["as-made", "hashed"] = Field(
        json_schema_extra=of_software("servers_whole"),
        default=False,
        description="`false`: each server has an equal share of every bucket; `true`: each bucket is on one server, "
        "the largest bucket first, on the server with the fewest bytes; `as-made`: the same in the order in which the "
        "network is built, weights before biases (tf_cnn_benchmarks); `hashed`: on the server that a hash of its "
        "number in that order gives, but buckets of a million numbers or more on all servers (MXNet's distributed "
        "store)",
    )
    update_on: Literal["servers", "workers"] = Field(
        json_schema_extra=of_software("servers_update_on"),
        default="servers",
        description="where the optimizer runs: on `servers`, and workers pull parameters; or on `workers`, which pull "
        "sums of gradients and update their own replicas (MXNet's stores called `allreduce`)",
    )
    one_core: bool = Field(
        json_schema_extra=of_software("servers_one_core"),
        default=False,
        description="a server in host memory updates on one core, one bucket after another; else it updates each "
        "bucket as soon as it has all gradients, at the rate at which the transport adds",
    )
    pull: Literal["each", "together"] = Field(
        json_schema_extra=of_software("servers_pull"),
        default="each",
        description="when parameters are pulled: `each` bucket as soon as it is updated (MXNet, TensorFlow's "
        "`distributed_replicated`), or all `together` after a barrier, when the last bucket is updated",
    )
    one_stream: bool = Field(
        json_schema_extra=of_software("servers_one_stream"),
        default=False,
        description="GPUs copy as in TensorFlow: a GPU sends all copies to other GPUs in one stream, one after "
        "another, and each copy waits until the receiving GPU has finished the kernels issued before; else all copies "
        "run at the same time",
    )
    process: Literal["gpu", "host"] = Field(
        json_schema_extra=of_software("servers_process"),
        default="gpu",
        description="the workers of one process, with a transport whose processes receive by one thread "
        "(`tensorflow-grpc`): one process for each `gpu`, or one for each `host`",
    )

    @model_validator(mode="after")
    def _has_host_core_that_updates(self) -> Self:
        if not self.one_core:
            return self
        conflicts = {
            f"on: {self.on}": self.on in ("gpu0", "gpus") and "runs the optimizer on GPUs",
            "update_on: workers": self.update_on == "workers" and "runs the optimizer on the workers",
        }
        for option, reason in conflicts.items():
            if reason:
                message = f"{option} {reason}, so no host core updates; leave one_core out"
                raise InputError(message, key="one_core", got="true", allowed="false")
        return self

    @model_validator(mode="after")
    def _has_gpus_that_copy(self) -> Self:
        if self.one_stream and self.on not in ("gpu0", "gpus"):
            message = "one_stream is about copies that GPUs send: set on: gpus (or gpu0) too"
            raise InputError(message, key="one_stream", got="true", allowed="false")
        return self

    @property
    def delays_pulls(self) -> bool:
        """Whether a server that has all gradients of a bucket may have to wait for other buckets."""
        return self.one_core or self.one_stream or self.pull == "together"

    def synchronous_key(self) -> str:
        """Return the first key that is set and needs workers that wait for each other; "" if none is."""
        is_set = {"update_on": self.update_on != "servers", "one_core": self.one_core, "one_stream": self.one_stream}
        is_set["pull"] = self.pull != "each"
        return next((key for key, value in is_set.items() if value), "")

    def servers_of_buckets(
        self, sizes: Sequence[float], names: Sequence[str], bytes_per_number: float = 4.0
    ) -> list[list[int]]:
        """Return the servers that share each bucket [len(sizes)]. `names` are those of the buckets, in backward order.

        With `hashed`, a bucket is on server 9973 x its number modulo the number of servers, where buckets are numbered
        in the order of creation. Buckets of a million numbers or more are on all servers (apache/mxnet, `EncodeKey` in
        src/kvstore/kvstore_dist.h).

        >>> Servers(num=5, whole="hashed").servers_of_buckets([8.0, 6e6, 2.0], ["b, tensor 2", "b", "a"])
        [[3], [0, 1, 2, 3, 4], [0]]
        """
        all_servers = list(range(self.num))
        if self.whole == "hashed":
            split_bytes = _SPLIT_SIZE * bytes_per_number
            numbers = {bucket: number for number, bucket in enumerate(creation_order(names))}
            hashed = [[numbers[bucket] * _HASH % self.num] for bucket in range(len(sizes))]
            return [all_servers if size >= split_bytes else one for size, one in zip(sizes, hashed, strict=True)]
        if self.whole:
            return [[server] for server in self.server_of_whole_buckets(sizes, names)]
        return [all_servers] * len(sizes)

    def server_of_whole_buckets(self, sizes: Sequence[float], names: Sequence[str] = ()) -> list[int]:
        """Return the one server of each whole bucket [len(sizes)]: the first of those with the fewest bytes so far.

        The largest bucket is assigned first (MXNet, CommDevice::InitMergeBuffer). With `as-made`, buckets are assigned
        in the order of creation; `names` are in backward order (tensorflow/benchmarks, ParamServerDeviceSetter in
        variable_mgr.py).

        >>> Servers(num=2, whole=True).server_of_whole_buckets([1.0, 4.0, 2.0, 3.0])
        [0, 0, 1, 1]
        >>> names = ["b", "b, tensor 2", "a", "a, tensor 2"]
        >>> Servers(num=2, whole="as-made").server_of_whole_buckets([3.0, 1.0, 2.0, 1.0], names)
        [1, 0, 0, 1]
        """
        order = sorted(range(len(sizes)), key=lambda number: -sizes[number])
        if self.whole == "as-made":
            order = creation_order(names)
        assigned_bytes, servers = [0.0] * self.num, [0] * len(sizes)
        for bucket in order:
            servers[bucket] = assigned_bytes.index(min(assigned_bytes))
            assigned_bytes[servers[bucket]] += sizes[bucket]
        return servers

    def worker_nodes(self, job: Job) -> list[Hashable]:
        """Return the end of each rank's messages to servers [num_ranks]: its buffer, or its process."""
        processes = job.network.topology.processes
        if processes is None:
            return job.buffer_nodes()
        workers = processes.of_hosts if self.process == "host" else processes.of_gpus
        return [Node(workers[gpu]) for gpu in job.gpus]

    def nodes(self, job: Job) -> list[Hashable]:
        """Return the memory of each server [num], or its process where the transport has processes."""
        processes, memories = job.network.topology.processes, self._memories(job)
        if processes is None:
            return memories
        return [Node(processes.servers[job.network.topology.node(memory)]) for memory in memories]

    def gpu_ranks(self, job: Job) -> list[int]:
        """Return the rank on whose GPU each server is [num], for servers on GPUs."""
        return [0 if self.on == "gpu0" else number % job.num_ranks for number in range(self.num)]

    def _memories(self, job: Job) -> list[Hashable]:
        """Return the memory of each server [num]."""
        topology, devices = job.network.topology, job.devices
        if self.on == "gpu0":
            return [devices[0].node] * self.num
        if self.on == "host-memory":
            return [devices[0].host_memory] * self.num
        if self.on == "own-hosts":
            first_gpu = [int(np.flatnonzero(topology.gpu_hosts == host)[0]) for host in self._own_hosts(job)]
            return [Node(topology.memory[gpu]) for gpu in first_gpu]
        first_of_host = np.unique(job.hosts, return_index=True)[1]
        memories = [device.node for device in devices]
        if self.on == "workers":
            memories = [devices[rank].host_memory for rank in sorted(first_of_host.tolist())]
        return [memories[number % len(memories)] for number in range(self.num)]

    def _own_hosts(self, job: Job) -> list[int]:
        """Return a host for each server [num] that no worker and no other job uses; the same at every call."""
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


def creation_order(names: Sequence[str]) -> list[int]:
    """Return the buckets of these names, given in backward order, in the order in which a network creates its tensors.

    >>> creation_order(["b", "b, tensor 2", "a", "a, tensor 2"])
    [2, 3, 0, 1]
    """
    layers = [list(members) for _, members in groupby(range(len(names)), lambda at: names[at].split(", tensor ")[0])]
    return list(chain(*reversed(layers)))


def update_s(job: Job, node: Hashable, num_bytes: float, one_core: bool = False) -> float:
    """Return the seconds of the optimizer for these bytes of gradient in an idle memory."""
    return moved_s(job, node, num_bytes * job.update_bytes_per_byte, one_core)


def moved_s(job: Job, node: Hashable, moved_bytes: float, one_core: bool = False) -> float:
    """Return the seconds in which a server moves bytes of an idle memory, at the rate of adding there.

    The rate of the memory is limited by the rate at which the transport library adds. With `one_core`, or if the
    library has no rate of its own, it is limited by the rate of one core.
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
    return moved_bytes / min(rates)
