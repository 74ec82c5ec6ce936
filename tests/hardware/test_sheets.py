"""The values of shipped sheets are consistent, and agree with vendors' publications."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from clustersim.errors import InputError
from clustersim.hardware import (
    CPUS,
    GPUS,
    LINKS,
    TRANSPORTS,
    Sheet,
    SheetCatalogue,
    load_cpu,
    load_gpu,
    load_link,
    load_transport,
)

CATALOGUES: dict[str, SheetCatalogue] = {"gpu": GPUS, "link": LINKS, "cpu": CPUS, "transport": TRANSPORTS}
CORES = ("xeon-2-50ghz",)  # workers that are a processor's core
EVERY = [(kind, name) for kind, catalogue in CATALOGUES.items() for name in catalogue]


def needed() -> dict[str, set[str]]:
    gpus = "gtx-580 gtx-680 k20 k20x k40 k80 m40 titan-x-maxwell titan-x-pascal gtx-1080-ti p40 p100 v100 rtx-2080-ti"
    links = "qpi upi nvlink-1 nvlink-2 nvlink-3 nvlink-4 gemini-x gemini-y gemini-z gemini-nic"
    pcie = {f"pcie-{generation}-x{lanes}" for generation in (2, 3, 4, 5) for lanes in (8, 16)}
    networks = {f"infiniband-{rate}" for rate in ("fdr", "edr", "hdr", "ndr")}
    networks |= {f"ethernet-{rate}g" for rate in (1, 10, 25, 50, 100)} | {"roce-200g", "roce-400g"}
    networks |= {"efa-100g", "efa-4x100g", "efa-2x200g", "efa-400g", "gvnic-200g-tcpx", "gvnic-200g-tcpxo"}
    gpus += (
        " t4 a100 a40 a10g rtx-a5000 rtx-a6000 rtx-3090 h100 h100-pcie h100-nvl gh200 h20 h200 b200 b300 gb200 gb300"
    )
    gpus += " l4 l40s rtx-4090 rtx-5090 rtx-pro-6000 mi300x mi325x mi355x"
    return {
        "gpu": set(gpus.split()),
        "link": set(links.split()) | pcie | networks,
        "cpu": {"opteron-6274", "xeon-e5-2650-v2", "xeon-e5-2680-v3", "xeon-e5-2686-v4", "epyc-7742"},
        "transport": {"ideal", "mpi", "nccl", "gloo", "tcp"},
    }


@pytest.mark.parametrize("kind", CATALOGUES)
def test_every_promised_device_has_a_sheet(kind: str) -> None:
    assert needed()[kind] <= set(CATALOGUES[kind])


@pytest.mark.parametrize(("kind", "name"), EVERY)
def test_a_sheet_is_called_what_its_file_is_called_and_lists_its_title(kind: str, name: str) -> None:
    sheet = CATALOGUES[kind].load(name)
    assert sheet.name == name
    assert CATALOGUES[kind][name] == sheet.title


@pytest.mark.parametrize(("kind", "name"), EVERY)
def test_every_value_of_a_sheet_has_a_source(kind: str, name: str) -> None:
    sheet = CATALOGUES[kind].load(name)
    for key, value in values(sheet).items():
        assert len(sheet.sources[key]) > 10 or sheet.sources[key] == "by definition", key
        assert value is not None
    assert set(sheet.sources) == set(values(sheet))
    assert all(reason.startswith("assumed: ") for reason in sheet.assumed().values())


def values(sheet: Sheet) -> dict[str, object]:
    """Everything a sheet says, a mapping's parts under dotted keys, without what it leaves at its default."""
    said: dict[str, object] = {}
    for key, value in vars(sheet).items():
        if isinstance(value, dict) and key != "sources":
            said |= {f"{key}.{part}": each for part, each in value.items()}
        elif (
            key not in ("name", "title", "library", "sources")
            and value is not None
            and (
                (key, value) not in [("num_nvlinks", 0), ("boards", ()), ("issue_factor", 1.0)] or key in sheet.sources
            )
        ):
            said[key] = value
    return said


@pytest.mark.parametrize("name", LINKS)
def test_a_link_carries_no_more_than_it_signals(name: str) -> None:
    link = load_link(name)
    assert 0.3 * link.raw_bytes_per_s < link.bytes_per_s <= link.raw_bytes_per_s
    assert 0 <= link.latency_s < 100e-6


@pytest.mark.parametrize("name", [n for n in LINKS if n.startswith(("pcie", "qpi", "upi", "xgmi", "nvlink"))])
def test_latency_inside_a_host_is_left_to_the_transport(name: str) -> None:
    assert load_link(name).latency_s == 0
    assert "transport" in load_link(name).sources["latency_s"]


