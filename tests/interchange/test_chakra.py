"""Chakra traces: bytes compared with Google's own library, a stored ring with its closed form, and refused input."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clustersim.errors import InputError
from clustersim.interchange.chakra import read_chakra, write_chakra
from clustersim.interchange.chakra.message import (
    COMM_COLL,
    COMM_SEND,
    COMP,
    METADATA,
    ProtoMessage,
    decode,
    encode,
    framed,
    metadata,
)
from clustersim.interchange.chakra.wire import messages, read_varint, signed, varint
from clustersim.program.graph import COLLECTIVE, COMPUTE, NOTHING, RECEIVE, SEND, GraphTask, TaskNode
from clustersim.simulate.programs import one_point, programs_of
from clustersim.simulate.setup import Setup
from clustersim.simulate.traces import simulate_traces
from tests.interchange import chakra_schema

RING = Path(__file__).parent / "chakra-ring"  # four ranks, 4 MB, written by `chakra_schema.ring_all_reduce`
STAR = {"kind": "star", "num_hosts": 4, "link": "2 GB/s", "hop": "1.5 us"}
LATENCY_S, RATE = 3e-6, 2e9


def trace(folder: Path, *ranks: list[ProtoMessage], name: str = "job") -> Path:
    """Write a trace of these nodes a rank."""
    for rank, nodes in enumerate(ranks):
        data = b"".join([framed(metadata()), *(framed(encode(node)) for node in nodes)])
        (folder / f"{name}.{rank}.et").write_bytes(data)
    return folder


def compute(number: int = 1, micros: int = 1, **other: Any) -> ProtoMessage:
    return ProtoMessage(number, "work", COMP, micros=micros, **other)


def all_reduce(number: int = 1, **attributes: Any) -> ProtoMessage:
    return ProtoMessage(number, "sum", COMM_COLL, attributes={"comm_type": 0, "comm_size": 8, **attributes})


@given(st.integers(min_value=-(2**63), max_value=2**63 - 1))
def test_an_integer_comes_back(value: int) -> None:
    data = varint(value)
    unsigned, end = read_varint(data, 0)
    assert (signed(unsigned), end) == (value, len(data))


@pytest.mark.parametrize("rank", range(4))
def test_the_stored_ring_is_what_googles_library_writes(rank: int) -> None:
    assert (RING / f"ring.{rank}.et").read_bytes() == chakra_schema.ring_all_reduce(rank, 4, 4_000_000)


def test_a_stored_ring_all_reduce_plays_to_its_closed_form() -> None:
    """2 (n - 1) steps of the latency and a piece of b / n bytes."""
    played = simulate_traces(read_chakra(RING), STAR)
    assert played["end_s"] == pytest.approx(6 * (LATENCY_S + 4e6 / 4 / RATE), rel=1e-9)
    assert played["mean_exposed_s"] == pytest.approx(played["end_s"], rel=1e-9)


@pytest.mark.parametrize("size", ["2 GB/s", "8 GB/s"])
@pytest.mark.parametrize("hop", ["0.5 us", "20 us"])
def test_so_it_does_on_other_links(size: str, hop: str) -> None:
    links = {"2 GB/s": 2e9, "8 GB/s": 8e9}[size], 2 * {"0.5 us": 5e-7, "20 us": 2e-5}[hop]
    played = simulate_traces(read_chakra(RING), {**STAR, "link": size, "hop": hop})
    assert played["end_s"] == pytest.approx(6 * (links[1] + 1e6 / links[0]), rel=1e-9)


def test_a_node_is_what_googles_library_reads() -> None:
    message = ProtoMessage(
        7, "forward é", COMM_SEND, (5, 300), (6,), 1234,
        {"is_cpu_op": False, "num_ops": 10**15, "tensor_size": 2**40, "comm_type": 2, "comm_size": 10**12,
         "comm_src": 3, "comm_dst": 1023, "comm_tag": 9, "pg_name": "12", "algorithm": "ring", "seconds": 0.1},
    )  # fmt: skip
    node = chakra_schema.schema()["Node"].FromString(encode(message))
    assert (node.id, node.name, node.type, node.duration_micros) == (7, "forward é", COMM_SEND, 1234)
    assert (list(node.data_deps), list(node.ctrl_deps)) == ([5, 300], [6])
    values = {attr.name: getattr(attr, attr.WhichOneof("value")) for attr in node.attr}
    assert values == dict(message.attributes)
    kinds = {attr.name: attr.WhichOneof("value") for attr in node.attr}
    assert kinds["comm_size"] == kinds["comm_type"] == kinds["num_ops"] == "int64_val"
    assert kinds["comm_src"] == kinds["comm_dst"] == kinds["comm_tag"] == "int32_val"
    assert (kinds["tensor_size"], kinds["pg_name"], kinds["is_cpu_op"]) == ("uint64_val", "string_val", "bool_val")
    assert decode(encode(message)) == message


def test_attributes_of_any_type_are_read() -> None:
    node = chakra_schema.schema()["Node"](id=1, type=COMP)
    for name, kind, value in (
        ("a", "int64", -5), ("b", "uint32", 5), ("c", "float", 0.5), ("d", "double", -2.5), ("e", "bool", True),
        ("f", "string", "x"), ("g", "int32", -1), ("h", "uint64", 2**63),
    ):  # fmt: skip
        node.attr.add(name=name, **{f"{kind}_val": value})
    assert list(decode(node.SerializeToString()).attributes.values()) == [-5, 5, 0.5, -2.5, True, "x", -1, 2**63]


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any, list[list[TaskNode]]]:
    """Return a folder with the traces of a 3D layout, the point's set-up, and the graphs that were written."""
    scenario = {
        "model": "gpt2-small",
        "num_gpus": 8,
        "batch": {"per_gpu": 4},
        "topology": {"kind": "star", "num_hosts": 2, "host": "dgx-a100", "link": "infiniband-hdr", "hop": "1 us"},
        "software": "plain",
        "transport": "nccl",
        "strategy": {"kind": "all-reduce", "algorithm": "ring"},
        "parallelism": {"tensor": 2, "pipeline": 2, "micro_batches": 2, "sharding": "zero-1"},
    }
    setup = Setup(one_point(scenario)[1])
    programs = programs_of(setup)
    stages, ranks = programs.tasks(), range(8)
    folder = tmp_path_factory.mktemp("traces") / "out"
    written = write_chakra(folder, "gpt", stages, [programs.grid.stage(rank) for rank in ranks], programs.node)
    graphs = [[programs.node(task, rank) for task in stages[programs.grid.stage(rank)]] for rank in ranks]
    assert written.num_nodes == sum(map(len, graphs))
    return folder, setup, graphs


