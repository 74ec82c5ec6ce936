"""A run on real nodes against its simulation: closed forms, calibration, and incomplete files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from clustersim.errors import InputError
from clustersim.model import load_workload
from clustersim.program import PYTORCH_CAPS, assign_buckets
from clustersim.simulate import simulate
from clustersim.validation.real import RealVerdict, validate_real
from clustersim.validation.real_cluster import cluster_of
from clustersim.validation.real_file import read_real_run
from clustersim.validation.verdict import Compared
from tests.validation import real_runs as made

ROOT = Path(__file__).resolve().parent.parent / "interchange" / "topo"

MATRIX = "\n".join(
    ["\t".join(["", *(f"GPU{b}" for b in range(8)), "NIC0", "CPU Affinity", "NUMA Affinity"])]
    + [
        "\t".join([f"GPU{a}", *("X" if a == b else "NV18" for b in range(8)), "PXB" if a < 4 else "SYS", "0-55", "0"])
        for a in range(8)
    ]
)


def one(found: RealVerdict, text: str) -> Compared:
    (point,) = [point for point in found.verdict.cases[0].points if text in point.label]
    return point


def reasons(found: RealVerdict) -> list[str]:
    return [each.reason for each in found.verdict.skipped]


def buckets() -> list[float]:
    """Return the bytes of AlexNet's buckets as DDP has them."""
    sizes = [4.0 * layer.num_parameters for layer in reversed(load_workload("alexnet")[0].layers)]
    return [sum(sizes[number] for number in bucket) for bucket in assign_buckets(sizes, PYTORCH_CAPS)]


def test_the_rate_of_a_link_is_recovered_from_its_all_reduces(tmp_path: Path) -> None:
    found = validate_real(made.write(tmp_path, made.document(made.sweep())))
    topology = found.cluster.topology
    assert topology is not None
    assert float(topology["link"].split()[0]) == pytest.approx(1.0, rel=1e-3)
    assert float(topology["hop"].split()[0]) == pytest.approx(20.0, rel=2e-2)
    assert [point.role for point in found.verdict.cases[0].points] == ["calibration"] * len(made.SIZES)
    assert max(abs(point.error) for point in found.verdict.cases[0].points) < 1e-3


def test_compute_alone_calibrates_and_comes_back_as_it_was_given(tmp_path: Path) -> None:
    found = validate_real(made.write(tmp_path, made.document(made.compute())))
    point = one(found, "compute")
    assert point.role == "calibration"
    assert point.error == pytest.approx(0.0, abs=1e-9)


def test_an_exchange_after_backward_takes_compute_and_then_every_bucket(tmp_path: Path) -> None:
    sent_s = sum(made.all_reduce_s(2, size) for size in buckets())
    late = made.training("no-overlap", iteration_s=0.31 + sent_s, buckets=buckets())
    alone = made.training("communication", iteration_s=sent_s, buckets=buckets())
    found = validate_real(made.write(tmp_path, made.document(made.sweep(), made.compute(), late, alone)))
    for name in ("no-overlap", "communication"):
        assert one(found, name).role == "prediction"
        assert one(found, name).error == pytest.approx(0.0, abs=2e-3)


def test_a_straggler_makes_all_as_slow_as_itself(tmp_path: Path) -> None:
    sent_s = sum(made.all_reduce_s(2, size) for size in buckets())
    slow = made.training("no-overlap", straggler={"rank": 1, "factor": 3}, iteration_s=3 * 0.30 + 0.01 + sent_s)
    found = validate_real(made.write(tmp_path, made.document(made.sweep(), made.compute(), slow)))
    assert one(found, "no-overlap").error == pytest.approx(2 * 0.01 / slow["iteration_s"], abs=2e-3)  # its update too


def test_overlap_hides_what_backward_is_long_enough_for(tmp_path: Path) -> None:
    one_way = made.training("overlap", iteration_s=1.0)
    found = validate_real(made.write(tmp_path, made.document(made.sweep(), made.compute(backward_s=20.0), one_way)))
    sent_s = sum(made.all_reduce_s(2, size) for size in buckets())
    assert 20.11 < one(found, "overlap").simulated / 1e3 < 20.11 + sent_s


def test_rank_0_is_a_server_and_not_a_worker(tmp_path: Path) -> None:
    server = made.training("server", iteration_s=1.0, workers=[1, 2], straggler={"rank": 2, "factor": 2})
    run = made.document(made.sweep(3), made.compute(), server, facts=made.facts(3))
    found = validate_real(made.write(tmp_path, run))
    assert one(found, "server").num_gpus == 2
    assert one(found, "server").simulated > 600.0  # the slowed worker's forward and backward alone
    server["straggler"] = {"rank": 0, "factor": 2}
    found = validate_real(made.write(tmp_path, run))
    assert "alexnet: server: the straggler is rank 0, which is not a worker" in reasons(found)