@pytest.mark.parametrize("generation", [2, 3, 4, 5])
def test_half_the_lanes_carry_half(generation: int) -> None:
    wide, narrow = load_link(f"pcie-{generation}-x16"), load_link(f"pcie-{generation}-x8")
    assert narrow.bytes_per_s == pytest.approx(wide.bytes_per_s / 2)
    assert narrow.raw_bytes_per_s == pytest.approx(wide.raw_bytes_per_s / 2)


@pytest.mark.parametrize("name", GPUS)
def test_a_gpu_names_links_that_exist_and_has_plausible_peaks(name: str) -> None:
    gpu = load_gpu(name)
    assert gpu.pcie in LINKS
    assert (gpu.nvlink is None) == (gpu.num_nvlinks == 0)
    assert gpu.nvlink is None or gpu.nvlink in LINKS
    assert (1e11 if name in CORES else 1e12) < gpu.flop_per_s["fp32"] <= max(gpu.flop_per_s.values()) < 2e16
    assert 2 < gpu.flop_per_s["fp32"] / gpu.memory_bytes_per_s < 110
    assert 1e9 < gpu.memory_bytes < 320e9
    assert 1e-6 < gpu.launch_s < 20e-6


@pytest.mark.parametrize("name", [name for name in GPUS if "amp-fp16" in load_gpu(name).flop_per_s])
def test_tensor_cores_are_faster_than_the_ordinary_units(name: str) -> None:
    flop_per_s = load_gpu(name).flop_per_s
    assert flop_per_s["amp-fp16"] > 1.9 * flop_per_s.get("fp16", flop_per_s["fp32"])


@pytest.mark.parametrize("name", CPUS)
def test_one_core_does_not_saturate_its_socket(name: str) -> None:
    cpu = load_cpu(name)
    assert 5e9 < cpu.core_bytes_per_s < cpu.memory_bytes_per_s / 1.5
    assert cpu.interconnect is None or cpu.interconnect in LINKS


@pytest.mark.parametrize(
    ("name", "cores_per_multiprocessor", "clock_hz"),
    [
        ("k20", 192, 706e6),
        ("k20x", 192, 732e6),
        ("gtx-680", 192, 1006e6),
        ("p100", 64, 1480e6),
        ("h100", 128, 1980e6),
        ("h100-pcie", 128, 1755e6),
        ("a40", 128, 1740e6),
        ("a10g", 128, 1710e6),
        ("rtx-4090", 128, 2520e6),
        ("rtx-5090", 128, 2407e6),
        ("rtx-pro-6000", 128, 2617e6),
        ("l40s", 128, 2520e6),
        ("l4", 128, 2040e6),
    ],
)
def test_fp32_peak_is_two_flop_a_core_and_clock(name: str, cores_per_multiprocessor: int, clock_hz: float) -> None:
    gpu = load_gpu(name)
    peak = 2 * gpu.num_multiprocessors * cores_per_multiprocessor * clock_hz
    assert gpu.flop_per_s["fp32"] == pytest.approx(peak, rel=0.005)


@pytest.mark.parametrize("name", ["rtx-3090", "rtx-4090", "rtx-5090"])
def test_geforce_tensor_cores_add_in_fp32_at_half_rate(name: str) -> None:
    """512 FLOP a clock in fp16 of GA102 and its successors, 256 when adding in fp32: twice what ordinary units do."""
    flop_per_s = load_gpu(name).flop_per_s
    assert flop_per_s["amp-bf16"] == flop_per_s["amp-fp16"] == pytest.approx(2 * flop_per_s["fp32"], rel=0.005)


@pytest.mark.parametrize("name", ["a40", "rtx-a6000", "l40s", "rtx-pro-6000"])
def test_professional_cards_add_in_fp32_at_full_rate(name: str) -> None:
    flop_per_s = load_gpu(name).flop_per_s
    assert flop_per_s["amp-bf16"] == flop_per_s["amp-fp16"] == pytest.approx(4 * flop_per_s["fp32"], rel=0.015)


def test_titans_gpu_is_what_ornl_says_it_is() -> None:
    k20x = load_gpu("k20x")
    assert (k20x.architecture, k20x.num_multiprocessors, k20x.pcie) == ("kepler", 14, "pcie-2-x16")
    assert k20x.memory_bytes == 6 * 2**30
    assert k20x.flop_per_s["fp64"] == pytest.approx(1.31e12)


def test_geminis_y_is_half_as_wide_as_x_and_z() -> None:
    x, y, z = (load_link(f"gemini-{dimension}") for dimension in "xyz")
    assert x.bytes_per_s == z.bytes_per_s == 2 * y.bytes_per_s
    assert x.raw_bytes_per_s == z.raw_bytes_per_s == 2 * y.raw_bytes_per_s
    assert y.raw_bytes_per_s == pytest.approx(12 * 3.125e9 / 8)


