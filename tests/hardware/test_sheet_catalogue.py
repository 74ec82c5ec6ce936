"""A user's own sheet is read like a shipped one, and mistakes in it have their place."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import pytest

from clustersim.errors import InputError
from clustersim.hardware import GPUS, LINKS, TRANSPORTS, load_cpu, load_gpu, load_link, load_transport
from clustersim.hardware.schema import Library

LINK = """\
name: mine
title: My own link
bytes_per_s: {value: 10 GB/s, source: measured here}
raw_bytes_per_s:
  value: 100 Gbit/s
  source: data sheet
latency_s: {value: 1 us, source: "assumed: a guess"}
"""

GPU = """\
name: mine
title: My own GPU
architecture: {value: other, source: s}
flop_per_s:
  fp32: {value: 1 TFLOP/s, source: s}
memory_bytes: {value: 1 GiB, source: s}
memory_bytes_per_s: {value: 100 GB/s, source: s}
num_multiprocessors: {value: 4, source: s}
launch_s: {value: 5 us, source: s}
pcie: {value: pcie-3-x16, source: s}
"""

CPU = """\
name: mine
title: My own CPU
memory_bytes_per_s: {value: 40 GB/s, source: s}
core_bytes_per_s: {value: 10 GB/s, source: s}
"""

TRANSPORT = """\
name: mine
title: My own transport
library: nccl
overhead_s: {value: 1 us, source: s}
efficiency: {value: 0.9, source: s}
buffers: {value: gpu, source: s}
adds: {value: true, source: s}
"""


def write(folder: Path, text: str, name: str = "mine.yaml") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def mistakes(load, path: Path | str) -> list[str]:
    with pytest.raises(InputError) as caught:
        load(path)
    return [str(mistake) for mistake in caught.value.mistakes]


def test_a_users_own_link_is_read_from_its_path(tmp_path: Path) -> None:
    link = load_link(write(tmp_path, LINK))
    assert (link.name, link.bytes_per_s, link.raw_bytes_per_s, link.latency_s) == ("mine", 10e9, 12.5e9, 1e-6)
    assert link.assumed() == {"latency_s": "assumed: a guess"}


def test_a_path_may_be_a_string_and_relative(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, CPU)
    monkeypatch.chdir(tmp_path)
    assert load_cpu("mine.yaml") == load_cpu("./mine.yaml") == load_cpu(str(tmp_path / "mine.yaml"))


def test_a_file_that_changed_is_read_again(tmp_path: Path) -> None:
    path = write(tmp_path, TRANSPORT)
    assert load_transport(path).efficiency == 0.9
    write(tmp_path, TRANSPORT.replace("0.9", "0.875"))
    assert load_transport(path).efficiency == 0.875


def test_a_shipped_sheet_is_read_once() -> None:
    assert load_gpu("k20x").sources is load_gpu("k20x").sources


def test_a_gpu_may_name_a_link_sheet_beside_it(tmp_path: Path) -> None:
    write(tmp_path, LINK, "link.yaml")
    gpu = load_gpu(write(tmp_path, GPU.replace("pcie-3-x16", "link.yaml")))
    assert load_link(gpu.pcie).title == "My own link"


def test_an_absent_nvlink_is_none_and_no_links(tmp_path: Path) -> None:
    gpu = load_gpu(write(tmp_path, GPU))
    assert (gpu.nvlink, gpu.num_nvlinks) == (None, 0)


def test_an_unknown_name_is_answered_with_the_nearest() -> None:
    assert mistakes(load_gpu, "k20xx")[0].startswith("no GPU is called 'k20xx'; did you mean 'k20x'?")
    assert mistakes(load_link, "nvlink4")[0].startswith("no link is called 'nvlink4'; did you mean 'nvlink-4'?")
    assert "no CPU is called 'epyc'" in mistakes(load_cpu, "epyc")[0]
    assert "did you mean 'nccl'" in mistakes(load_transport, "ncl")[0]
    with pytest.raises(InputError, match="no GPU is called"):
        GPUS["k99"]


def test_the_tables_list_names_without_loading_sheets() -> None:
    assert "k20x" in GPUS
    assert "nothing" not in GPUS
    assert list(LINKS) == sorted(LINKS)
    assert len(GPUS) == len(list(GPUS))


@pytest.mark.parametrize(
    ("load", "text", "old", "new", "expected"),
    [
        (
            load_link,
            LINK,
            "bytes_per_s: {value: 10 GB/s, source: measured here}\n",
            "",
            "bytes_per_s: this key is missing",
        ),
        (
            load_link,
            LINK,
            ", source: measured here",
            "",
            "mine.yaml:3:1: bytes_per_s.source: this key is missing: document, page",
        ),
        (load_link, LINK, "measured here", '"  "', "mine.yaml:3:39: bytes_per_s.source: a source names a document"),
        (load_link, LINK, "assumed: a guess", "assumed:", "latency_s.source: a source names a document"),
        (load_link, LINK, "100 Gbit/s", "100 Gb/s", "mine.yaml:5:10: raw_bytes_per_s.value: expected a rate"),
        (load_link, LINK, "100 Gbit/s", "100", "a number needs a unit"),
        (load_link, LINK, "10 GB/s", "0 GB/s", "bytes_per_s.value: expected a number above 0 (got '0 GB/s')"),
        (
            load_link,
            LINK,
            "{value: 10 GB/s, source: measured here}",
            "10 GB/s",
            "bytes_per_s: expected a map of 'key: value' (got '10 GB/s')",
        ),
        (
            load_link,
            LINK,
            "latency_s",
            "latencys",
            "mine.yaml:7:1: latencys: there is no such key here; did you mean 'latency_s'?",
        ),
        (
            load_link,
            LINK,
            "source: data",
            "sauce: data",
            "mine.yaml:6:3: raw_bytes_per_s.sauce: there is no such key here; did you mean 'source'?",
        ),
        (
            load_link,
            LINK,
            "10 GB/s",
            "20 GB/s",
            "mine.yaml:3:22: bytes_per_s.value: bytes_per_s (rate of messages) is more",
        ),
        (load_link, LINK, "name: mine", "name: My Link", "mine.yaml:1:7: name: expected text of the form ^[a-z0-9]+"),
        (load_link, LINK, "title: My own link", "title: ''", "title: expected text of at least 1 characters (got '')"),
        (load_link, LINK, "title: My own link", "title: a: b", "mine.yaml:2:9: a ':' that does not belong here"),
        (load_link, LINK, "title:", "name:", "mine.yaml:2:1: name: the key is given twice (first in line 1)"),
        (load_gpu, GPU, "fp32", "fp16", "mine.yaml:5:3: flop_per_s: flop_per_s needs at least fp32"),
        (load_gpu, GPU, "  fp32", "  fp33", "mine.yaml:5:3: flop_per_s.fp33: expected one of 'fp64', 'fp32'"),
        (load_gpu, GPU, "other", "keppler", "architecture.value: expected one of 'fermi', 'kepler'"),
        (
            load_gpu,
            GPU,
            "value: 4,",
            "value: 0,",
            "num_multiprocessors.value: expected a number of at least 1 (got 0)",
        ),
        (
            load_gpu,
            GPU,
            "pcie-3-x16",
            "pcie-3-16",
            "mine.yaml:10:15: pcie.value: no link is called 'pcie-3-16'; did you",
        ),
        (load_gpu, GPU, "pcie-3-x16", "absent.yaml", "mine.yaml:10:15: pcie.value: there is no file"),
        (load_gpu, GPU, "launch_s", "num_nvlinks: {value: 4, source: s}\nlaunch_s", "nvlink and num_nvlinks are given"),
        (
            load_gpu,
            GPU,
            "launch_s",
            "staged_together_bytes_per_s: {value: 4 GB/s, source: s}\nlaunch_s",
            "needs staged_bytes_per_s",
        ),
        (load_cpu, CPU, "10 GB/s", "50 GB/s", "core_bytes_per_s (one core) is more than memory_bytes_per_s"),
        (load_transport, TRANSPORT, "0.9", "1.5", "efficiency.value: expected a number of at most 1 (got 1.5)"),
        (load_transport, TRANSPORT, "gpu", "gpus", "buffers.value: expected one of 'gpu' or 'host' (got 'gpus')"),
    ],
)
def test_a_mistake_in_a_sheet_names_its_file_key_and_place(load, text, old, new, expected, tmp_path: Path) -> None:
    assert text.count(old) >= 1
    said = mistakes(load, write(tmp_path, text.replace(old, new, 1)))
    assert any(expected in each for each in said), said
    assert all("mine.yaml" in each for each in said)


def test_all_mistakes_are_reported_together_with_their_lines(tmp_path: Path) -> None:
    said = mistakes(load_link, write(tmp_path, LINK.replace("1 us", "1 parsec").replace("10 GB/s", "10")))
    assert len(said) == 2
    assert said[1].endswith('latency_s: {value: 1 parsec, source: "assumed: a guess"}\n                       ^')


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"\xff\xfe\x00binary", "this is not text in UTF-8"),
        (b"- a\n- b\n", "a sheet is a list of 'key: value' lines (got a list)"),
        (b"just words", "a sheet is a list of 'key: value' lines (got 'just words')"),
        (b"", "the file is empty"),
        (b"a: &a [x]\nb: *c\n", "'*c' has no '&c' before it"),
        (b"a: !!python/object:os.system {}\n", "a tag ('tag:yaml.org,2002:python/object:os.system')"),
        (b"\tname: x\n", "a tab; YAML is indented with spaces"),
        (b"[" * 400, "nested more than 40 levels deep"),
        (b"[" * 5000, "nested more than 40 levels deep"),
        (b"#" * 140_000, "the file is too large (0.1 MB); 128 KiB at most"),
    ],
)
def test_a_file_that_is_no_sheet_is_refused(content: bytes, expected: str, tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_bytes(content)
    said = mistakes(load_link, path)
    assert expected in said[0]
    assert "mine.yaml" in said[0]


def test_an_alias_bomb_is_refused_at_once(tmp_path: Path) -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 30)]
    said = mistakes(load_link, write(tmp_path, "\n".join(lines) + f"\n{LINK.replace('10 GB/s', '*a29')}"))
    assert "mine.yaml:1:1: too many values; a file may have at most 5,000 values" in said[0]
    assert len(said[0]) < 1000


def test_a_deep_alias_bomb_of_mappings_is_refused_at_once(tmp_path: Path) -> None:
    lines = ["a0: &a0 {x: 1, y: 2, z: 3}"] + [f"a{n}: &a{n} {{x: *a{n - 1}, y: *a{n - 1}}}" for n in range(1, 60)]
    said = mistakes(load_link, write(tmp_path, "\n".join(lines)))
    assert "nested more than 40 levels deep" in said[0]


def test_a_missing_file_and_a_directory_are_refused(tmp_path: Path) -> None:
    assert "cannot be read: No such file or directory" in mistakes(load_link, tmp_path / "absent.yaml")[0]
    (tmp_path / "folder.yaml").mkdir()
    assert "this is a directory; name a file in it" in mistakes(load_link, tmp_path / "folder.yaml")[0]


def test_a_users_transport_names_the_library_of_its_algorithm_choices(tmp_path: Path) -> None:
    assert load_transport(write(tmp_path, TRANSPORT)).library == "nccl"
    assert load_transport("mpi").library == "mpi"
    messages = mistakes(load_transport, write(tmp_path, TRANSPORT.replace("library: nccl\n", "")))
    assert len(messages) == 1
    assert "'mine' is not a shipped transport; give the library whose algorithm choices it makes" in messages[0]


def test_every_shipped_library_can_be_the_library_of_a_users_transport() -> None:
    libraries = {load_transport(name).library for name in TRANSPORTS}
    assert set(get_args(Library)) == libraries
    assert {name for name in TRANSPORTS if load_transport(name).library == name} == libraries


def test_a_library_with_host_buffers_has_no_channels(tmp_path: Path) -> None:
    channels = "channels: {value: 8, source: s}\n"
    assert load_transport(write(tmp_path, TRANSPORT + channels)).channels == 8
    assert load_transport("nccl").channels is None
    messages = mistakes(load_transport, write(tmp_path, (TRANSPORT + channels).replace("value: gpu", "value: host")))
    assert len(messages) == 1
    assert "channels are multiprocessors of GPUs, but the host's processors exchange buffers" in messages[0]