def test_asynchronous_workers_have_updates_and_staleness(tmp_path: Path) -> None:
    late = made.training("async", update_s=0.2, staleness={"mean": 1.0}, updates={"time_s": [0.0] * 20}, workers=[1, 2])
    fresh = made.training("async", "alone", update_s=0.4, staleness={"mean": 0.0}, workers=[1])
    run = made.document(made.sweep(3), made.compute(), late, fresh, facts=made.facts(3))
    points = [
        point for point in validate_real(made.write(tmp_path, run)).verdict.cases[0].points if "async" in point.where
    ]
    assert [(point.metric, point.num_gpus) for point in points] == [("update_s", 2), ("staleness.mean", 2)]
    assert points[1].simulated == pytest.approx(1.0)
    (alone,) = [
        point for point in validate_real(made.write(tmp_path, run)).verdict.cases[0].points if "alone" in point.where
    ]
    assert alone.metric == "update_s"


def test_layers_one_by_one_are_compared_with_the_whole_iteration(tmp_path: Path) -> None:
    rows = [{"name": name, "op": "x", "forward_s": 0.02, "backward_weights_s": 0.04} for name in made.LAYERS]
    names = [row["name"] for row in made.compute()["layers"]]
    rows += [{"name": name, "forward_s": 0.0} for name in names if name not in made.LAYERS]
    layers = made.training("layers", layers=rows, update_s=0.01)
    found = validate_real(made.write(tmp_path, made.document(layers, made.compute())))
    point = one(found, "one by one")
    assert (point.role, point.num_gpus) == ("prediction", 1)
    assert point.error == pytest.approx((3 * 0.06 + 0.01) / 0.31 - 1)
    alone = validate_real(made.write(tmp_path, made.document(layers)))
    assert "no complete compute-only phase of alexnet to compare its layers with" in reasons(alone)[0]


def test_without_all_reduces_the_rate_of_the_link_is_unknown(tmp_path: Path) -> None:
    late = made.training("overlap", iteration_s=1.0)
    found = validate_real(made.write(tmp_path, made.document(made.compute(), late)))
    assert len(found.verdict.cases[0].points) == 1
    assert "the link between ranks is known neither by name nor" in reasons(found)[0]
    assert any("no complete all-reduce phase to fit it to" in note for note in found.cluster.notes)


def test_without_compute_alone_a_training_is_left_out_and_the_rest_compared(tmp_path: Path) -> None:
    found = validate_real(made.write(tmp_path, made.document(made.sweep(), made.training("overlap", iteration_s=1.0))))
    assert len(found.verdict.cases[0].points) == len(made.SIZES)
    assert "which gives the compute times" in reasons(found)[0]


def test_an_unknown_model_is_left_out_and_the_rest_compared(tmp_path: Path) -> None:
    unknown = made.compute() | {"model": "alexnett"}
    found = validate_real(made.write(tmp_path, made.document(unknown, made.compute())))
    assert len(found.verdict.cases[0].points) == 1
    assert "alexnett" in reasons(found)[0]


@pytest.mark.parametrize("per_host", [1, 2, 8])
def test_gpus_of_one_host_are_connected_as_in_the_matrix(tmp_path: Path, per_host: int) -> None:
    facts = made.gpu_facts(1, per_host, {"nvidia_smi_topo": MATRIX})
    path = made.write(tmp_path, made.document(made.compute(), made.training("overlap", iteration_s=1.0), facts=facts))
    found = validate_real(path)
    assert (found.cluster.transport, found.cluster.is_fitted) == ("nccl", False)
    assert found.cluster.topology is not None
    if per_host > 1:
        host = found.cluster.topology["host"]
        kinds = [node["kind"] for node in host["nodes"]]
        assert (host["template"], kinds.count("gpu"), kinds.count("nvswitch")) == ("explicit", 8, 1)
        assert not reasons(found)
    assert one(found, "compute").error == pytest.approx(0.0, abs=1e-9)


