"""A workload file is read exactly, and every mistake in it has its place."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clustersim.errors import InputError
from clustersim.model import MODELS, load_model
from clustersim.model.layer_schema import KNOWN_OPS
from clustersim.model.workload_file import read_workload_file

GOOD = """\
name: my-net
layers:
  - {name: scale, flop: 0, activation_bytes: 600 kB}
  - {name: conv1, op: convolution, flop: 3.2 GFLOP, parameter_bytes: 37632, activation_bytes: 3.2 MB}
  - {name: act, op: relu, flop: 1e6, activation_bytes: 3200000}
  - {name: fc, op: fully-connected, flop: 2 MMAC, parameter_bytes: 8 MB, forward_s: 0.0004, backward_s: 1.2 ms}
"""


def mistakes(tmp_path, text):
    path = tmp_path / "net.yaml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(InputError) as caught:
        read_workload_file(path)
    assert caught.value.exit_status == 3
    assert all(mistake.file == str(path) for mistake in caught.value.mistakes)
    return caught.value.mistakes


@pytest.fixture
def good(tmp_path):
    path = tmp_path / "net.yaml"
    path.write_text(GOOD)
    return read_workload_file(path)


def test_bare_numbers_are_si_and_units_are_read(good):
    model, _ = good
    assert model.name == "my-net"
    assert [layer.name for layer in model.layers] == ["scale", "conv1", "act", "fc"]
    assert [layer.op for layer in model.layers] == ["custom", "convolution", "relu", "fully-connected"]
    assert [layer.flop for layer in model.layers] == [0, 3.2e9, 1e6, 4e6]
    assert [layer.num_parameters for layer in model.layers] == [0, 9408, 0, 2_000_000]
    assert [layer.output_elements for layer in model.layers] == [150_000, 800_000, 800_000, 0]
    assert [layer.input_elements for layer in model.layers] == [150_000, 150_000, 800_000, 800_000]


def test_backward_flop_are_twice_forward_and_once_for_the_first_trained_layer(good):
    model, _ = good
    backward = [(layer.flop_backward_data, layer.flop_backward_weights) for layer in model.layers]
    assert backward == [(0, 0), (0, 3.2e9), (2e6, 0), (4e6, 4e6)]


def test_given_times_are_measured_and_split_as_the_flop_are(good):
    model, times = good
    assert times[:3] == (None, None, None)
    fc = times[3]
    assert fc.layer is model.layers[3]
    assert (fc.forward_s, fc.backward_data_s, fc.backward_weights_s) == pytest.approx((0.0004, 0.0006, 0.0006))
    assert fc.provenance == "measured"


def test_without_times_none_are_given(tmp_path):
    path = tmp_path / "net.yaml"
    path.write_text("name: n\nsample: sequence\nsource: me\nlayers: [{name: a, flop: 5, parameter_bytes: 4}]\n")
    model, times = read_workload_file(str(path))
    assert times is None
    assert (model.sample, model.source) == ("sequence", "me")


@given(
    layers=st.lists(
        st.tuples(st.integers(0, 10**12), st.integers(0, 10**6), st.floats(0, 10), st.floats(0, 10)),
        min_size=1,
        max_size=8,
    )
)
def test_seconds_flop_and_parameters_go_through_unchanged(tmp_path_factory, layers):
    path = tmp_path_factory.mktemp("files") / "net.yaml"
    lines = [
        f"  - {{name: l{n}, flop: {flop}, parameter_bytes: {4 * count}, forward_s: {forward!r}, backward_s: {back!r}}}"
        for n, (flop, count, forward, back) in enumerate(layers)
    ]
    path.write_text("\n".join(["name: net", "layers:", *lines]))
    model, times = read_workload_file(path)
    assert model.flop == sum(flop for flop, *_ in layers)
    assert model.num_parameters == sum(count for _, count, *_ in layers)
    assert [time.forward_s for time in times] == [forward for *_, forward, _ in layers]
    assert [time.backward_s for time in times] == pytest.approx([back for *_, back in layers], rel=1e-12)


def test_every_mistake_is_reported_together_with_its_place(tmp_path):
    text = """\
name: net
layerz: []
layers:
  - {name: a, flops: 1}
  - {name: a, flop: 3 GFLOPs}
  - {flop: -1, parameter_bytes: 6}
  - {name: d, flop: 1, forward_s: 0.1}
  - {name: e, flop: 1, activation_bytes: 3 Mb}
  - {name: f}
  - nothing
  - {name: g, flop: [1], flop: .nan}
