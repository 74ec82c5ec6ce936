"""Chakra traces as PyTorch's converter, the jsonizer and ASTRA-sim's reader have them."""

from __future__ import annotations

import gzip
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from clustersim.cli import main
from clustersim.errors import InputError
from clustersim.interchange.chakra import read_chakra
from clustersim.interchange.chakra.message import (
    COMM_COLL,
    COMM_RECV,
    COMM_SEND,
    COMP,
    METADATA,
    ProtoMessage,
    decode,
    encode,
    framed,
)
from clustersim.interchange.chakra.wire import bytes_field, number_field, varint
from clustersim.program.graph import COLLECTIVE, COMPUTE, NOTHING
from clustersim.simulate.traces import simulate_traces
from tests.interchange import chakra_schema
from tests.mutations import check_mutations

SWITCH = {"kind": "star", "num_hosts": 4, "link": "50 GB/s", "hop": "1 us"}
MIB = 1 << 20
DURATION_S = 50e-6 + 2 * (2e-6 + MIB / 2 / 50e9)  # the product, and two steps of half a buffer over two hops

KINDS = ("INVALID", "METADATA", "MEM_LOAD", "MEM_STORE", "COMP", "COMM_SEND", "COMM_RECV", "COMM_COLL")


def converted() -> list[ProtoMessage]:
    """Return what the converter makes of a product and an all-reduce: the host's call, and the kernel under it."""
    return [
        ProtoMessage(1, "aten::addmm", COMP, micros=50, attributes={"is_cpu_op": True}),
        ProtoMessage(2, "c10d::allreduce_", COMM_COLL, (1,), micros=85, attributes={"is_cpu_op": True}),
        ProtoMessage(
            3, "ncclDevKernel_AllReduce_Sum_f32_RING_LL", COMM_COLL, (2,), micros=120,
            attributes={"is_cpu_op": False, "comm_type": 0, "comm_size": MIB},
        ),
    ]  # fmt: skip


def binary(nodes: Sequence[ProtoMessage], version: str | None = "0.0.4") -> bytes:
    head = b"" if version is None else framed(bytes_field(1, version))
    return head + b"".join(framed(encode(node)) for node in nodes)


def astra_sim(nodes: Sequence[ProtoMessage]) -> bytes:
    """Return nodes as ASTRA-sim's reader of JSON takes them."""
    graph = [
        {"Id": node.number, "Name": node.name, "NodeType": node.kind, "ctrlDeps": list(node.order_deps),
         "data_deps": list(node.data_deps), "runtime": node.micros, **node.attributes, **node.lists}
        for node in nodes
    ]  # fmt: skip
    return json.dumps({"workload_graph": graph}, indent=1).encode()


def jsonizer(nodes: Sequence[ProtoMessage]) -> bytes:
    """Return nodes as chakra_jsonizer writes them: one object after the other, 64-bit integers as text."""
    objects: list[dict[str, Any]] = [{"version": "0.0.4"}]
    for node in nodes:
        attr = []
        for name, value in node.attributes.items():
            kind = "boolVal" if isinstance(value, bool) else "int64Val" if isinstance(value, int) else "stringVal"
            attr.append({"name": name, kind: str(value) if kind == "int64Val" else value})
        attr += [{"name": name, "boolList": {"values": list(values)}} for name, values in node.lists.items()]
        objects.append(
            {"id": str(node.number), "name": node.name, "type": f"{KINDS[node.kind]}_NODE",
             "ctrlDeps": list(map(str, node.order_deps)), "dataDeps": list(map(str, node.data_deps)),
             "durationMicros": str(node.micros), "inputs": {"values": node.inputs}, "attr": attr}
        )  # fmt: skip
    return "".join(json.dumps(each, indent=2) for each in objects).encode()


FORMS = {"et": binary, "astra-sim": astra_sim, "jsonizer": jsonizer}


def folder_of(folder: Path, *ranks: Sequence[ProtoMessage], form: str = "et") -> Path:
    ending = "et" if form == "et" else "json"
    for rank, nodes in enumerate(ranks):
        (folder / f"t.{rank}.{ending}").write_bytes(FORMS[form](nodes))
    return folder


@pytest.mark.parametrize("form", FORMS)
def test_a_call_of_the_host_is_no_message(tmp_path: Path, form: str) -> None:
    notes: list[str] = []
    graphs = read_chakra(folder_of(tmp_path, converted(), converted(), form=form), notes=notes)
    assert [node.kind for node in graphs[0]] == [COMPUTE, NOTHING, COLLECTIVE]
    assert simulate_traces(graphs, SWITCH)["end_s"] == pytest.approx(DURATION_S, rel=1e-9)
    assert pytest.approx(74.97152e-6, rel=1e-6) == DURATION_S
    assert notes == ["Operators of the host that start communication (is_cpu_op) are no messages, and take no time."]


