"""Reads the file that nccl-tests write with `-J FILE` (since October 2025).

It also contains the command line and the environment; these are never copied to any output.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from clustersim.errors import InputError
from clustersim.reading.benchmark_logs.measurement import BenchmarkLog, CollectiveTime, Text
from clustersim.reading.benchmark_logs.nccl_tables import PROGRAM
from clustersim.reading.benchmark_logs.nccl_tests import NCCL_TESTS, ONE_RANK
from clustersim.reading.benchmark_logs.operations import operation


def is_nccl_tests_json(document: Mapping[str, Any]) -> bool:
    """Say whether a JSON document is from nccl-tests."""
    return "nccl_version" in document and "results" in document


def read_nccl_tests_json(text: Text, document: Mapping[str, Any]) -> BenchmarkLog:
    """Return the collectives of a document of nccl-tests."""
    try:
        devices = document["config"]["devices"]
        hosts = {str(device["hostname"]) for device in devices}
        groups = {int(device.get("group", 0)) for device in devices}
        found = tuple(_collectives(text, document, len(devices), len(hosts)))
    except InputError:
        raise
    except (AttributeError, KeyError, TypeError, ValueError, OverflowError) as error:
        message = f"this is not a complete document of nccl-tests: {type(error).__name__}: {str(error)[:200]}"
        raise text.mistake(None, message, allowed="the output of nccl-tests with -J") from None
    if len(groups) > 1:
        message = "several groups of ranks at once cannot be compared; give a run of one communicator"
        raise text.mistake(None, message, f"{len(groups)} groups", "one group")
    if not found:
        raise text.mistake(None, "this document of nccl-tests has no result; the run failed")
    if len(devices) == 1:
        raise text.mistake(None, ONE_RANK, "1 rank", "2 ranks or more")
    return BenchmarkLog(text.file, NCCL_TESTS, found)


def _collectives(text: Text, document: Mapping[str, Any], num_ranks: int, num_hosts: int) -> Iterator[CollectiveTime]:
    named = PROGRAM.search(" ".join(map(str, document.get("args", ()))))
    op = operation(text, named[1] if named else None, 1)
    for result in document["results"]:
        half = result["out_of_place"] or result["in_place"]
        wrong = half.get("nwrong")
        if str(wrong) not in ("0", "0.0", "None", "N/A"):
            message = f"nccl-tests found {wrong} wrong values at {result['size']} bytes; the run cannot be used"
            raise text.mistake(None, message, str(wrong), "0")
        if "time" not in half:
            message = "there is no 'time'; times of the CPU (-C 1) are not those of the collective"
            raise text.mistake(None, message, ", ".join(half), "time")
        seconds, num_bytes = 1e-6 * float(half["time"]), float(result["size"])
        if not 0 < seconds < float("inf"):
            raise text.mistake(None, f"a time must be above 0 (got {half['time']})", str(half["time"]), "above 0")
        if not 0 <= num_bytes < float("inf"):
            raise text.mistake(None, f"a size must be 0 or more (got {result['size']})", str(result["size"]), "bytes")
        if num_bytes:
            yield CollectiveTime(op, num_bytes, seconds, 1, num_ranks, num_hosts)
