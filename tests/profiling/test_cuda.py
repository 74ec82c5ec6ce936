"""The GPU part of the profiler on a simulated GPU: the host replaces device, events and graphs."""

from __future__ import annotations

import subprocess
import time
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytestmark = pytest.mark.torch

PROPERTIES = SimpleNamespace(
    name="NVIDIA H200", multi_processor_count=132, total_memory=141 * 2**30, L2_cache_size=2**20, major=9, minor=0,
    uuid="00000000-0000-0000-0000-000000000000",
)  # fmt: skip
ANSWERS = {"driver_version": "570.86", "clocks.max.sm": "1980", "clocks.max.mem": "3201", "clocks.sm": "1755",
           "clocks.mem": "3201", "temperature.gpu": "41", "power.draw": "[N/A]"}  # fmt: skip


class Event:
    """A point of time on the host's clock."""

    def __init__(self, enable_timing: bool = False):
        self.at_s = 0.0

    def record(self, stream: object = None) -> None:
        self.at_s = time.perf_counter()

    def synchronize(self) -> None:
        pass

    def elapsed_time(self, other: Event) -> float:
        return 1e3 * (other.at_s - self.at_s)


class Graph:
    """A graph that was captured and does nothing when it is replayed but take some time."""

    def capture_begin(self) -> None:
        pass

    def capture_end(self) -> None:
        pass

    def replay(self) -> None:
        end = time.perf_counter() + 5e-5
        while time.perf_counter() < end:
            pass


class AnyDevice(type):
    """Every device of torch's is one of the played kind."""

    def __instancecheck__(cls, value: object) -> bool:
        import torch

        return isinstance(value, torch.device)


class PlayedDevice(metaclass=AnyDevice):
    """`torch.device`, which whatever it is asked for gives the processor."""

    def __new__(cls, *name: object) -> Any:
        import torch

        return torch.device("cpu")


def empty_like(tensor: Any, device: Any, pin_memory: bool) -> Any:
    """Return memory that keeps the order of channels, as torch's does."""
    import torch

    assert not pin_memory, "a target of a copy is on a device"
    return torch.empty_like(tensor, device=device)


def nvidia_smi(command: list[str], **options: Any) -> SimpleNamespace:
    fields = command[1].removeprefix("--query-gpu=").split(",")
    assert command[-1] == f"GPU-{PROPERTIES.uuid}", "the GPU is asked for by its own number, not torch's"
    return SimpleNamespace(stdout=", ".join(ANSWERS[field] for field in fields) + "\n")


@pytest.fixture
def played_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    from clustersim.profiling import device, node

    fakes: dict[str, Any] = {
        "is_available": lambda: True, "device_count": lambda: 2, "set_device": lambda number: None,
        "get_device_properties": lambda device: PROPERTIES, "can_device_access_peer": lambda a, b: True,
        "Stream": object, "stream": lambda stream: nullcontext(), "Event": Event, "CUDAGraph": Graph,
        "synchronize": lambda: None, "empty_cache": lambda: None, "reset_peak_memory_stats": lambda: None,
        "max_memory_allocated": lambda: 5 * 2**30, "max_memory_reserved": lambda: 6 * 2**30,
    }  # fmt: skip
    for name, fake in fakes.items():
        monkeypatch.setattr(torch.cuda, name, fake)
    monkeypatch.setattr(device.subprocess, "run", nvidia_smi)
    monkeypatch.setattr(device.Device, "is_cuda", property(lambda self: True))
    monkeypatch.setattr(
        device, "torch", SimpleNamespace(
            cuda=torch.cuda, backends=torch.backends, version=torch.version, __version__=torch.__version__,
            device=PlayedDevice, get_num_threads=torch.get_num_threads,
        ),
    )  # fmt: skip
    monkeypatch.setattr(
        node, "torch", SimpleNamespace(
            cuda=torch.cuda, device=PlayedDevice, zeros=torch.zeros, empty_like=empty_like
        ),
    )  # fmt: skip
    monkeypatch.setattr(node, "SIZES", (1024, 4096))
    monkeypatch.setattr(torch.Tensor, "pin_memory", lambda self: self.clone())


