"""How a new user finds words: `explain`, `init`, `list WORD`, and hints in messages."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from clustersim.cli import app, main
from clustersim.errors import InputError
from clustersim.scenario import load_scenario

BASE: dict[str, Any] = {
    "model": "gpt2-small",
    "num_gpus": 8,
    "batch": {"per_gpu": 4},
    "topology": {"kind": "star", "link": "infiniband-ndr", "host": "dgx-h100"},
}


@pytest.mark.parametrize(
    ("changes", "key", "says"),
    [
        ({"strategy": {"kind": "fsdp"}}, "strategy.kind", "`parallelism: {sharding: zero-3}`"),
        ({"strategy": "ddp"}, "strategy", "`strategy: {kind: all-reduce}`"),
        ({"parallelism": {"sharding": "zero3"}}, "parallelism.sharding", "did you mean 'zero-3'?"),
        ({"parallelism": {"sharding": "fsdp"}}, "parallelism.sharding", "FSDP is zero-3"),
        ({"parallelism": {"tp": 8}}, "parallelism.tp", "tensor parallelism is `parallelism: {tensor: N}`"),
        ({"precision": "bf16"}, "precision", "amp-bf16"),
        ({"topology": {**BASE["topology"], "gpu": "h100-sxm"}}, "topology.gpu", "that is h100"),
        ({"topology": {**BASE["topology"], "gpu": "a100-80gb"}}, "topology.gpu", "that is a100"),
        ({"topology": {**BASE["topology"], "link": "roce"}}, "topology.link", "or a rate, such as '100 Gbit/s'"),
        ({"topology": {**BASE["topology"], "link": "x"}}, "topology.link", "or a rate, such as '100 Gbit/s'"),
        ({"batch": 32}, "batch", "write {per_gpu: 32}"),
        ({"batch_size": 32}, "batch_size", "`batch: {per_gpu: N}`"),
        ({"seq_len": 32}, "seq_len", "belong to the model"),
    ],
)
def test_a_word_of_another_program_is_pointed_to_the_one_here(changes: dict[str, Any], key: str, says: str) -> None:
    with pytest.raises(InputError) as caught:
        load_scenario({**BASE, **changes})
    (mistake,) = caught.value.mistakes
    assert mistake.key == key
    assert says in mistake.message


def test_explain_finds_a_key_by_its_end_and_says_what_it_takes(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "micro_batches"]) == 0
    assert capsys.readouterr().out == (
        "parallelism.micro_batches\n  takes: a whole number, at least 1, at most 16384\n  default: 1\n"
        "  micro-batches per replica and update, one after the other\n"
    )
    assert main(["explain", "batch"]) == 0
    assert "keys: per_gpu, global" in capsys.readouterr().out
    assert main(["explain", "tp"]) == 3
    assert "tensor parallelism is `parallelism: {tensor: N}`" in capsys.readouterr().err


def test_explain_says_what_the_columns_of_the_table_mean(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "mfu"]) == 0
    out = capsys.readouterr().out
    assert "a causal attention counts only the pairs of tokens that its kernel computes" in out
    assert main(["explain", "memory"]) == 0
    assert "memory of the GPU that holds most" in capsys.readouterr().out
    assert main(["explain", "mfuu"]) == 3


def test_list_finds_a_word_at_the_beginning_of_words(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", "roce"]) == 0
    out = capsys.readouterr().out
    assert "roce-400g" in out
    assert "processor" not in out
    assert main(["list", "conv2d"]) == 3
    assert "that is convolution" in capsys.readouterr().err


def test_the_beginning_of_a_shipped_name_suggests_all_that_begin_so() -> None:
    with pytest.raises(InputError, match="did you mean 'firecaffe-band' or 'firecaffe-googlenet' or 'firecaffe-nin'"):
        load_scenario("firecaffe")


def test_init_asks_five_questions_and_writes_a_scenario_that_runs(folder: Path) -> None:
    answers = "no-such-model\nresnet50\n8,16\nx\n32\n\n\n"
    done = CliRunner().invoke(app, ["init"], input=answers)
    assert done.exit_code == 0
    assert "no model is called 'no-such-model'" in done.output
    assert "expected a whole number above zero (got 'x')" in done.output
    loaded = load_scenario("scenario.yaml")
    assert [each.point.num_gpus for each in loaded.points()] == [8, 16]
    assert loaded.points()[0].point.batch.per_gpu == 32
    again = CliRunner().invoke(app, ["init"], input=answers)
    assert isinstance(again.exception, InputError)


def test_init_shards_what_fsdp_trains_and_says_what_cannot_run(folder: Path) -> None:
    done = CliRunner().invoke(app, ["init", "a.yaml"], input="llama-2-7b\n8\n1\n\npytorch-fsdp\n")
    assert load_scenario("a.yaml").points()[0].point.parallelism.sharding == "zero-3", done.output
    for name, software in (("b.yaml", "pytorch-ddp"), ("c.yaml", "torchtitan")):
        done = CliRunner().invoke(app, ["init", name], input=f"llama-2-70b\n8\n1\n\n{software}\n")
        assert done.exit_code == 0
        with pytest.raises(InputError) as caught:
            load_scenario(name)
        needs = re.search("this needs [0-9.]+ .B", str(caught.value))
        assert needs is not None
        assert needs[0] in done.output, "what is told is of the file that is written"


def test_init_takes_a_precision_that_the_gpu_has(folder: Path) -> None:
    done = CliRunner().invoke(app, ["init", "a.yaml"], input="googlenet\n8\n128\ntitan\ncaffe-mpi\n")
    assert "next: clustersim run a.yaml" in done.output
    assert {each.point.precision for each in load_scenario("a.yaml").points()} == {"fp32"}


def test_init_takes_a_program_that_holds_the_model_and_says_so(folder: Path) -> None:
    done = CliRunner().invoke(app, ["init", "a.yaml"], input="llama-3.1-8b\n32\n1\ndgx-a100\npytorch-ddp\n")
    assert "software is torchtitan: pytorch-ddp cannot: " in done.output
    assert "next: clustersim run a.yaml" in done.output
    assert load_scenario("a.yaml").points()[0].point.parallelism.sharding == "zero-3"
    assert "8 cards in a host" in Path("a.yaml").read_text()


def test_init_names_no_next_step_for_what_cannot_run(folder: Path) -> None:
    done = CliRunner().invoke(app, ["init", "a.yaml"], input="llama-2-70b\n1\n64\n\ntorchtitan\n")
    assert "cannot run yet" in done.output
    assert "next:" not in done.output


def test_the_end_of_the_input_at_a_question_writes_nothing(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with monkeypatch.context() as patch, open("/dev/null") as nothing:
        patch.setattr("sys.stdin", nothing)
        assert main(["init"]) == 130
    assert "interrupted" in capsys.readouterr().err
    assert not Path("scenario.yaml").exists()
