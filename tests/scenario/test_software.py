"""Which program a scenario means, and which of its settings reach the training."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from clustersim.errors import InputError
from clustersim.scenario import Point, load_scenario
from clustersim.software import load_software

STAR = {"kind": "star", "num_hosts": 2, "link": "25 Gbit/s", "host": "dgx-a100"}
KEPLER = {"kind": "star", "num_hosts": 4, "link": "10 Gbit/s", "host": {"template": "dual-socket", "gpu": "k80"}}


def scenario(**keys: Any) -> dict[str, Any]:
    return {"model": "gpt2-small", "num_gpus": 8, "batch": {"per_gpu": 2}, "topology": STAR, **keys}


def point(**keys: Any) -> Point:
    (found,) = load_scenario(scenario(**keys)).points()
    return found.point


def mistake(**keys: Any) -> tuple[str | None, str]:
    with pytest.raises(InputError) as error:
        load_scenario(scenario(**keys))
    (found,) = error.value.mistakes
    return found.key, found.message


@pytest.mark.parametrize(
    ("keys", "name"),
    [
        ({}, "pytorch-ddp"),
        ({"parallelism": {"sharding": "zero-3"}}, "pytorch-fsdp"),
        ({"parallelism": {"sharding": "zero-2"}}, "pytorch-fsdp"),
        ({"parallelism": {"sharding": "zero-1"}}, "deepspeed-zero"),
        ({"parallelism": {"tensor": 2}}, "megatron-core"),
        ({"parallelism": {"pipeline": 2, "micro_batches": 2}}, "megatron-core"),
        ({"parallelism": {"tensor": 1, "pipeline": 1}}, "pytorch-ddp"),
        ({"strategy": {"kind": "server"}}, "mxnet-kvstore"),
        ({"strategy": {"kind": "gossip", "graph": "ring"}}, "pytorch-ddp"),
        ({"topology": KEPLER, "num_gpus": 4, "model": "resnet50"}, "caffe-mpi"),
    ],
)
def test_without_software_the_layout_decides(keys: dict[str, Any], name: str) -> None:
    found = point(**keys)
    assert (found.software.name, found.is_software_chosen) == (name, True)
    assert found.transport == load_software(name).values["transport"]
    assert found.compute.library == load_software(name).values["library"]


@pytest.mark.parametrize(
    ("name", "layouts"),
    [("torchtitan", [{"sharding": "zero-3"}, {"tensor": 2}]), ("megatron-core", [{"tensor": 2}, {"tensor": 4}])],
)
def test_a_list_of_layouts_is_an_axis_where_software_sets_parts_of_them(name: str, layouts: list[Any]) -> None:
    found = load_scenario(scenario(software=name, parallelism=layouts)).points()
    assert [each.point for each in found] == [point(software=name, parallelism=each) for each in layouts]


def test_software_that_is_named_is_not_chosen() -> None:
    assert not point(software="nanogpt").is_software_chosen
    assert point(software="nanogpt") == point(software={"name": "nanogpt"})


def test_a_setting_under_software_overrides_the_sheet_and_so_do_keys_of_the_scenario() -> None:
    found = point(software={"name": "pytorch-ddp", "host": "compiled"}, transport="gloo", precision="tf32")
    assert (found.compute.host, found.transport, found.precision) == ("compiled", "gloo", "tf32")
    assert {"compute.host", "transport", "precision"}.isdisjoint(found.supplied)
    assert "compute.library" in found.supplied


def test_the_strategy_keeps_what_it_gives_and_gets_the_rest() -> None:
    found = point(software="horovod-tensorflow-1", strategy={"kind": "all-reduce", "buckets": "4 MiB"})
    assert (found.strategy.buckets, found.strategy.overlap) == ("4 MiB", True)
    assert getattr(found.strategy, "copies", None) == "horovod"


def test_data_parallel_keeps_pytorchs_own_buffer() -> None:
    assert point(strategy={"kind": "data-parallel"}).strategy.buckets == "auto"


def test_what_the_layout_has_no_use_for_is_left_out_of_the_sheet_but_not_of_the_scenario() -> None:
    assert not point(software="megatron-core", parallelism={"tensor": 2}).parallelism.gather_overlap
    sharded = point(software="megatron-core", parallelism={"tensor": 2, "sharding": "zero-1"})
    assert sharded.parallelism.gather_overlap
    key, _ = mistake(software={"gather_overlap": True})
    assert key == "software.gather_overlap"


def test_a_setting_for_another_kind_of_model_is_left_out_of_the_sheet() -> None:
    assert point(software="llm.c").compute.attention is None  # GPT-2 of the catalogue writes its scores
    assert point(software="llm.c", model="llama-2-7b", memory_check=False).compute.attention == "cudnn"
    maxtext = point(software="maxtext", model="resnet50")
    assert (maxtext.compute.head, maxtext.compute.embedding) == ("as-others", "lookup")
    key, _ = mistake(software={"name": "llm.c", "attention": "cudnn"})
    assert key == "software.attention"


def test_a_precision_that_the_gpu_does_not_have_gives_way_to_the_next() -> None:
    assert point(software="megatron-core").precision == "amp-bf16"
    volta = {**STAR, "host": {"template": "dgx-1", "gpu": "v100"}}
    assert point(software="megatron-core", topology=volta).precision == "amp-fp16"


@pytest.mark.parametrize(
    ("keys", "key", "message"),
    [
        ({"software": "pytorch-dpp"}, "software", "did you mean 'pytorch-ddp'?"),
        ({"software": {"librari": "eager"}}, "software.librari", "did you mean 'library'?"),
        ({"software": {"library": "egaer"}}, "software.library", "expected one of"),
        ({"software": {"transport": "mpi"}}, "software.transport", "write transport outside of `software`"),
        ({"software": {"buckets": "whole"}}, "software.buckets", "write strategy.buckets outside of `software`"),
        ({"software": {"host": "compild"}}, "software.host", "did you mean 'compiled'?"),
        ({"compute": {"library": "eager"}}, "compute.library", "`software: {library: ...}`"),
        ({"parallelism": {"messages": "paired"}}, "parallelism.messages", "`software: {messages: ...}`"),
        ({"optimizer": {"kind": "adam", "passes": 23}}, "optimizer.passes", "`software: {update_passes: ...}`"),
        (
            {"strategy": {"kind": "server", "servers": {"whole": True}}},
            "strategy.servers.whole",
            "`software: {servers_whole: ...}`",
        ),
        ({"software": "pytorch-ddp", "parallelism": {"tensor": 2}}, "parallelism.tensor", "pytorch-ddp has no tensor"),
        ({"software": "torchtitan", "strategy": {"kind": "async"}}, "strategy.kind", "torchtitan has no async"),
        ({"software": "maxtext", "parallelism": {"sharding": "zero-1"}}, "parallelism.sharding", "no zero-1"),
    ],
)
def test_each_mistake_has_the_key_that_the_user_wrote(keys: dict[str, Any], key: str, message: str) -> None:
    found = mistake(**keys)
    assert found[0] == key
    assert message in found[1]


def test_a_mistake_has_its_line_and_column(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(
        "model: gpt2-small\nnum_gpus: 8\nbatch: {per_gpu: 2}\n"
        "topology: {kind: star, num_hosts: 1, link: 25 Gbit/s, host: dgx-a100}\n"
        "software: {name: pytorch-ddp, gather_overlap: true}\n"
    )
    with pytest.raises(InputError) as error:
        load_scenario(path)
    (found,) = error.value.mistakes
    assert (found.key, found.line, found.column) == ("software.gather_overlap", 5, 47)


def test_a_file_that_extends_changes_one_setting_or_the_whole_program(tmp_path: Path) -> None:
    (tmp_path / "base.yaml").write_text(
        "model: gpt2-small\nnum_gpus: 8\nbatch: {per_gpu: 2}\nsoftware: {name: nanogpt, gradient_kernels: none}\n"
        "topology: {kind: star, num_hosts: 1, link: 25 Gbit/s, host: dgx-a100}\n"
    )

    def extended(line: str) -> Point:
        (tmp_path / "mine.yaml").write_text(f"extends: base.yaml\n{line}\n")
        return load_scenario(tmp_path / "mine.yaml").points()[0].point

    changed = extended("software: {host: pytorch-eager}")
    assert (changed.software.name, changed.parallelism.gradient_kernels) == ("nanogpt", "none")
    assert changed.compute.host == "pytorch-eager"
    for other in ("software: pytorch-ddp", "software: {name: pytorch-ddp}"):
        assert extended(other).software.gradient_kernels is None


def test_settings_from_the_command_line() -> None:
    overrides = ["software.host=pytorch-eager", "software.name=nanogpt"]
    found = load_scenario(scenario(software="llm.c"), overrides=overrides).points()[0].point
    assert (found.software.name, found.compute.host) == ("nanogpt", "pytorch-eager")


def test_programs_and_their_settings_are_sweep_axes() -> None:
    found = load_scenario(scenario(software=["pytorch-ddp", "nanogpt"]))
    assert found.axes == {"software": ["pytorch-ddp", "nanogpt"]}
    found = load_scenario(scenario(software={"name": "nanogpt", "host": ["compiled", "pytorch-eager"]}))
    assert found.axes == {"software.host": ["compiled", "pytorch-eager"]}
    layouts = load_scenario(scenario(parallelism=[{"sharding": "zero-3"}, {"tensor": 2}]))
    assert [each.point.software.name for each in layouts.points()] == ["pytorch-fsdp", "megatron-core"]


def test_each_job_has_its_own_program_on_one_transport() -> None:
    found = point(num_gpus=4, software="nanogpt", jobs=[{}, {"software": "plain"}])
    assert [job.point.software.name for job in found.each_job()] == ["nanogpt", "plain"]
    assert [job.point.transport for job in found.each_job()] == ["nccl", "nccl"]


def test_a_sheet_of_ones_own(tmp_path: Path) -> None:
    sheet = tmp_path / "mine.yaml"
    sheet.write_text(
        "name: mine\ntitle: my trainer\nyear: 2026\nlayouts: [copies]\nstrategies: [all-reduce]\nvalues:\n"
        "  host: {value: compiled, source: 'assumed: as torch.compile'}\n"
        "  transport: {value: gloo, source: my launch script}\n"
    )
    found = point(software=str(sheet))
    assert (found.transport, found.compute.host) == ("gloo", "compiled")


def test_a_number_of_hosts_that_is_left_out_is_what_the_jobs_need() -> None:
    star = {key: value for key, value in STAR.items() if key != "num_hosts"}

    def hosts(**keys: Any) -> list[Any]:
        points = load_scenario(scenario(topology=star, **keys)).points()
        return [getattr(each.point.topology, "num_hosts", None) for each in points]

    assert hosts() == [1]
    assert hosts(num_gpus=[8, 9, 64]) == [1, 2, 8]
    assert hosts(strategy={"kind": "async", "servers": {"on": "own-hosts", "num": 2}}) == [3]
    assert hosts(jobs=3) == [3]


def test_what_the_sheet_gives_is_not_warned_of() -> None:
    import clustersim

    one = {**STAR, "num_hosts": 1}
    keys = {"topology": one, "num_gpus": 2, "model": "squeezenet-1.0", "num_iterations": 2}
    silent = clustersim.sweep(scenario(**keys, software="huggingface-trainer"))
    assert not [each for each in silent.warnings if "changes nothing" in each]
    own = clustersim.sweep(scenario(**keys, software={"name": "huggingface-trainer", "gradient_kernels": "autograd"}))
    assert [each for each in own.warnings if each.startswith("software.gradient_kernels changes nothing")]
    local = scenario(**keys, software={"bucket_copies": "horovod"}, strategy={"kind": "local", "steps": 2})
    assert "software.bucket_copies changes nothing: local has no such setting" in clustersim.sweep(local).warnings


def test_the_run_says_which_program_was_taken_and_why() -> None:
    import clustersim

    keys = {"num_gpus": 2, "model": "squeezenet-1.0", "num_iterations": 2}
    (chosen, named) = (clustersim.sweep(scenario(**keys, **more)) for more in ({}, {"software": "pytorch-ddp"}))
    said = "The scenario names none; this one follows from its layout."
    assert any("The software is pytorch-ddp" in each and said in each for each in chosen.assumptions)
    assert not any(said in each for each in named.assumptions)
    assert (chosen.runs[0].software, chosen.runs[0].transport) == ("pytorch-ddp", "nccl")
    assert chosen.runs[0].samples_per_s == named.runs[0].samples_per_s


SHEET = (
    "name: mine\ntitle: my trainer\nyear: 2026\nlayouts: [copies]\nstrategies: [all-reduce]\nvalues:\n"
    "  host: {value: compiled, source: 'assumed: as torch.compile'}\n"
)


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("hots: {value: compiled, source: mine}", "did you mean 'host'?"),
        ("library: {value: eagr, source: mine}", "expected one of"),
        ("sharding_copies: {value: 7, source: mine}", "expected one of"),
        ("transport: {value: ncl, source: mine}", "did you mean 'nccl'?"),
        ("precision: {value: [bf17, fp32], source: mine}", "no precision is called 'bf17'"),
        ("algorithm: {value: rng, source: mine}", "did you mean 'ring'?"),
        ("overlap: {value: maybe, source: mine}", "expected one of True, False"),
        ("buckets: {value: heap, source: mine}", "heap"),
        ("gradient_precision: {value: fp8, source: mine}", "expected one of fp32"),
    ],
)
def test_a_wrong_setting_of_ones_own_sheet_has_its_line(tmp_path: Path, setting: str, message: str) -> None:
    sheet = tmp_path / "mine.yaml"
    sheet.write_text(f"{SHEET}  {setting}\n")
    with pytest.raises(InputError) as error:
        load_scenario(scenario(software=str(sheet)))
    (found,) = error.value.mistakes
    assert (Path(found.file or "").name, found.line) == ("mine.yaml", 8)
    assert message in found.message


@pytest.mark.parametrize("given", [3, True, 2.5])
def test_software_that_is_no_name_is_refused(given: Any) -> None:
    key, message = mistake(software=given)
    assert key == "software"
    assert "the name of a software" in message


def test_a_sheet_lies_beside_its_scenario_also_with_changed_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "inside").mkdir()
    (tmp_path / "inside" / "mine.yaml").write_text(SHEET)
    monkeypatch.chdir(tmp_path)
    text = "model: gpt2-small\nnum_gpus: 2\nbatch: {per_gpu: 2}\ntopology: {kind: star, link: 1 GB/s, host: dgx-a100}\n"
    for software in ("mine.yaml", "{name: mine.yaml, casts: torchao}"):
        (tmp_path / "inside" / "run.yaml").write_text(f"{text}software: {software}\n")
        found = load_scenario("inside/run.yaml").points()[0].point
        assert found.software.name == "inside/mine.yaml"


def test_changed_programs_and_names_have_labels_of_their_own() -> None:
    software = ["pytorch-ddp", "nanogpt", {"name": "nanogpt", "host": "pytorch-eager"}]
    labels = load_scenario(scenario(software=software)).axes["software"]
    assert labels == ["pytorch-ddp", "nanogpt", "name=nanogpt host=pytorch-eager"]