def test_a_pair_of_titans_nodes_reaches_what_mpi_was_measured_at() -> None:
    nic = load_link("gemini-nic")
    for dimension, measured_bytes_per_s in (("x", 5.87e9), ("y", 3.47e9), ("z", 6.09e9)):
        reached = min(nic.bytes_per_s, load_link(f"gemini-{dimension}").bytes_per_s)
        assert reached == pytest.approx(measured_bytes_per_s, rel=0.05), dimension


def test_an_empty_mpi_message_takes_what_it_was_measured_at_on_titan() -> None:
    nic, hop, mpi = load_link("gemini-nic"), load_link("gemini-x"), load_transport("mpi")
    ends_s = 2 * nic.latency_s + mpi.overhead_s
    assert ends_s + hop.latency_s == pytest.approx(1.5e-6, rel=0.01)
    farthest_hops = 25 // 2 + 16 // 2 + 24 // 2
    assert ends_s + farthest_hops * hop.latency_s == pytest.approx(3.96e-6, rel=0.01)


@pytest.mark.parametrize("transport", ["tcp", "gloo"])
@pytest.mark.parametrize("gbit", [1, 10, 25, 50, 100])
def test_tcp_over_ethernet_carries_1448_of_1538_bytes(gbit: int, transport: str) -> None:
    link = load_link(f"ethernet-{gbit}g")
    payload = link.bytes_per_s * load_transport(transport).efficiency
    assert payload == pytest.approx(gbit * 1e9 / 8 * 1448 / 1538, rel=1e-5)


def test_the_ideal_transport_costs_nothing() -> None:
    ideal = load_transport("ideal")
    assert (ideal.overhead_s, ideal.efficiency, ideal.buffers, ideal.adds) == (0.0, 1.0, "gpu", False)


def test_where_a_transport_has_its_buffers() -> None:
    where = {name: load_transport(name).buffers for name in TRANSPORTS}
    assert where == {
        "cuda-copies": "gpu",
        "gloo": "host",
        "ideal": "gpu",
        "mpi": "host",
        "mpi-adapter": "host",
        "mpi-cuda": "gpu",
        "nccl": "gpu",
        "nccl-omni-path": "gpu",
        "nccl-one-socket": "gpu",
        "nccl-roce": "gpu",
        "nccl-sockets": "gpu",
        "open-mpi-tcp": "host",
        "tcp": "host",
        "tensorflow-grpc": "host",
        "tensorflow-grpc-one-thread": "host",
        "xla-ici": "gpu",
    }


def test_one_socket_is_nccl_over_tcp_with_a_slow_connection_and_nothing_else() -> None:
    """So that what is learnt of the one is true of the other, which shares its constants."""
    one, all_sockets = load_transport("nccl-one-socket"), load_transport("nccl-sockets")
    assert one.library == all_sockets.name
    assert one.connection_bytes_per_s == pytest.approx(2.06e9)
    same = {"name": all_sockets.name, "title": all_sockets.title, "sources": {}, "connection_bytes_per_s": None}
    assert replace(one, **same) == replace(all_sockets, sources={})


def test_open_mpi_over_tcp_is_sockets_with_a_slow_connection_and_nothing_else() -> None:
    """5 Gbit/s, which gigabit Ethernet does not notice."""
    old, plain = load_transport("open-mpi-tcp"), load_transport("tcp")
    assert old.library == plain.name
    assert old.connection_bytes_per_s == pytest.approx(5e9 / 8)
    same = {"name": plain.name, "title": plain.title, "sources": {}, "connection_bytes_per_s": None}
    assert replace(old, **same) == replace(plain, sources={})


def test_tensorflow_over_grpc_is_sockets_and_what_threads_of_processes_carry() -> None:
    old, new, plain = (load_transport(name) for name in ("tensorflow-grpc-one-thread", "tensorflow-grpc", "tcp"))
    assert (old.receiving_bytes_per_s, old.sending_bytes_per_s, old.threads) == (0.86e9, 2.56e9, None)
    rates = dict.fromkeys(("receiving_bytes_per_s", "sending_bytes_per_s", "threads", "half_rate_bytes"))
    for transport in (old, new):
        same = {"name": plain.name, "title": plain.title, "sources": {}, "overhead_s": plain.overhead_s, **rates}
        assert replace(transport, **same) == replace(plain, sources={})