def test_play_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cluster = tmp_path / "switch.yaml"
    cluster.write_text(json.dumps(SWITCH))
    (tmp_path / "traces").mkdir()
    folder_of(tmp_path / "traces", converted(), converted())
    assert main(["play", str(tmp_path / "traces"), "--topology", str(cluster), "-q"]) == 0
    shown = capsys.readouterr()
    assert "0.0749715 ms" in shown.out
    assert "note: Operators of the host that start communication" in shown.err


def test_the_jsonizers_form_is_that_of_googles_library(tmp_path: Path) -> None:
    classes = chakra_schema.schema()
    json_format = pytest.importorskip("google.protobuf.json_format")
    text = json_format.MessageToJson(classes["GlobalMetadata"](version="0.0.4"))
    for node in converted():
        text += json_format.MessageToJson(classes["Node"].FromString(encode(node)))
    for rank in range(2):
        (tmp_path / f"t.{rank}.json").write_text(text)
    assert simulate_traces(read_chakra(tmp_path), SWITCH)["end_s"] == pytest.approx(DURATION_S, rel=1e-9)


@pytest.mark.parametrize("form", FORMS)
def test_traces_may_be_compressed(tmp_path: Path, form: str) -> None:
    folder_of(tmp_path, converted(), converted(), form=form)
    for path in list(tmp_path.iterdir()):
        path.with_name(f"{path.name}.gz").write_bytes(gzip.compress(path.read_bytes()))
        path.unlink()
    assert len(read_chakra(tmp_path)) == 2


def test_the_file_of_groups_stands_beside_traces_in_json(tmp_path: Path) -> None:
    nodes = [*converted()[:2], ProtoMessage(3, "sum", COMM_COLL, (2,), attributes={
        "is_cpu_op": False, "comm_type": 0, "comm_size": 8, "pg_name": "5"})]  # fmt: skip
    folder_of(tmp_path, nodes, converted()[:2], nodes, form="astra-sim")
    (tmp_path / "groups.json").write_text('{"5": [0, 2]}')
    assert read_chakra(tmp_path)[2][2].group == (0, 2)


def groups_node(groups: object, style: str) -> ProtoMessage:
    text = {
        "converter": str([json.dumps(groups)]),
        "json": json.dumps([[groups]]),
        "text": json.dumps([json.dumps(groups)]),
    }[style]
    return ProtoMessage(9, "## process_group:init ##", METADATA, inputs=text)


def in_group(name: object, **more: Any) -> ProtoMessage:
    attributes = {"is_cpu_op": False, "comm_type": 0, "comm_size": 8, **more}
    return ProtoMessage(3, "sum", COMM_COLL, attributes={**attributes, **({} if name is None else {"pg_name": name})})


GROUPS = [
    {"pg_name": "0", "pg_desc": "default_pg", "backend_config": "cuda:nccl", "ranks": [], "group_size": 4},
    {"pg_name": "3", "pg_desc": "mesh_tp", "backend_config": "cuda:nccl", "ranks": [0, 2], "group_size": 2},
]


@pytest.mark.parametrize("style", ["converter", "json", "text"])
def test_process_groups_of_pytorch_are_read_from_its_metadata_node(tmp_path: Path, style: str) -> None:
    """torch's ExecutionTraceObserver writes them as a text; the converter keeps it as the inputs of the node."""
    own = [groups_node(GROUPS, style), in_group("3")]
    other = [groups_node(GROUPS[:1], style)]
    folder_of(tmp_path, own, other, own, other, form="jsonizer")
    notes: list[str] = []
    graphs = read_chakra(tmp_path, notes=notes)
    assert graphs[0][1].group == graphs[2][1].group == (0, 2)
    assert notes == ["Groups of ranks are the process groups in the traces."]


def test_inputs_of_a_binary_node_are_read() -> None:
    data = encode(ProtoMessage(9, "## process_group:init ##", METADATA)) + bytes_field(8, bytes_field(1, "[[{}]]"))
    assert decode(data).inputs == "[[{}]]"