@pytest.mark.parametrize(
    ("name", "busbw", "most"),
    [("a100-4gpu-nv4-mesh", 72e9, 100e9), ("a100-pcie-nvlink-pairs", 208e9, 300e9)],
)
def test_links_between_two_gpus_are_those_of_the_matrix(name: str, busbw: float, most: float) -> None:
    """NVIDIA/nccl-tests, issues 331 (four links in each pair of a mesh) and 178 (a bridge of twelve)."""
    found = validate_real(ROOT / f"{name}.run.json")
    points = found.verdict.cases[0].points
    assert {point.role for point in points} == {"prediction"}
    for point in points:
        num_bytes = 1 << (28 if point is points[0] else 30)
        assert num_bytes / point.measured * 1e3 == pytest.approx(busbw, rel=1e-6)
        assert num_bytes / point.simulated * 1e3 < most
        assert abs(point.error) < 0.15


def test_all_reduces_are_predicted_where_the_links_are_known(tmp_path: Path) -> None:
    facts = made.gpu_facts(1, 8, {"nvidia_smi_topo": MATRIX})
    found = validate_real(made.write(tmp_path, made.document(made.sweep(), facts=facts)))
    assert {point.role for point in found.verdict.cases[0].points} == {"prediction"}


@pytest.mark.parametrize(
    ("host", "link", "transport"),
    [
        ({"infiniband": [{"rate": "400 Gb/sec (4X NDR)", "layer": "InfiniBand"}]}, "infiniband-ndr", "nccl"),
        ({"infiniband": [{"rate": "100 Gb/sec (4X EDR)", "layer": "Ethernet"}]}, "100 Gbit/s", "nccl"),
        ({"interfaces": [{"name": "eth0", "mbit_per_s": 10000}]}, "ethernet-10g", "nccl-sockets"),
        ({"interfaces": [{"name": "eth0", "mbit_per_s": 40000}]}, "40000 Mbit/s", "nccl-sockets"),
    ],
)
def test_hosts_are_connected_by_their_adapters(
    tmp_path: Path, host: dict[str, object], link: str, transport: str
) -> None:
    facts = made.gpu_facts(2, 4, {"nvidia_smi_topo": None, **host})
    cluster = cluster_of(read_real_run(made.write(tmp_path, made.document(facts=facts))), tmp_path)
    assert cluster.topology is not None
    assert (cluster.topology["link"], cluster.transport) == (link, transport)
    assert (cluster.topology["num_hosts"], cluster.topology["host"]["num_gpus"]) == (2, 4)
    assert any("one shared PCIe root is assumed" in note for note in cluster.notes)
    assert "clocks of the hosts were aligned to within 30.0 us" in cluster.notes


def test_a_gpu_that_has_a_sheet_is_forecast_without_the_run_too(tmp_path: Path) -> None:
    facts = made.gpu_facts(1, 1, {})
    found = validate_real(made.write(tmp_path, made.document(made.compute(), facts=facts)))
    point = one(found, "without measurements of this run")
    own = {"kind": "star", "num_hosts": 1, "gpu": "h100", "link": "1 GB/s"}
    scenario = {
        "model": "alexnet",
        "num_gpus": 1,
        "batch": {"per_gpu": 4},
        "topology": own,
        "software": "plain",
        "strategy": "all-reduce",
    }
    assert point.role == "prediction"
    assert point.simulated == pytest.approx(1e3 * simulate(scenario | {"strategy": {"kind": "all-reduce"}}).iteration_s)


def test_a_warning_of_a_simulation_is_a_note(tmp_path: Path) -> None:
    facts = made.gpu_facts(1, 1, {})
    found = validate_real(made.write(tmp_path, made.document(made.compute() | {"batch": 10**6}, facts=facts)))
    (warning,) = found.notes
    assert "memory" in warning


def test_an_unknown_network_is_fitted(tmp_path: Path) -> None:
    facts = made.gpu_facts(2, 1, {})
    found = validate_real(made.write(tmp_path, made.document(made.sweep(), facts=facts)))
    assert found.cluster.is_fitted
    assert found.cluster.servers_on == "host-memory"
    assert {point.role for point in found.verdict.cases[0].points} == {"calibration"}


def test_a_gpu_without_a_sheet_gets_one_from_the_run(tmp_path: Path) -> None:
    facts = made.gpu_facts(1, 1, {})
    facts["ranks"][0]["device"] = {"name": "NVIDIA Whatever 9000", "kind": "cuda", "num_multiprocessors": 7}
    found = validate_real(made.write(tmp_path, made.document(made.compute(), facts=facts)))
    assert one(found, "compute").error == pytest.approx(0.0, abs=1e-9)
    assert any("no sheet for NVIDIA Whatever 9000" in note for note in found.cluster.notes)