@pytest.mark.parametrize(
    ("megabytes", "measured_bytes_per_s", "of_copies_s_per_byte"),
    [(128, 446e6, 0.0), (1024, 102e6, 0.0)]
    + [
        (each, rate, 1 / 1.5e9)
        for each, rate in ((128, 569e6), (256, 363e6), (512, 202e6), (768, 142e6), (1024, 106e6))
    ],
)
def test_grpc_of_2016_slows_with_the_size_as_was_measured(
    megabytes: float, measured_bytes_per_s: float, of_copies_s_per_byte: float
) -> None:
    """With the allocator that a program has as a rule, from which the sheet is, and with tcmalloc, whose rate differs.

    The square is the same with both (yaroslavvb, gists ea1b1bae and e196107b).
    """
    sheet, num_bytes = load_transport("tensorflow-grpc-one-thread"), megabytes * 1e6
    rate, half_rate = sheet.receiving_bytes_per_s, sheet.half_rate_bytes
    assert rate is not None
    assert half_rate is not None
    seconds = num_bytes * (of_copies_s_per_byte or 1 / rate) + num_bytes**2 / half_rate / rate
    assert num_bytes / seconds == pytest.approx(measured_bytes_per_s, rel=0.03)


BOTH = {"receiving_bytes_per_s": "1 GB/s", "sending_bytes_per_s": "1 GB/s"}


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"receiving_bytes_per_s": "1 GB/s"}, "given together"),
        ({"sending_bytes_per_s": "1 GB/s"}, "given together"),
        (BOTH | {"in_host": "adapter"}, "between host memories"),
        (BOTH | {"buffers": "gpu"}, "between host memories"),
        ({"threads": 8}, "threads of processes"),
        ({"half_rate_bytes": "1 MB"}, "half_rate_bytes of threads"),
    ],
)
def test_rates_of_processes_that_mean_nothing_are_refused(tmp_path: Path, more: dict[str, Any], message: str) -> None:
    given = {"overhead_s": "9 us", "efficiency": 1.0, "buffers": "host", "adds": True, **more}
    lines = [f"{key}: {{value: {json.dumps(value)}, source: own}}" for key, value in given.items()]
    sheet = tmp_path / "own.yaml"
    sheet.write_text("\n".join(["name: own", "title: own", "library: tcp", *lines]))
    with pytest.raises(InputError, match=message):
        load_transport(str(sheet))


@pytest.mark.parametrize("gbit", [25, 50, 100])
def test_roce_in_small_frames_carries_1024_of_1118_bytes(gbit: int) -> None:
    payload = load_link(f"ethernet-{gbit}g").bytes_per_s * load_transport("nccl-roce").efficiency
    assert payload == pytest.approx(gbit * 1e9 / 8 * 1024 / 1118, rel=1e-5)
    assert load_transport("nccl-roce").library == "nccl"


@pytest.mark.parametrize("gbit", [200, 400])
def test_roce_in_large_packets_carries_4096_of_4178_bytes(gbit: int) -> None:
    """Two measured shares, 97.5 and 98.0 %, are of other rates."""
    link = load_link(f"roce-{gbit}g")
    assert link.bytes_per_s == pytest.approx(gbit * 1e9 / 8 * 4096 / 4178, rel=1e-5)
    assert link.bytes_per_s / link.raw_bytes_per_s == pytest.approx((0.975 + 0.9804) / 2, rel=0.005)


@pytest.mark.parametrize(("name", "whole_us"), [("efa-4x100g", 20), ("efa-2x200g", 18)])
def test_a_message_over_efa_takes_what_the_plug_in_of_nccl_takes_it_to(name: str, whole_us: float) -> None:
    through_one_switch_s = load_transport("nccl").overhead_s + 2 * load_link(name).latency_s
    assert through_one_switch_s == pytest.approx(whole_us * 1e-6)


def test_dgx_gpus_have_the_nvlink_rate_of_their_data_sheet() -> None:
    for name, both_ways_bytes_per_s in (
        ("p100", 160e9),
        ("v100", 300e9),
        ("a100", 600e9),
        ("a800", 400e9),
        ("h100", 900e9),
        ("h800", 400e9),
        ("b200", 1.8e12),
        ("b300", 1.8e12),
        ("gb200", 1.8e12),
        ("h20", 900e9),
        ("h100-nvl", 600e9),
        ("a40", 112.5e9),
    ):
        gpu = load_gpu(name)
        assert gpu.nvlink is not None
        assert 2 * gpu.num_nvlinks * load_link(gpu.nvlink).raw_bytes_per_s == pytest.approx(both_ways_bytes_per_s)


@pytest.mark.parametrize("name", GPUS)
def test_every_gpu_says_what_power_it_takes(name: str) -> None:
    power_w = load_gpu(name).power_w
    assert power_w is not None
    assert (5 if name in CORES else 50) <= power_w <= 1400


@pytest.mark.parametrize("name", [name for name in GPUS if load_gpu(name).dollars_per_hour is not None])
def test_a_price_says_whose_list_and_which_year(name: str) -> None:
    assert re.search(r"\b20\d\d\b", load_gpu(name).sources["dollars_per_hour"])