@pytest.mark.parametrize(
    ("groups", "said"),
    [
        ([{"pg_name": "1", "ranks": [0, 9]}], "process group '1' is not among the 2 ranks that have a trace"),
        ([{"pg_name": "1", "ranks": [], "group_size": 8}], "is not among the 2 ranks"),
        ([{"pg_name": "1", "ranks": "all"}], "a process group has no 'pg_name' or no list 'ranks'"),
        ([[[[[[[1]]]]]]], "nested too deeply"),
    ],
)
def test_process_groups_that_are_none_are_told(tmp_path: Path, groups: object, said: str) -> None:
    folder_of(tmp_path, [groups_node(groups, "json")], [], form="jsonizer")
    with pytest.raises(InputError, match=rf"node 9 '## process_group:init ##': .*{said}.*; give --groups FILE"):
        read_chakra(tmp_path)


def test_a_group_may_be_a_number_a_float_or_ranks(tmp_path: Path) -> None:
    (tmp_path / "groups.json").write_text('{"5": [0, 1]}')
    for name in ("5", 5):
        folder_of(tmp_path, [in_group(name)], [in_group(name)], form="astra-sim")
        assert read_chakra(tmp_path)[0][0].group == (0, 1)
    folder_of(tmp_path, [in_group(None, comm_group="5")], [in_group(None, comm_group="5")], form="astra-sim")
    assert read_chakra(tmp_path)[0][0].group == (0, 1)
    ranked = ProtoMessage(
        1, "sum", COMM_COLL, attributes={"comm_type": 0, "comm_size": 8}, lists={"comm_group": (1, 0)}
    )
    folder_of(tmp_path, [ranked], [ranked], form="astra-sim")
    assert read_chakra(tmp_path)[0][0].group == (1, 0)


@pytest.mark.parametrize("form", ["astra-sim", "jsonizer"])
def test_collectives_along_some_dimensions_of_the_network_are_refused(tmp_path: Path, form: str) -> None:
    def along(*dimensions: bool) -> ProtoMessage:
        attributes = {"comm_type": 0, "comm_size": 8}
        return ProtoMessage(1, "sum", COMM_COLL, attributes=attributes, lists={"involved_dim": dimensions})

    folder_of(tmp_path, [along(True, True)], [along(True, True)], form=form)
    assert read_chakra(tmp_path)[0][0].group == (0, 1)
    folder_of(tmp_path, [along(True, False)], [along(True, False)], form=form)
    with pytest.raises(InputError, match=r"runs along some dimensions of the network only \(involved_dim\); give its"):
        read_chakra(tmp_path)


def test_lists_of_attributes_are_decoded() -> None:
    def attribute(name: str, number: int, values: bytes) -> bytes:
        return bytes_field(10, bytes_field(1, name) + bytes_field(number, values))

    packed = bytes_field(1, b"".join(map(varint, (1, 0, 300))))
    data = attribute("a", 10, packed) + attribute("b", 28, packed) + attribute("c", 30, bytes_field(1, "x") * 2)
    data += attribute("d", 8, varint(8) + varint(-1)) + attribute("e", 4, bytes_field(1, b"\0" * 16))
    assert decode(encode(ProtoMessage(1, "n", COMP)) + data).lists == {
        "a": (1, 0, 300), "b": (True, False, True), "c": ("x", "x"), "d": (-1,), "e": (0.0, 0.0),
    }  # fmt: skip


def test_a_trace_without_metadata_loses_no_node_and_another_version_is_noted(tmp_path: Path) -> None:
    for rank in range(2):
        (tmp_path / f"t.{rank}.et").write_bytes(binary(converted(), None))
    assert len(read_chakra(tmp_path)[0]) == 3
    notes: list[str] = []
    for rank in range(2):
        (tmp_path / f"t.{rank}.et").write_bytes(binary(converted()[:1], "2.7.1"))
    read_chakra(tmp_path, notes=notes)
    assert notes == ["The traces are of version 2.7.1; nodes are read as of 0.0.4, 1.0.0."]


@pytest.mark.parametrize("is_caller_there", [False, True])
def test_control_dependencies_of_pytorch_are_callers_and_not_used(tmp_path: Path, is_caller_there: bool) -> None:
    """Chakra's converter keeps the number of the calling node, often without the node; its own reader ignores these."""
    called = ProtoMessage(216, "aten::add", COMP, order_deps=(217,), micros=9)
    caller = ProtoMessage(217, "aten::linear", COMP, (216,), micros=9)
    data = framed(bytes_field(1, "0.0.4"))
    if is_caller_there:
        rf_id = bytes_field(10, bytes_field(1, "rf_id") + number_field(9, 7))
        data += framed(encode(called) + rf_id) + framed(encode(caller))
    else:
        data += framed(encode(called))
    (tmp_path / "t.0.et").write_bytes(data)
    notes: list[str] = []
    graphs = read_chakra(tmp_path, notes=notes)
    assert [node.order_deps for node in graphs[0]] == [()] * len(graphs[0])
    assert notes[0].startswith("Control dependencies are the callers of operators, as PyTorch records them")


