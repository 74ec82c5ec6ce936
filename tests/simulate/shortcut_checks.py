"""Checks that runs with shortcuts, and exported traces, give the results of the exact run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from clustersim.interchange.chakra import read_chakra, write_chakra
from clustersim.scenario import load_scenario
from clustersim.scenario.software_keys import by_name
from clustersim.simulate.forecast import forecast
from clustersim.simulate.programs import programs_of
from clustersim.simulate.replicate import simulate_job
from clustersim.simulate.setup import Setup
from clustersim.simulate.traces import simulate_traces


def check_folded_is_exact(asked: dict[str, Any]) -> None:
    """Check that ranks are folded, and that times, parts and bytes of links are those of the exact run."""
    check_shortcut_is_exact(asked, "simulated as one")


def check_shortcut_is_exact(asked: dict[str, Any], words: str) -> None:
    """Check that a shortcut with these words is taken, and that it changes neither times, parts nor bytes of links."""
    assert any(words in shortcut for shortcut in check_is_exact(asked))


def check_is_exact(asked: dict[str, Any]) -> tuple[str, ...]:
    """Check that times, parts and bytes of links are those of the exact run; return the shortcuts that were taken."""
    quick, exact = (forecast(load_scenario(asked).points()[0].point, exact=exact) for exact in (False, True))
    assert quick.run.iteration_s == pytest.approx(exact.run.iteration_s, rel=1e-9)
    for part, seconds in exact.run.breakdown_s.items():
        assert quick.run.breakdown_s[part] == pytest.approx(seconds, rel=1e-9, abs=1e-9 * exact.run.iteration_s)
    carried, truly = ({link.name: link.num_bytes for link in each.run.links} for each in (quick, exact))
    assert carried == pytest.approx(truly, rel=1e-9)
    return tuple(quick.shortcuts)


def check_traces_are_exact(asked: dict[str, Any], folder: Path) -> None:
    """Check that exported traces take as long as the exact run of one iteration; a trace has no host."""
    asked = {**asked, "software": {"launch": "graphs", **by_name(asked["software"])}}
    setup = Setup(load_scenario(asked).points()[0].point)
    run = simulate_job(setup, 0, 1, True, 0.0, lambda share: None)
    run_s = max(float(job.times.end_s[:, 0].max()) for job in run.jobs)
    programs = programs_of(setup)
    stage_of = [programs.grid.stage(rank) for rank in range(programs.grid.num_ranks)]
    write_chakra(folder, "traces", programs.tasks(), stage_of, programs.node)
    simulated = simulate_traces(read_chakra(folder), setup.topology, "ideal", exact=True)
    assert simulated["end_s"] == pytest.approx(run_s, rel=1e-9)
