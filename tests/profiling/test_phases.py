"""The call timed as a layer's gradient computes that gradient: comparison with autograd on the same numbers."""

from __future__ import annotations

from typing import Any

import pytest

pytestmark = pytest.mark.torch


def traced_layers(write: Any, precision: str = "fp32") -> dict[str, Any]:
    import torch

    from clustersim.profiling.layers import trace_layers
    from clustersim.profiling.net import TorchNet

    torch.manual_seed(0)
    net = TorchNet()
    write(net)
    device = torch.device("cpu")
    graph = net.graph().materialise(device, "nchw")
    return {each.layer.name: each for each in trace_layers(graph, graph.batch(3, device, "nchw"), precision)}


def phases_on_cpu(layer: Any, precision: str) -> Any:
    import torch

    from clustersim.profiling.phases import NeighbourTensors, phases_of

    device = torch.device("cpu")
    return phases_of(layer, precision, device, NeighbourTensors.of(layer, device))


def two_products(net: Any) -> None:
    x = net.relu("relu", net.conv("conv", net.conv("first", net.image(2, 9, 9), 4, 3), 6, 3, stride=2, groups=2))
    net.loss("loss", net.fully_connected("fc", x, 5))


@pytest.mark.parametrize("name", ["conv", "fc"])
@pytest.mark.parametrize("precision", ["fp32", "amp-bf16"])
def test_written_out_gradients_are_autograds(name: str, precision: str, monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    from clustersim.profiling.layers import Signature

    layer = traced_layers(two_products, precision)[name]
    monkeypatch.setattr(Signature, "tensor", lambda self, device: torch.ones(self.shape, dtype=self.dtype))
    phases = phases_on_cpu(layer, precision)
    backward = phases.launch()[1]
    assert backward is not None
    data, weight, bias = backward()
    assert phases.backward_data is not None
    assert phases.backward_weights is not None
    (found_data,) = phases.backward_data()
    torch.testing.assert_close(found_data.reshape_as(data), data, rtol=2e-2, atol=2e-2)
    found_weight, found_bias = phases.backward_weights()
    torch.testing.assert_close(found_weight, weight, rtol=2e-2, atol=2e-2)
    torch.testing.assert_close(found_bias, bias, rtol=2e-2, atol=2e-2)
    assert phases.both is None or len(phases.both()) == 3
    assert found_weight.dtype == torch.float32, "weights' gradients come back as the weights are"


def test_the_first_layer_has_no_gradient_of_its_input() -> None:

    phases = phases_on_cpu(traced_layers(two_products)["first"], "fp32")
    assert phases.backward_data is None
    assert phases.both is None
    assert phases.backward_weights is not None


def test_layers_see_the_types_that_mixed_precision_gives_them() -> None:
    import torch

    layers = traced_layers(two_products, "amp-bf16")
    assert layers["first"].inputs[0].dtype == torch.float32
    assert layers["conv"].inputs[0].dtype == layers["fc"].inputs[0].dtype == torch.bfloat16


def test_an_output_with_two_readers_adds_their_gradients() -> None:

    def fork(net: Any) -> None:
        x = net.conv("stem", net.image(2, 5, 5), 4, 1)
        x = net.add("add", net.conv("branch", x, 4, 1), x)
        net.loss("loss", net.fully_connected("fc", x, 5))

    layers = traced_layers(fork)
    assert phases_on_cpu(layers["stem"], "fp32").gradient_sum is not None
    assert phases_on_cpu(layers["branch"], "fp32").gradient_sum is None


def test_weights_of_an_lstm_are_what_both_gradients_take_longer_than_the_data(monkeypatch: pytest.MonkeyPatch) -> None:
    from clustersim.profiling import measure
    from clustersim.profiling.phases import Phases
    from clustersim.profiling.timer import Timer, Timing

    seconds = {"forward": 1.0, "data": 2.0, "both": 5.0}
    phases = Phases(lambda: "forward", lambda: "data", None, lambda: "both", None, (lambda: None, None))
    timer = Timer(0.0)
    monkeypatch.setattr(timer, "time", lambda calls: Timing(seconds[calls[0]()], 0.0, 5, "loop"))
    times, _ = measure._times([phases], timer)
    assert times == {"forward_s": 1.0, "backward_data_s": 2.0, "backward_weights_s": 3.0}


def test_gradients_of_a_convolution_take_together_what_one_call_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    from clustersim.profiling import measure
    from clustersim.profiling.phases import Phases
    from clustersim.profiling.timer import Timer, Timing

    seconds = {"forward": 1.0, "data": 2.0, "weights": 6.0, "both": 4.0, "sum": 0.5}
    calls = [lambda name=name: name for name in ("forward", "data", "weights", "both", "sum")]
    timer = Timer(0.0)
    monkeypatch.setattr(timer, "time", lambda calls: Timing(seconds[calls[0]()], 0.0, 5, "loop"))
    times, _ = measure._times([Phases(*calls, (calls[0], None))], timer)
    assert times == {"forward_s": 1.0, "backward_data_s": 1.5, "backward_weights_s": 3.0}


@pytest.mark.parametrize("cache_bytes", [1, 2**30])
def test_what_is_larger_than_the_cache_is_timed_once(monkeypatch: pytest.MonkeyPatch, cache_bytes: int) -> None:
    import torch

    from clustersim.profiling import measure
    from clustersim.profiling.timer import Timer, Timing

    timer = Timer(0.0)
    monkeypatch.setattr(timer, "time", lambda calls: Timing(float(len(calls)), 0.25, 5, "loop"))
    layer = traced_layers(two_products)["fc"]
    row = measure.measure_layer(layer, "fp32", torch.device("cpu"), timer, cache_bytes)
    copies = 1.0 if cache_bytes == 1 else 16.0
    assert (row["forward_s"], row["backward_data_s"], row["backward_weights_s"]) == (copies, copies, copies)
    assert ("warm" in row) == (copies > 1)
    assert row["spread_s"] == 0.75


def test_calls_share_what_was_just_written_and_nothing_else() -> None:
    import torch

    from clustersim.profiling.phases import NeighbourTensors, phases_of

    device = torch.device("cpu")
    layer = traced_layers(two_products)["conv"]
    written = NeighbourTensors.of(layer, device)
    first, second = (phases_of(layer, "fp32", device, written) for _ in range(2))
    (modules, inputs) = zip(*(each.forward.args[:2] for each in (first, second)), strict=True)
    assert inputs[0] is inputs[1] is written.inputs
    assert modules[0].weight.data_ptr() != modules[1].weight.data_ptr()
