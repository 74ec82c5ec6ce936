"""Compression in a whole forecast: what travels, what is computed more, and what comes back from servers."""

from __future__ import annotations

import pytest

import clustersim
from clustersim.collectives import closed_form
from clustersim.hardware import load_gpu
from clustersim.kernels import COMPRESSIONS
from clustersim.model import load_model

RATE, HOP, HOSTS = 1.25e9, 1e-6, 9
PARAMETERS = float(load_model("squeezenet-1.0").num_parameters)
KINDS = {"int8": {"group": 512}, "one-bit": {"group": 512}, "top-k": {"density": 0.01}}


@pytest.fixture
def scenario():
    return {
        "name": "test",
        "model": "squeezenet-1.0",
        "num_gpus": 8,
        "batch": {"per_gpu": 8},
        "topology": {"kind": "star", "num_hosts": HOSTS, "gpu": "p100", "link": "10 Gbit/s", "hop": "1 us"},
        "software": {"name": "plain", "bucket_copies": "none"},
        "strategy": {"kind": "all-reduce", "algorithm": "ring", "overlap": False, "buckets": "whole"},
        "compute": {"variability": 0},
        "num_iterations": 2,
    }


def made(kind):
    return COMPRESSIONS[kind].model_validate(KINDS.get(kind, {}))


def run(scenario, kind="none", **changes):
    return clustersim.simulate({**scenario, **changes, "compression": {"kind": kind, **KINDS.get(kind, {})}})


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("num_gpus", [2, 8])
def test_what_cannot_be_added_is_gathered_and_decoded_from_every_worker(scenario, kind, num_gpus):
    """An all-gather moves (n - 1) compressed gradients in and out of every worker."""
    plain, small = run(scenario, num_gpus=num_gpus), run(scenario, kind, num_gpus=num_gpus)
    compression, gpu = made(kind), load_gpu("p100")
    codec_s = compression.encode_s(PARAMETERS, 4, gpu) + compression.decode_s(PARAMETERS, 4, num_gpus, gpu)
    assert small.breakdown_s["compute"] - plain.breakdown_s["compute"] == pytest.approx(codec_s, rel=1e-6)
    gathered = num_gpus * PARAMETERS * compression.wire_bytes(4)
    exchange_s = closed_form("all-gather", "ring", num_gpus, gathered, 2 * HOP, RATE)
    assert small.breakdown_s["communication_exposed"] == pytest.approx(exchange_s, rel=1e-9)
    assert small.buckets[0][1:] == (pytest.approx(PARAMETERS * compression.wire_bytes(4)), "ring all-gather")


def test_half_precision_still_adds_on_the_way_and_converts_twice(scenario):
    plain, small = run(scenario), run(scenario, "fp16")
    exchange_s = closed_form("all-reduce", "ring", 8, PARAMETERS * 2, 2 * HOP, RATE)
    assert small.breakdown_s["communication_exposed"] == pytest.approx(exchange_s, rel=1e-9)
    convert_s = made("fp16").encode_s(PARAMETERS, 4, load_gpu("p100"))
    assert small.breakdown_s["compute"] - plain.breakdown_s["compute"] == pytest.approx(2 * convert_s, rel=1e-6)


def test_eight_bits_gain_nothing_over_a_ring_once_eight_workers_gather(scenario):
    """2 (n - 1) / n of 4 bytes against n - 1 of 1 byte: even at 8 workers, but for the scales."""
    plain, small = (run(scenario, kind).breakdown_s["communication_exposed"] for kind in ("none", "int8"))
    ring_latency = 7 * 2 * HOP
    assert (small - ring_latency) / (plain - 2 * ring_latency) == pytest.approx(1 + 4 / 512, rel=1e-6)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("strategy", ["server", "async", "softsync", "backup", "bounded-staleness"])