def test_our_own_export_played_back_takes_as_long_as_what_was_exported(exported: Any) -> None:
    folder, setup, graphs = exported
    back = simulate_traces(read_chakra(folder), setup.topology, "nccl", exact=True)
    direct = simulate_traces(graphs, setup.topology, "nccl", exact=True)
    for one, other in zip(back["ranks"], direct["ranks"], strict=True):
        assert one == pytest.approx(other, rel=1e-9, abs=1e-12)


def test_what_is_read_back_is_what_was_written(exported: Any) -> None:
    folder, _, graphs = exported
    back = read_chakra(folder)
    for graph, own in zip(graphs, back, strict=True):
        assert len(graph) == len(own)
        for one, other in zip(graph, own, strict=True):
            assert other.num_bytes == pytest.approx(one.num_bytes, rel=1e-12)
            assert other.seconds == pytest.approx(one.seconds, rel=1e-12)
            one = one._replace(channel=other.channel)
            whole = {"flop": round(one.flop), "moved_bytes": round(one.moved_bytes)}
            assert other._replace(num_bytes=0, seconds=0) == one._replace(num_bytes=0, seconds=0, **whole)


def test_googles_library_reads_every_file_of_ours(exported: Any) -> None:
    """Microseconds add up to the compute of a rank, and a group is in the file of groups by its number."""
    folder, _, graphs = exported
    groups = json.loads((folder / "groups.json").read_text())
    assert all(name.isdecimal() and int(name) > 0 for name in groups)
    classes = chakra_schema.schema()
    for rank, graph in enumerate(graphs):
        first, *rest = messages((folder / f"gpt.{rank}.et").read_bytes())
        assert classes["GlobalMetadata"].FromString(first).version == "0.0.4"
        nodes = [classes["Node"].FromString(message) for message in rest]
        work_s = sum(node.seconds for node in graph)
        assert sum(node.duration_micros for node in nodes) == pytest.approx(work_s * 1e6, abs=0.51)
        for node, ours in zip(nodes, graph, strict=True):
            values = {attr.name: getattr(attr, attr.WhichOneof("value")) for attr in node.attr}
            assert values["is_cpu_op"] is False
            if ours.kind == COLLECTIVE:
                assert groups[values["pg_name"]] == list(ours.group)
                share = len(ours.group) if ours.op == "all-gather" else 1
                assert values["comm_size"] * share == pytest.approx(ours.num_bytes, abs=share)
            if ours.kind == SEND:
                assert (values["comm_src"], values["comm_dst"]) == (rank, ours.peer)


def test_a_collective_of_all_ranks_has_no_group_of_its_own(tmp_path: Path) -> None:
    task = GraphTask(TaskNode(1, COLLECTIVE, "sum", num_bytes=10.5, op="all-reduce"), "data")
    write_chakra(tmp_path / "out", "job", [[task]], [0, 0], lambda task, rank: task.node._replace(group=(0, 1)))
    assert json.loads((tmp_path / "out" / "groups.json").read_text()) == {}
    node = read_chakra(tmp_path / "out")[1][0]
    assert (node.group, node.num_bytes) == ((0, 1), 10.5)


