"""Which links are slow or down, and when."""

from __future__ import annotations

from itertools import islice
from typing import Any

import numpy as np
import pytest

from clustersim.errors import InputError
from clustersim.stragglers import LinkOutages, LinkSlowDowns, LinkTable, link_changes, link_paces

PAIRS = [("gpu0", "nic0"), ("nic0", "leaf"), ("gpu1", "nic1"), ("nic1", "leaf"), ("leaf", "spine"), ("leaf", "spine")]
ENDS = PAIRS + [(dst, src) for src, dst in PAIRS]
HOSTS = {"gpu0": 8, "nic0": 8, "gpu1": 3, "nic1": 3, "leaf": -1, "spine": -1}
TABLE = LinkTable(
    [src for src, _ in ENDS],
    [dst for _, dst in ENDS],
    ["pcie", "ib", "pcie", "ib", "up", "up"] * 2,
    np.array([HOSTS[src] for src, _ in ENDS]),
    np.array([HOSTS[dst] for _, dst in ENDS]),
    [3, 8],
)


def outages(**knobs: Any) -> LinkOutages:
    return LinkOutages.model_validate({"kind": "link-outages", "every": "10 s", "lasts": "2 s"} | knobs)


@pytest.mark.parametrize(
    ("of", "expected"),
    [
        ("network", [1, 3, 4, 5, 7, 9, 10, 11]),
        ("all", list(range(12))),
        ({"kinds": ["pcie", "up"]}, [0, 2, 4, 5, 6, 8, 10, 11]),
        ({"hosts": [0]}, [3, 9]),  # the job's first host is the cluster's 3
        ({"hosts": [1]}, [1, 7]),
        ({"links": ["leaf->nic1"]}, [3, 9]),
    ],
)
def test_links_are_selected_in_both_directions(of: Any, expected: list[int]) -> None:
    assert np.flatnonzero(outages(of=of).selects(TABLE)).tolist() == expected


@pytest.mark.parametrize(
    ("of", "words"),
    [
        ({"kinds": ["pci"]}, "no kind of link in this cluster is called 'pci'; did you mean 'pcie'"),
        ({"links": ["leaf->spin"]}, "no link of this cluster is called 'leaf->spin'; did you mean 'leaf->spine'"),
        ({"links": ["?"]}, "did you mean 'gpu0->nic0'"),
        ({"hosts": [2]}, "the job is on 2 hosts, numbered 0 to 1 .got 2"),
    ],
)
def test_links_that_do_not_exist_are_refused(of: Any, words: str) -> None:
    with pytest.raises(InputError, match=words):
        outages(of=of).selects(TABLE)


def test_a_selection_without_links_is_refused() -> None:
    lone = LinkTable(["gpu0"], ["nic0"], ["pcie"], np.array([0]), np.array([0]), [0])
    with pytest.raises(InputError, match="has no such link"):
        outages().selects(lone)


def test_both_directions_of_a_cable_are_slow_together_and_parallel_cables_are_not() -> None:
    paces = link_paces([outages()], 1, TABLE)
    assert sorted(paces) == [1, 3, 4, 5, 7, 9, 10, 11]
    first, second = (list(islice(paces[link].changes(), 9)) for link in (4, 5))
    assert first == list(islice(paces[10].changes(), 9))
    assert second == list(islice(paces[11].changes(), 9))
    assert first != second


def test_another_cable_or_straggler_changes_no_other_intervals() -> None:
    fewer = LinkTable(*(column[3:4] for column in TABLE[:5]), job_hosts=[3, 8])
    (alone,) = link_paces([outages()], 1, fewer).values()
    slow = LinkSlowDowns.model_validate(
        {"kind": "link-slow-downs", "factor": 2, "every": "5 s", "lasts": "1 s", "of": {"links": ["gpu0->nic0"]}}
    )
    among = link_paces([slow, outages()], 1, TABLE)[3]
    assert list(islice(alone.changes(), 9)) == list(islice(among.changes(), 9))


def test_changes_are_in_order_of_time_with_the_product_of_all_speeds() -> None:
    out = outages(every=None, at=["2 s"], lasts="1 s", of={"hosts": [0]})
    slow = LinkSlowDowns.model_validate(
        {"kind": "link-slow-downs", "factor": 4, "at": ["1 s", "9 s"], "lasts": "3 s", "of": {"kinds": ["ib"]}}
    )
    slower = slow.model_copy(update={"at": [9.0], "lasts": 3.0, "of": slow.of})
    changes = list(link_changes(link_paces([out, slow, slower], 1, TABLE)))
    assert [time_s for time_s, _, _ in changes] == sorted(time_s for time_s, _, _ in changes)
    assert [(time_s, speed) for time_s, link, speed in changes if link == 3] == [
        (1.0, 0.25),
        (2.0, 0.0),
        (3.0, 0.25),
        (4.0, 1.0),
        (9.0, 0.0625),
        (12.0, 1.0),
    ]
    assert {link for _, link, _ in changes} == {1, 3, 7, 9}


def test_without_stragglers_there_are_no_changes() -> None:
    assert list(link_changes(link_paces([], 1, TABLE))) == []
