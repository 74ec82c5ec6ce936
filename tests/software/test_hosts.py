"""Host sheets: how long the host of a kind of program takes, each value with a source."""

from __future__ import annotations

import pytest

from clustersim.software import HOSTS, load_host, operators_of

SHEETS = [load_host(name) for name in HOSTS]


@pytest.mark.parametrize("name", HOSTS)
def test_a_sheet_is_called_what_its_file_is_called_and_every_value_has_a_source(name: str) -> None:
    sheet = load_host(name)
    assert (sheet.name, sheet.title) == (name, HOSTS[name])
    said = {key for key in vars(sheet) if key not in ("name", "title", "sources")}
    assert set(sheet.sources) == said
    assert all(len(source) > 10 for source in sheet.sources.values())
    assert all(reason.startswith("assumed: ") for reason in sheet.assumed().values())


@pytest.mark.parametrize("sheet", SHEETS, ids=lambda sheet: sheet.name)
def test_no_host_issues_a_kernel_faster_than_the_driver_or_slower_than_a_heavy_operator(sheet) -> None:
    """A launch without a framework is 2 to 4 us; a hundred is what a hook of FSDP takes."""
    for seconds in (sheet.kernel_s, sheet.backward_kernel_s, sheet.exchange_s, sheet.message_s):
        assert 2e-6 < seconds < 100e-6
    assert 0 <= sheet.view_s <= sheet.kernel_s
    assert sheet.update_kernels >= 0


def test_an_eager_program_issues_slower_than_a_compiled_one_and_megatrons_python_is_more() -> None:
    compiled, eager, megatron = (load_host(name) for name in ("compiled", "pytorch-eager", "megatron"))
    assert compiled.kernel_s < eager.kernel_s < megatron.kernel_s
    assert [sheet.operators for sheet in (compiled, eager, megatron)] == ["passes", "eager", "eager"]


def test_operators_are_those_of_the_table() -> None:
    forward, backward = operators_of("fully-connected", "fp32")
    assert (forward.kernels, backward.kernels) == (1, 3)
    with pytest.raises(KeyError):
        operators_of("no such layer", "fp32")