def test_groups_of_the_same_ranks_for_other_purposes_are_apart(tmp_path: Path) -> None:
    """As communicators are: their collectives do not wait for one another."""
    tasks = [
        GraphTask(TaskNode(number, COLLECTIVE, "sum", num_bytes=8.0, op="all-reduce"), axis)
        for number, axis in ((1, "a"), (2, "b"))
    ]
    write_chakra(
        tmp_path / "out", "job", [tasks], [0, 0],
        lambda task, rank: task.node._replace(group=(0, 1), channel=task.axis),
    )  # fmt: skip
    assert json.loads((tmp_path / "out" / "groups.json").read_text()) == {"1": [0, 1]}
    assert [node.channel for node in read_chakra(tmp_path / "out")[1]] == ["", "1"]


def test_a_broadcast_keeps_its_root(tmp_path: Path) -> None:
    task = GraphTask(TaskNode(1, COLLECTIVE, "weights", num_bytes=8.0, op="broadcast"), "data", root=2)
    write_chakra(tmp_path / "out", "job", [[task]], [0] * 3, lambda task, rank: task.node._replace(group=(2, 0, 1)))
    assert [graph[0].group for graph in read_chakra(tmp_path / "out")] == [(2, 0, 1)] * 3


def test_traces_are_written_whole_or_not_at_all(tmp_path: Path) -> None:
    def fails(task: GraphTask, rank: int) -> TaskNode:
        if rank:
            raise KeyboardInterrupt
        return task.node

    task = GraphTask(TaskNode(1, SEND, "out", peer=0))
    with pytest.raises(KeyboardInterrupt):
        write_chakra(tmp_path / "out", "job", [[task]], [0, 0], fails)
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "out").mkdir()
    write_chakra(
        tmp_path / "out",
        "job",
        [[GraphTask(TaskNode(1, COMPUTE, "a", seconds=1.0))]],
        [0],
        lambda task, rank: task.node,
    )
    assert [path.name for path in sorted((tmp_path / "out").iterdir())] == ["groups.json", "job.0.et"]
    with pytest.raises(InputError, match=r"out already exists and is not empty; choose a new folder"):
        write_chakra(tmp_path / "out", "job", [[]], [0], lambda task, rank: task.node)
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot write"):
        write_chakra(tmp_path / "file" / "out", "job", [[]], [0], lambda task, rank: task.node)


def test_a_compressed_trace_and_kinds_of_nodes_that_take_no_time_are_read(tmp_path: Path) -> None:
    nodes = [ProtoMessage(1, "about", METADATA), ProtoMessage(2, "load", 2, micros=5), compute(3, 10, data_deps=(1,))]
    trace(tmp_path, nodes)
    path = tmp_path / "job.0.et"
    path.write_bytes(gzip.compress(path.read_bytes()))
    graph = read_chakra(tmp_path)[0]
    assert [node.kind for node in graph] == [NOTHING, COMPUTE, COMPUTE]
    assert [node.seconds for node in graph] == pytest.approx([0.0, 5e-6, 1e-5], rel=1e-12)


def test_groups_are_those_of_a_file_and_all_ranks_where_there_is_none(tmp_path: Path) -> None:
    own = [all_reduce(1), all_reduce(2, pg_name="4", comm_type=2)]
    trace(tmp_path, own, [all_reduce(1)], own)
    groups = tmp_path.parent / "groups-of-test.json"
    groups.write_text('{"4": [0, 2]}')
    first, second = read_chakra(tmp_path, groups)[0]
    assert (first.group, first.num_bytes) == ((0, 1, 2), 8.0)
    assert (second.group, second.op, second.num_bytes) == ((0, 2), "all-gather", 16.0)


def send(tag: int = 1, **attributes: Any) -> ProtoMessage:
    return ProtoMessage(1, "out", COMM_SEND, attributes={"comm_size": 8, "comm_dst": 1, "comm_tag": tag, **attributes})


