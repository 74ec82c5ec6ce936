"""Links: the busiest first, no overlapping nodes, the bottleneck by name."""

from __future__ import annotations

from dataclasses import replace
from math import dist

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clustersim.report.link_classes import draw_link_classes, link_classes_data
from clustersim.report.link_layout import place_nodes
from clustersim.report.link_picture import MIN_PX_PER_UNIT
from clustersim.report.links import draw_links, links_data
from clustersim.report.stress import connected_components, stress_layout
from clustersim.report.words import THIN
from clustersim.results import LinkClass
from tests.report.synthetic import make_sweep


def test_a_path_is_laid_out_straight_at_its_distances():
    places = stress_layout(["a", "b", "c", "d"], {("a", "b"), ("b", "c"), ("c", "d")})
    assert dist(places["a"], places["b"]) == pytest.approx(1.0, abs=0.02)
    assert dist(places["a"], places["d"]) == pytest.approx(3.0, abs=0.05)


def test_a_triangle_is_equilateral():
    places = stress_layout(["a", "b", "c"], {("a", "b"), ("b", "c"), ("c", "a")})
    sides = [dist(places[one], places[other]) for one, other in ("ab", "bc", "ca")]
    assert sides == pytest.approx([1.0, 1.0, 1.0], abs=1e-6)


def test_connected_components_are_found():
    assert connected_components(list("abcde"), {("a", "c"), ("e", "c"), ("b", "d")}) == [["a", "c", "e"], ["b", "d"]]


_NODES = [f"host{host}/{part}" for host in range(4) for part in ("gpu0", "socket0", "nic0")] + ["switch0", "switch1"]


@settings(deadline=None, max_examples=40)
@given(st.sets(st.tuples(st.sampled_from(_NODES), st.sampled_from(_NODES)), min_size=1, max_size=14))
def test_no_two_hosts_or_switches_cover_each_other_and_every_node_is_in_its_hosts_box(links):
    places, boxes = place_nodes(links)
    assert set(places) == {node for link in links for node in link}
    for node, (x, y) in places.items():
        x0, y0, x1, y1 = boxes.get(node.partition("/")[0], (x, y, x, y))
        assert x0 <= x <= x1
        assert y0 <= y <= y1
    spots = [*boxes.values(), *((x, y, x, y) for node, (x, y) in places.items() if "/" not in node)]
    for number, a in enumerate(spots):
        for b in spots[:number]:
            assert a[2] <= b[0] or b[2] <= a[0] or a[3] <= b[1] or b[3] <= a[1]


def test_the_busiest_links_are_drawn_and_names_can_be_read():
    sweep = make_sweep()
    data = links_data(sweep, sweep.runs[-1])
    loads = sorted((link.utilisation for link in sweep.runs[-1].links), reverse=True)
    assert [link.utilisation for link in data.wide.links] == loads[: len(data.wide.links)]
    assert len(data.narrow.links) < len(data.wide.links)
    assert min(data.wide.px_per_unit, data.narrow.px_per_unit) >= MIN_PX_PER_UNIT


def test_the_title_and_the_drawing_name_the_bottleneck():
    sweep = make_sweep()
    worst = max(sweep.runs[-1].links, key=lambda link: link.utilisation)
    figure = draw_links(links_data(sweep, sweep.runs[-1]))
    assert f"{worst.src} → {worst.dst}" in figure.title
    assert any(worst.kind in note["text"] and "<b>" in note["text"] for note in figure.layout["annotations"])


def test_equal_links_are_counted_beyond_those_drawn_and_hosts_stand_in_the_order_of_their_numbers():
    run = make_sweep().runs[-1]
    links = tuple(
        replace(
            run.links[0], name=f"host{number}/nic0->switch", src=f"host{number}/nic0", dst="switch", utilisation=0.5
        )
        for number in (10, 2, *range(11, 40))
    )
    data = links_data(make_sweep(), replace(run, links=links))
    assert data.title.replace(THIN, " ").startswith("The busiest link is host2/nic0 → switch (and 30 others)")
    assert [link.src for link in data.wide.links[:2]] == ["host2/nic0", "host10/nic0"]


def test_a_link_inside_a_node_is_named_by_its_kind():
    run = make_sweep().runs[-1]
    inside = replace(run.links[0], src="host0/memory0", dst="host0/memory0", kind="cpu-add", utilisation=0.9)
    assert "cpu-add in host0/memory0" in links_data(make_sweep(), replace(run, links=(inside,))).title


@pytest.mark.parametrize(
    ("load", "reason"), [(0.15, "No link is busy for more than 15 % of the iteration."), (0.2, "")]
)
def test_links_that_are_hardly_used_are_quiet(load, reason):
    run = make_sweep().runs[-1]
    idle = replace(
        run,
        links=(replace(run.links[0], utilisation=load),),
        link_classes=(LinkClass("fast", 4, 4, 1.0, load, 1e9),),
    )
    assert draw_links(links_data(make_sweep(), idle)).quiet.replace(THIN, " ") == reason
    assert draw_link_classes(link_classes_data(make_sweep(), idle)).quiet.replace(THIN, " ") == reason


def test_width_and_colour_grow_with_the_load():
    sweep = make_sweep()
    lines = [trace for trace in draw_links(links_data(sweep, sweep.runs[-1])).traces if trace["mode"] == "lines"]
    widths = [trace["line"]["width"] for trace in lines]
    steps = [int(trace["line"]["color"].removeprefix("@load")) for trace in lines]
    assert widths == sorted(widths)
    assert steps == sorted(steps)


def test_nothing_sent_is_nothing_drawn():
    sweep = make_sweep((1,))
    assert links_data(sweep, sweep.runs[0]) is None
    assert link_classes_data(sweep, sweep.runs[0]) is None


def test_classes_come_most_loaded_first_and_the_unused_are_named():
    sweep = make_sweep()
    data = link_classes_data(sweep, sweep.runs[-1])
    loads = [one.max_utilisation for one in data.classes]
    assert loads == sorted(loads, reverse=True)
    assert draw_link_classes(data).note == "Unused: gemini-z."


@pytest.mark.parametrize(
    ("load", "title"),
    [
        (0.83, "qpi links are the bottleneck: the busiest, one of 16, is busy 83 % of the time"),
        (0.16, "No link is busy for more than 16 % of the time; qpi links are the busiest"),
    ],
)
def test_a_class_is_a_bottleneck_only_if_it_is_busy(load, title):
    sweep = make_sweep((8,))
    run = replace(sweep.runs[0], link_classes=(LinkClass("qpi", 16, 4, 1e9, load, 1e10),))
    assert link_classes_data(sweep, run).title.replace(THIN, " ") == title