def test_to_servers_gradients_go_compressed_and_parameters_come_back_whole(scenario, kind, strategy):
    bound = {"bound": 2} if strategy == "bounded-staleness" else {}
    scenario["strategy"] = {
        "kind": strategy,
        **bound,
        "servers": {"on": "own-hosts"},
        "overlap": False,
        "buckets": "whole",
    }
    small = run(scenario, kind, num_iterations=20)
    access = next(links for links in small.link_classes if links.kind == "access")
    pulled = next(links.num_bytes for links in small.links if links.src == "gpu8")
    pushed = access.num_bytes / 2 - pulled  # each message takes two links
    assert pushed / pulled == pytest.approx(made(kind).wire_bytes(4) / 4, rel=1e-9 if strategy == "server" else 0.1)


@pytest.mark.parametrize("kind", KINDS)
def test_a_lone_worker_that_sends_nothing_compresses_nothing(scenario, kind):
    alone = run(scenario, kind, num_gpus=1)
    assert alone.iteration_s == run(scenario, num_gpus=1).iteration_s
    assert alone.memory_parts == run(scenario, num_gpus=1).memory_parts


@pytest.mark.parametrize("kind", KINDS)
def test_residuals_and_what_is_gathered_take_memory(scenario, kind):
    held, compression = run(scenario, kind).memory_parts, made(kind)
    assert held.get("residuals", 0) == compression.residual_bytes_per_parameter * PARAMETERS
    assert held["gathered"] == pytest.approx(8 * PARAMETERS * compression.wire_bytes(4))


def test_gathered_gradients_of_a_compressed_model_are_as_small_as_those_on_the_wire(scenario):
    dense, short = (run({**scenario, "model": f"squeezenet-1.0{end}"}, "int8") for end in ("", "-pruned-8-bit"))
    share = load_model("squeezenet-1.0-pruned-8-bit").weight_share
    compression = made("int8")
    sizes = [compression.wire_bytes(4 * share), compression.wire_bytes(4)]
    assert short.memory_parts["gathered"] / dense.memory_parts["gathered"] == pytest.approx(sizes[0] / sizes[1])


def test_encoding_delays_the_buckets_behind_it(scenario):
    """With overlap, encoding is part of backward: slower encoders hide no less communication, but compute longer."""
    scenario |= {"software": "plain", "strategy": {"kind": "all-reduce", "algorithm": "ring", "buckets": "layer"}}
    slow = {"kind": "top-k", "density": 0.01, "encode_bytes_per_s": "1 GB/s", "decode_bytes_per_s": "1000 TB/s"}
    quick = {**slow, "encode_bytes_per_s": "1000 TB/s"}
    late, soon = (clustersim.simulate({**scenario, "compression": each}).breakdown_s for each in (slow, quick))
    assert late["compute"] - soon["compute"] == pytest.approx(PARAMETERS * 4 / 1e9, rel=1e-4)
    assert late["communication_exposed"] <= soon["communication_exposed"] + 1e-12


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("strategy", ["all-reduce", "server"])
def test_shortcuts_change_nothing_where_everything_is_staged_in_host_memory(scenario, kind, strategy):
    scenario |= {"software": "plain", "transport": "mpi", "strategy": {"kind": strategy}}
    scenario["compression"] = {"kind": kind, **KINDS[kind]}
    quick, exact = (clustersim.simulate(scenario, exact=each).breakdown_s for each in (False, True))
    assert quick == pytest.approx(exact, rel=1e-9, abs=1e-12)


def test_an_array_of_a_million_numbers_is_on_all_servers_however_few_bytes_they_take(scenario):
    """SqueezeNet's largest is no such array; ResNet-50 has several, that have from 2 to 4 MB in half precision."""
    strategy = {
        "kind": "server",
        "overlap": False,
        "buckets": "tensor",
        "servers": {"num": 3, "on": "own-hosts"},
    }
    topology = {**scenario["topology"], "num_hosts": 6}
    asked = {
        **scenario,
        "model": "resnet50",
        "num_gpus": 3,
        "software": {"name": "plain", "servers_whole": "hashed"},
        "strategy": strategy,
        "topology": topology,
    }
    whole, half = ({link.name: link.num_bytes for link in run(asked, kind).links} for kind in ("none", "fp16"))
    assert half == pytest.approx({name: num_bytes / 2 for name, num_bytes in whole.items()})