def test_more_ranks_than_cores_are_reported(tmp_path: Path) -> None:
    run = made.document(facts=made.facts(2, hosts=[{"num_cores": 1}]))
    assert any("more ranks than cores" in note for note in validate_real(made.write(tmp_path, run)).cluster.notes)


def test_the_known_parts_of_a_newer_workers_file_are_compared(tmp_path: Path) -> None:
    new = {"name": "pipeline", "kind": "pipeline", "stages": 4}
    run = made.document(made.compute() | {"watts": 300}, new, schema="clustersim.real-run/2", mood="good")
    found = validate_real(made.write(tmp_path, run))
    assert one(found, "compute").error == pytest.approx(0.0, abs=1e-9)
    assert "clustersim.real-run/2, of a newer worker than this clustersim" in reasons(found)[0]
    assert "unknown kind of phase 'pipeline'" in reasons(found)[1]


def test_the_finished_phases_of_a_failed_job_are_compared(tmp_path: Path) -> None:
    failure = {"phase": "alexnet: overlap", "reason": "OutOfMemoryError: 2 GiB"}
    run = made.document(made.compute(), failure=failure, complete=False)
    run["planned"] += ["alexnet: overlap", "alexnet: async"]
    found = validate_real(made.write(tmp_path, run))
    assert one(found, "compute").error == pytest.approx(0.0, abs=1e-9)
    assert reasons(found) == [
        "alexnet: overlap: the job failed here (OutOfMemoryError: 2 GiB)",
        "alexnet: async: was not measured: the job ended before it",
    ]


@pytest.mark.parametrize("share", [0.3, 0.5, 0.7, 0.9, 0.99])
def test_the_complete_part_of_a_cut_off_file_is_compared(tmp_path: Path, share: float) -> None:
    text = made.STORED.read_text(encoding="utf-8")
    whole = read_real_run(made.STORED)
    run = read_real_run(made.write(tmp_path, text[: int(share * len(text))]))
    assert run.phases == whole.phases[: len(run.phases)]
    assert 0 < len(run.phases) < len(whole.phases) + (share == 0.99)
    assert "the file is cut off or damaged at line" in run.missing[0]
    assert len(run.missing) - 1 == len(whole.phases) - len(run.phases)


def test_a_wrong_value_in_a_phase_is_reported_with_its_key(tmp_path: Path) -> None:
    wrong = made.compute() | {"name": "odd", "iteration_s": -1}
    uneven = made.compute() | {"name": "uneven", "spans": {"kind": ["forward"]}}
    found = validate_real(made.write(tmp_path, made.document(made.compute(), wrong, uneven)))
    assert len(found.verdict.cases[0].points) == 1
    assert reasons(found)[0].startswith("odd: iteration_s: ")
    assert "the columns of spans differ in length" in reasons(found)[1]


@pytest.mark.parametrize("junk", [None, [], {"a": 1}, 3])
@pytest.mark.parametrize("key", ["name", "kind", "model", "layers"])
def test_a_wrong_phase_does_not_affect_others(tmp_path: Path, key: str, junk: object) -> None:
    run = made.document(made.compute(), made.compute() | {key: junk}, planned=[junk])
    found = validate_real(made.write(tmp_path, run))
    assert len(found.verdict.cases[0].points) == 1
    assert found.verdict.skipped


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "this is not a run file of validate/real_run/worker.py"),
        ("[1, 2]", "this is not a run file of validate/real_run/worker.py"),
        ('{"schema": "clustersim.result/1"}', "this is not a run file of validate/real_run/worker.py"),
        (
            '{"schema": "clustersim.real-run/1", "facts": {"backend"',
            "facts: the facts of the nodes are wrong or missing: expected a map of 'key: value'",
        ),
        (
            '{"schema": "clustersim.real-run/1", "facts": {"num_ranks": 2}}',
            "the facts of the nodes are wrong or missing: backend: this key is missing",
        ),
    ],
)
def test_a_file_that_is_not_a_run_file_is_refused(tmp_path: Path, content: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        validate_real(made.write(tmp_path, content))


def test_the_stored_run_is_complete_and_forecast_as_on_the_page() -> None:
    found = validate_real(made.STORED)
    assert not found.verdict.skipped
    summary = found.verdict.summary()
    assert summary.num_points == 9
    assert summary.median_abs_error == pytest.approx(0.05, abs=0.01)  # as the how-to page has it
    assert max(abs(error) for error in found.verdict.cases[0].errors()) < 0.15
    document = json.loads(json.dumps(found.verdict.to_dict(), allow_nan=False))
    assert document["schema"] == "clustersim.validation/1"
