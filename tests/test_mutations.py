"""The documents that readers are tried with differ from the original, and are the same every time."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from clustersim.errors import InputError
from tests.mutations import check_mutations, mutations

JSON = json.dumps({"a": [1, 2, {"b": "x"}], "c": {"d": 1.5}}).encode()
XML = b'<system version="1"><cpu numaid="0"><pci busid="0"/></cpu></system>'
LOG = b"# nThread 1\n 8 2 float sum 5.1 0.0\n 16 4 float sum 5.2 0.1\n"


@pytest.mark.parametrize("document", [JSON, XML, LOG, gzip.compress(JSON, mtime=0)], ids=["json", "xml", "log", "gzip"])
def test_mutations_differ_and_repeat(document: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CLUSTERSIM_FUZZ", raising=False)
    drawn = list(mutations(document, seed=1, count=200))
    unpacked = [each for each in drawn if each != document]
    assert len(unpacked) > 180
    assert len(set(drawn)) > 120
    if not document.startswith(b"\x1f\x8b"):  # the header of gzip has the time
        assert drawn == list(mutations(document, seed=1, count=200)) != list(mutations(document, seed=2, count=200))


def test_another_error_than_a_clear_one_fails(tmp_path: Path) -> None:
    def careless(path: Path) -> object:
        return json.loads(path.read_bytes())["a"][2]["b"]

    def careful(path: Path) -> object:
        try:
            return careless(path)
        except Exception:
            raise InputError("not a document") from None

    with pytest.raises((ValueError, TypeError, LookupError, AttributeError, RecursionError)):
        check_mutations(careless, JSON, tmp_path / "file.json")
    was_read, refused = check_mutations(careful, JSON, tmp_path / "file.json")
    assert was_read > 20
    assert refused > 50
    assert was_read + refused == 500