def test_a_gpu_is_described_as_its_driver_does(played_gpu: None) -> None:
    from clustersim.profiling.device import open_device

    found = open_device("cuda:1")
    assert found.record == {
        "name": "NVIDIA H200", "kind": "cuda", "num_multiprocessors": 132, "memory_bytes": 141 * 2**30,
        "cache_bytes": 2**20, "compute_capability": "9.0", "driver": "570.86", "max_sm_mhz": 1980.0,
        "max_memory_mhz": 3201.0,
    }  # fmt: skip


def test_clocks_that_are_not_known_are_left_out(played_gpu: None) -> None:
    from clustersim.profiling.device import open_device

    assert open_device("cuda").clocks() == {"sm_mhz": 1755.0, "memory_mhz": 3201.0, "celsius": 41.0}


@pytest.mark.parametrize("error", [FileNotFoundError(), subprocess.TimeoutExpired("nvidia-smi", 20)])
def test_a_node_without_nvidia_smi_has_no_clocks(
    played_gpu: None, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    from clustersim.profiling import device

    def missing(*arguments: Any, **options: Any) -> Any:
        raise error

    monkeypatch.setattr(device.subprocess, "run", missing)
    found = device.open_device("cuda")
    assert found.clocks() is None
    assert found.record["driver"] is None


def test_a_gpu_beyond_the_last_is_refused(played_gpu: None) -> None:
    from clustersim.profiling.device import open_device
    from clustersim.profiling.errors import ProfilingError

    with pytest.raises(ProfilingError, match=r"there is no cuda:2: this node has 2 CUDA device\(s\)"):
        open_device("cuda:2")


def test_a_campaign_on_a_gpu_has_graphs_launch_times_memory_and_links(
    played_gpu: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from clustersim.profiling import models, timer
    from clustersim.profiling.main import make_campaign, summary
    from clustersim.profiling.run import run_campaign

    def tiny(net: Any) -> None:
        x = net.relu("relu", net.conv("conv", net.image(3, 8, 8), 4, 3))
        net.loss("loss", net.fully_connected("fc", x, 10))

    monkeypatch.setitem(models.MODELS, "tiny", tiny)
    monkeypatch.setattr(timer, "GRAPH_BELOW_S", 60.0)
    campaign = make_campaign("tiny", "cuda", "2", "tf32,amp-bf16", "nhwc", autotune=False, kernel_ms=0.1)
    path, document = run_campaign(campaign, tmp_path, lambda share, what: None)
    assert document["skipped"] == []
    assert path.name == "tiny-nvidia-h200-no-autotune.json"
    assert document["flags"]["cudnn_benchmark"] is False
    rows = {row["name"]: row for row in document["layers"] if row["precision"] == "tf32"}
    assert {row["timing"] for row in rows.values()} == {"graph"}
    assert all(row["host_s"]["forward"] > 0 for row in rows.values())
    assert "warm" in rows["relu"]
    whole = document["whole"][0]
    assert whole["memory"]["max_allocated_bytes"] == 5 * 2**30
    assert whole["memory"]["max_reserved_bytes"] == 6 * 2**30
    assert whole["input_copy"]["num_bytes"] == 4 * 2 * 3 * 8 * 8
    assert whole["clocks"]["before"]["sm_mhz"] == 1755
    assert whole["sum_of_layers"]["host_forward_s"] > 0
    facts = document["node"]
    copies = {f"{way}_{kind}" for way in ("host_to_device", "device_to_host") for kind in ("pinned", "pageable")}
    assert set(facts) == {"add", "device_to_device", "peer_to_peer", *copies}
    assert [(peer["peer"], peer["direct"], len(peer["rows"])) for peer in facts["peer_to_peer"]] == [
        (0, True, 2), (1, True, 2)
    ], "the played device has no number of its own"  # fmt: skip
    assert "tf32 nhwc batch 2:" in "\n".join(summary(document))


def test_copies_that_reach_beyond_the_device_are_not_captured(
    played_gpu: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another device's stream would spoil the capture, and pageable memory may be gone when it is replayed."""
    from clustersim.profiling import cuda_timer, node
    from clustersim.profiling.device import open_device

    asked: list[bool] = []

    class Timer(cuda_timer.CudaTimer):
        def time(self, calls: Any, can_graph: bool = True) -> Any:
            asked.append(can_graph)
            return super().time(calls, can_graph)

    facts = node.measure_node(open_device("cuda"), Timer(1e-4, stream=object()))
    pageable, peers = 2 * 2, 2 * len(facts["peer_to_peer"])
    assert asked.count(False) == pageable + peers
    assert asked.count(True) == 2 * len({"add", "host_to_device", "device_to_host", "device_to_device"})


def test_a_spoilt_capture_leaves_no_random_numbers_in_it(played_gpu: None, monkeypatch: pytest.MonkeyPatch) -> None:
    import gc

    import torch

    from clustersim.profiling.cuda_timer import CudaTimer

    class Generator:
        """CUDA's generator while a capture is under way: nothing can be drawn until it has a state of its own."""

        is_capturing = True

        def clone_state(self) -> str:
            return "fresh"

        def graphsafe_set_state(self, state: str) -> None:
            assert state == "fresh"
            self.is_capturing = False

    class Spoilt(Graph):
        def capture_end(self) -> None:
            raise RuntimeError("CUDA error: operation failed due to a previous error during capture")

    seen: list[bool] = []
    generators = (Generator(), object())  # an old torch's has no such methods
    monkeypatch.setattr(torch.cuda, "default_generators", generators)
    monkeypatch.setattr(torch.cuda, "CUDAGraph", Spoilt)
    assert CudaTimer(0.1, stream=object()).graph(lambda: seen.append(gc.isenabled())) is None
    assert not generators[0].is_capturing
    assert seen == [False], "nothing is collected during a capture"
    assert gc.isenabled()


@pytest.mark.parametrize(("launches_s", "method"), [(2e-3, "graph"), (1e-5, "loop")])
def test_a_long_call_that_its_launches_hold_up_is_replayed_too(
    played_gpu: None, monkeypatch: pytest.MonkeyPatch, launches_s: float, method: str
) -> None:
    """The played device is busy for 2 ms a call; the host launches for as long, or hardly at all."""
    import torch

    from clustersim.profiling import cuda_timer

    now_s = [0.0]

    class Busy(Event):
        def elapsed_time(self, other: Event) -> float:
            return 2.0

    class Still(Graph):
        def replay(self) -> None:
            pass

    def call() -> None:
        now_s[0] += launches_s

    monkeypatch.setattr(torch.cuda, "Event", Busy)
    monkeypatch.setattr(torch.cuda, "CUDAGraph", Still)
    monkeypatch.setattr(cuda_timer.time, "perf_counter", lambda: now_s[0])
    timer = cuda_timer.CudaTimer(1e-4, stream=object())
    monkeypatch.setattr(timer, "clock", iter(range(1000)).__next__)
    assert timer.time([call]).method == method


def test_a_batch_for_which_a_library_finds_no_memory_is_skipped_as_well() -> None:
    from clustersim.profiling.errors import is_out_of_memory

    assert is_out_of_memory(RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"))
    assert not is_out_of_memory(RuntimeError("cuDNN error: CUDNN_STATUS_NOT_SUPPORTED"))


def test_sixteen_bit_floats_are_scaled_on_a_gpu_only() -> None:
    import torch

    from clustersim.profiling.optimizers import make_scaler

    assert make_scaler("amp-fp16", torch.device("cpu")) is None
    assert make_scaler("fp32", torch.device("cuda", 0)) is None
    assert hasattr(make_scaler("amp-fp16", torch.device("cuda", 0)), "unscale_")
