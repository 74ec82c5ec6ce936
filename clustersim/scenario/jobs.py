"""The jobs of a scenario: each is the scenario with something in it otherwise."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from clustersim.reading.explain import Problem
from clustersim.reading.tree import Node, Path, dotted
from clustersim.scenario.merge import merge
from clustersim.scenario.point import SHARED

_NOT_INHERITED = ("name", "jobs")


def expand_jobs(root: Node) -> tuple[Node, list[Problem]]:
    """Return the tree with every job of a list complete, and what jobs say that is not theirs to say.

    A job is what the scenario says, with the job's own keys merged in as `extends` does it.
    """
    jobs = root.child("jobs")
    if jobs is None or not isinstance(jobs.value, list):
        return root, []
    shared = root.with_value({key: node for key, node in root.children.items() if key not in _NOT_INHERITED})
    problems = [problem for number, job in enumerate(jobs.value) for problem in _not_its_own(job, number)]
    complete = [_merged(shared, job) if isinstance(job.value, dict) else job for job in jobs.value]
    return root.put(("jobs",), jobs.with_value(complete)), problems


def without_echoes(problems: Sequence[Problem], root: Node) -> list[Problem]:
    """Return problems without those of a job that are the scenario's own; `root` is what was written."""
    own = {problem.path for problem in problems}
    return [problem for problem in problems if not (_inherited(problem.path, root) and problem.path[2:] in own)]


def _merged(shared: Node, job: Node) -> Node:
    return merge(shared, job.with_value({key: node for key, node in job.children.items() if key not in SHARED}))


def _not_its_own(job: Node, number: int) -> Iterator[Problem]:
    for key, node in job.children.items():
        if key in SHARED:
            path: Path = ("jobs", number, key)
            message = f"jobs on one cluster share '{key}', or only the first has it; give it above, for the scenario"
            yield Problem(path, (node.key_place or node.place).mistake(message, dotted(path), key))


def _inherited(path: Path, root: Node) -> bool:
    """Say whether a path in a job leads to what the job has not said itself."""
    return len(path) > 2 and path[0] == "jobs" and root.at(path[:3]) is None