"""
    found = [(mistake.line, mistake.column, mistake.key) for mistake in mistakes(tmp_path, text)]
    assert found == [
        (2, 1, "layerz"),
        (4, 15, "layers.0.flops"),
        (5, 12, "layers.1.name"),
        (5, 21, "layers.1.flop"),
        (6, 5, "layers.2.name"),
        (6, 12, "layers.2.flop"),
        (6, 33, "layers.2.parameter_bytes"),
        (7, 5, "layers.3.backward_s"),
        (8, 42, "layers.4.activation_bytes"),
        (9, 5, "layers.5.flop"),
        (10, 5, "layers.6"),
        (11, 21, "layers.7.flop"),
        (11, 26, "flop"),
    ]


ONE = "name: net\nlayers:\n  - {name: a, flop: 1%s}\n"


@pytest.mark.parametrize(
    ("text", "key", "message"),
    [
        ("layers: [{name: a, flop: 1}]", "name", "is missing"),
        ("name: net", "layers", "is missing"),
        ("name: net\nlayers: []", "layers", "expected a list of at least one layer"),
        ("name: net\nlayers: {a: 1}", "layers", "expected a list of at least one layer"),
        ("name: [net]\nlayers: [{name: a, flop: 1}]", "name", "expected a name"),
        ("- 1", None, "expected a map of name, layers, sample, source"),
        ("", None, "expected a map of name, layers, sample, source"),
        ("name: net\nlayers: [5]", "layers.0", "expected a map of name, op, flop"),
        (ONE % ", flops: 1", "layers.0.flops", "no key is called 'flops'; did you mean 'flop'?"),
        (ONE % ", flop: 2", "flop", "the key is given twice (first in line 3); keep one"),
        (ONE % ", op: [a]", "layers.0.op", "expected a name"),
        (ONE % ", forward_s: 1", "layers.0.backward_s", "is missing; give both times or neither (there is forward_s)"),
        (ONE % ", backward_s: 1", "layers.0.forward_s", "is missing; give both times or neither (there is backward_s)"),
        (ONE % ", forward_s: -1", "layers.0.forward_s", "expected a number of at least 0 (got -1)"),
        (ONE % ", forward_s: inf", "layers.0.forward_s", "expected a number of at least 0 (got inf)"),
        (ONE % ", forward_s: {}", "layers.0.forward_s", "expected a number of at least 0 (got a list or a map)"),
        (ONE % ", forward_s: 5 sec", "layers.0.forward_s", "expected a duration, such as '1.5 us' (got '5 sec'"),
        (
            ONE % ", parameter_bytes: 6",
            "layers.0.parameter_bytes",
            "expected a multiple of 4 bytes, one for each fp32 parameter, such as 8 (got 6)",
        ),
        (
            "name: net\nlayers: [{name: a}]",
            "layers.0.flop",
            "is missing; a layer needs flop, or forward_s and backward_s",
        ),
        (
            ONE % "" + "  - {name: a, flop: 1}",
            "layers.1.name",
            "another layer is already called 'a'; names must be unique",
        ),
    ],
)
def test_each_mistake_says_what_to_do(tmp_path, text, key, message):
    (mistake,) = mistakes(tmp_path, text)
    assert mistake.key == key
    assert mistake.message.startswith(message)


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("name: net\nlayers: [", 2, "a value is missing here; is a '[' or a '{' never closed?"),
        ("name: net\n\tlayers: 1", 2, "a tab; YAML is indented with spaces"),
        ("name: a\n---\nname: b", 3, "a second document"),
        ("name: *nobody", 1, "'*nobody' has no '&nobody' before it"),
        ("name: !!python/name:os.system x", 1, "a tag ('tag:yaml.org,2002:python/name:os.system')"),
        ("[" * 100_000, 1, "nested more than 40 levels deep"),
        (b"\x00\x01", 1, "a NUL character; this is a binary file"),
        (b"\xff\xfe\xfa", 1, "this is not text in UTF-8"),
        ("#" * ((1 << 20) + 1), None, "the file is too large (1.0 MB); 1 MiB at most"),
    ],
    ids=["bracket", "tab", "two documents", "alias", "tag", "deep", "control", "binary", "large"],
)
def test_what_is_no_workload_file_is_refused_with_its_line(tmp_path, text, line, message):
    messages = [mistake for mistake in mistakes(tmp_path, text) if mistake.message.startswith(message)]
    assert [mistake.line for mistake in messages] == [line]


def test_a_folder_and_a_missing_file_are_refused(tmp_path):
    with pytest.raises(InputError, match="this is a directory; name a file in it"):
        read_workload_file(tmp_path)
    with pytest.raises(InputError, match="cannot be read: No such file or directory"):
        read_workload_file(tmp_path / "none.yaml")
    with pytest.raises(InputError, match="cannot be read: "):
        read_workload_file("a\0b")


def test_an_alias_bomb_is_refused_before_it_goes_off(tmp_path):
    bomb = "a: &a [1]\n" + "".join(
        f"{b}: &{b} [{','.join([f'*{a}'] * 9)}]\n" for a, b in zip("abcdefgh", "bcdefghi", strict=True)
    )
    (mistake,) = mistakes(tmp_path, bomb + "name: net\nlayers: *i\n")
    assert "including those that an alias (*name) repeats" in mistake.message


@given(text=st.text(alphabet="nameflopyrs:[]{}&*-, \n\t\"'#1.e", max_size=80))
def test_nothing_but_a_model_or_an_input_error_comes_of_any_text(tmp_path_factory, text):
    path = tmp_path_factory.mktemp("files") / "net.yaml"
    path.write_text(text)
    model = None
    with contextlib.suppress(InputError):
        model, _ = read_workload_file(path)
    assert model is None or model.layers


def test_an_operation_that_computes_is_one_that_is_known(tmp_path):
    text = """\
name: net
layers:
  - {name: a, op: convolutoin, flop: 1e9}
  - {name: b, op: dens, shape: {rows: 1, inputs: 2, outputs: 3, count: 1}, flop: 0}
  - {name: c, op: hardtanh, flop: 0, activation_bytes: 4}
  - {name: d, op: mine, flop: 1e9, forward_s: 1, backward_s: 2}
"""
    found = mistakes(tmp_path, text)
    assert [(mistake.line, mistake.key, mistake.got) for mistake in found] == [
        (3, "layers.0.op", "convolutoin"),
        (4, "layers.1.op", "dens"),
    ]
    start = "no operation with FLOP or a shape is called 'convolutoin'; did you mean 'convolution'? (known: add, "
    assert found[0].message.startswith(start)
    assert "fully-connected" in found[0].allowed


def test_every_operation_of_the_catalogue_can_be_written_to_a_file():
    used = {layer.op for name in MODELS for layer in load_model(name).layers if layer.flop or layer.shape}
    assert used <= set(KNOWN_OPS)