@pytest.mark.parametrize("kind", [COMM_SEND, COMM_RECV])
def test_messages_of_pytorch_without_a_peer_are_refused(tmp_path: Path, kind: int) -> None:
    """Chakra's converter writes only their size."""
    nodes = [ProtoMessage(1, "ncclDevKernel_SendRecv", kind, attributes={"comm_size": 8, "is_cpu_op": False})]
    with pytest.raises(InputError, match="Chakra's converter leaves the peers of PyTorch's sends and receives out"):
        read_chakra(folder_of(tmp_path, nodes, nodes))


def test_the_hosts_trace_of_pytorch_is_refused_with_what_to_do(tmp_path: Path) -> None:
    document = {"schema": "1.1.1-chakra.0.0.4", "pid": 1, "nodes": []}
    (tmp_path / "t.0.json").write_text(json.dumps(document))
    with pytest.raises(InputError, match=r"t\.0\.json: is the host's trace of PyTorch.*chakra_trace_link.*converter"):
        read_chakra(tmp_path)


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("Id", -1, r"workload_graph\.0\.id: expected a whole number, 0 or more \(got -1\)"),
        ("Id", "x", r"workload_graph\.0\.id: expected a whole number"),
        ("Name", 7, r"workload_graph\.0\.name: expected text"),
        ("NodeType", "SOME_NODE", r"workload_graph\.0\.type: expected a whole number"),
        ("NodeType", 0, r"node 1 'aten::addmm' has the type 0"),
        ("NodeType", 12, r"node 1 'aten::addmm' has the type 12"),
        ("runtime", 2.5, r"workload_graph\.0\.duration: expected a whole number"),
        ("data_deps", {"a": 1}, r"workload_graph\.0\.datadeps: expected a list of numbers"),
        ("data_deps", ["y"], r"workload_graph\.0\.datadeps: expected a whole number"),
        ("num_ops", {"a": 1}, r"workload_graph\.0\.num_ops: expected a number, text, or a list of these"),
        ("num_ops", 10**400, r"workload_graph\.0\.num_ops: expected a number"),
        ("attr", 5, r"workload_graph\.0\.attr: expected a list"),
    ],
)
def test_a_wrong_type_in_json_is_told_with_its_key(tmp_path: Path, key: str, value: object, said: str) -> None:
    document = json.loads(astra_sim(converted()[:1]))
    document["workload_graph"][0][key] = value
    (tmp_path / "t.0.json").write_text(json.dumps(document))
    with pytest.raises(InputError, match=rf"t\.0\.json: {said}"):
        read_chakra(tmp_path)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[1, 2]", r"t\.0\.json:1: is not a Chakra trace: it is not a map"),
        ('{"version": "0.0.4"}\n{"id": ', r"t\.0\.json:2: is not a Chakra trace: Expecting value"),
        ("[" * 100_000, "nested too deeply"),
        ('{"workload_graph": [3]}', r"workload_graph\.0: expected a map"),
    ],
)
def test_json_that_is_no_trace_is_told(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "t.0.json").write_text(text)
    with pytest.raises(InputError, match=said):
        read_chakra(tmp_path)


def test_what_a_trace_unpacks_to_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("clustersim.interchange.chakra.files.MAX_BYTES", 1_000_000)
    (tmp_path / "t.0.et").write_bytes(gzip.compress(b"\0" * 3_000_000))
    with pytest.raises(InputError, match="the file is too large; at most 1 MB, unpacked"):
        read_chakra(tmp_path)


@pytest.mark.parametrize("form", [*FORMS, "groups", "packed"])
def test_mutated_traces_are_read_or_refused(tmp_path: Path, form: str) -> None:
    nodes = [*converted(), groups_node(GROUPS[:1], "converter")]
    folder_of(tmp_path, nodes, nodes, nodes, nodes, form=form if form in FORMS else "et")
    path = tmp_path / ("groups.json" if form == "groups" else f"t.0.{'et' if form in ('et', 'packed') else 'json'}")
    document = b'{"1": [0, 1], "2": [2, 3]}' if form == "groups" else path.read_bytes()
    if form == "packed":
        document = gzip.compress(document)
    num_read, num_refused = check_mutations(lambda changed: read_chakra(tmp_path), document, path)
    assert num_refused > 50
    assert num_read > 20