@pytest.mark.parametrize(
    ("ranks", "message"),
    [
        (
            [[compute(micros=0, attributes={"num_ops": 5})]],
            r"job\.0\.et: node 1 'work' has no duration; nodes are simulated",
        ),
        ([[compute(attributes={"seconds": -1.0})]], r"node 1 'work' takes -1 s"),
        ([[compute(attributes={"seconds": float("inf")})]], r"node 1 'work' has inf for seconds"),
        ([[compute(), compute()]], r"has several nodes with number 1"),
        ([[compute(data_deps=(9,))]], r"node 1 'work' depends on node 9, which does not exist"),
        ([[compute(1, data_deps=(2,)), compute(2, order_deps=(1,))]], r"node 1 'work' waits for itself"),
        ([[send()], []], r"rank 0 sends 1 messages of tag 1 to rank 1, which receives 0"),
        ([[send(comm_dst=5)], []], r"node 1 'out' is a message with rank 5"),
        ([[send(comm_src=1)], []], r"node 1 'out' belongs to rank 1, in the trace of rank 0"),
        ([[send(comm_size=-4)], []], r"node 1 'out' has -4 bytes"),
        ([[ProtoMessage(1, "sum", COMM_COLL)]], r"node 1 'sum' has no comm_type"),
        ([[all_reduce(comm_type=11)]], r"node 1 'sum' has the comm_type 11"),
        ([[all_reduce(root=1)]], r"node 1 'sum' has its root at index 1 of a group of 1"),
        ([[all_reduce(pg_name="3")]], r"is in group '3', which is not in the file of groups"),
        ([[all_reduce()], []], r"rank 1 enters 0 collectives of its group with rank 0, which enters 1"),
        ([[all_reduce()], [all_reduce(comm_size=9)]], r"job\.1\.et: node 1 'sum' is all-reduce of 9 bytes, but on"),
    ],
)
def test_what_cannot_be_simulated_is_reported_with_its_file_and_node(tmp_path: Path, ranks: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_chakra(trace(tmp_path, *ranks))


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"\x05ab", r"is not a Chakra trace: a message of 5 bytes is truncated"),
        (b"\x00\x02\x0b\x00", r"field 1 is of the unknown kind 3"),
        (b"\x00\x02\x12\x09", r"field 2 is truncated"),
        (b"\x00\x01\x88", r"it ends within a number"),
        (b"\xff" * 12, r"more than 64 bits"),
        (b"\x00\x06\x52\x04\x19abc", r"field 3 is truncated"),
        (b"\x00\x07\x52\x05\x1dabcd", r"field 3 of an attribute has 4 bytes"),
        (b"\x1f\x8b\x00", r"the gzip data ends too early"),
    ],
)
def test_bytes_that_are_no_trace_are_reported(tmp_path: Path, data: bytes, message: str) -> None:
    (tmp_path / "job.0.et").write_bytes(data)
    with pytest.raises(InputError, match=message):
        read_chakra(tmp_path)


def test_a_folder_without_a_trace_of_every_rank_is_reported(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="there is no folder") as message:
        read_chakra(tmp_path / "nothing")
    assert message.value.mistakes[0].file == str(tmp_path / "nothing")
    with pytest.raises(InputError, match="has no traces; one for each rank"):
        read_chakra(tmp_path)
    trace(tmp_path, [], [], [])
    (tmp_path / "job.1.et").unlink()
    with pytest.raises(InputError, match=r"has no job\.1\.et, but one of rank 2"):
        read_chakra(tmp_path)
    trace(tmp_path, [], name="other")
    with pytest.raises(InputError, match="traces of several names: job, other"):
        read_chakra(tmp_path)


@pytest.mark.parametrize("text", ['{"1": [0, 7]}', '{"1": [0, 0]}', '{"1": 3}', "[]", '{"1": []}'])
def test_groups_of_other_than_the_ranks_are_reported(tmp_path: Path, text: str) -> None:
    trace(tmp_path, [], [])
    (tmp_path / "groups.json").write_text(text)
    with pytest.raises(InputError, match="is not a list of ranks of the trace"):
        read_chakra(tmp_path)


def test_a_file_of_groups_that_is_none_and_one_of_several_are_reported(tmp_path: Path) -> None:
    trace(tmp_path, [all_reduce(pg_name="1")], [])
    (tmp_path / "a.json").write_text("{")
    with pytest.raises(InputError, match=r"a\.json: is truncated"):
        read_chakra(tmp_path)
    (tmp_path / "b.json").write_text('{"1": [1]}')
    with pytest.raises(InputError, match=r"several JSON files; select that of the groups \(--groups\)"):
        read_chakra(tmp_path)
    with pytest.raises(InputError, match="is in group '1', which does not contain rank 0"):
        read_chakra(tmp_path, tmp_path / "b.json")


def test_a_message_that_is_received_is_sent(tmp_path: Path) -> None:
    received = ProtoMessage(1, "in", 6, attributes={"comm_size": 8, "comm_src": 0, "comm_tag": 3})
    with pytest.raises(InputError, match="rank 0 sends 0 messages of tag 3 to rank 1, which receives 1"):
        read_chakra(trace(tmp_path, [], [received]))
    node = read_chakra(trace(tmp_path, [send(3)], [received]))[1][0]
    assert (node.kind, node.peer, node.tag) == (RECEIVE, 0, 3)
