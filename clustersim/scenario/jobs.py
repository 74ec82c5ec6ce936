"""Expands the jobs of a scenario: each is the scenario with its own keys merged in."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from clustersim.reading.explain import Problem
from clustersim.reading.tree import Path, TreeNode, dotted
from clustersim.scenario.merge import merge
from clustersim.scenario.point import SHARED

_NOT_INHERITED = ("name", "jobs")


def expand_jobs(root: TreeNode) -> tuple[TreeNode, list[Problem]]:
    """Return the tree with all keys in every job of a list, and the mistakes of jobs that give shared keys.

    A job is the scenario with the job's own keys merged in, as `extends` does it.
    """
    jobs = root.child("jobs")
    if jobs is None or not isinstance(jobs.value, list):
        return root, []
    shared = root.with_value({key: node for key, node in root.children.items() if key not in _NOT_INHERITED})
    problems = [problem for number, job in enumerate(jobs.value) for problem in _shared_keys(job, number)]
    complete = [_merged(shared, job) if isinstance(job.value, dict) else job for job in jobs.value]
    return root.put(("jobs",), jobs.with_value(complete)), problems


def without_inherited(problems: Sequence[Problem], root: TreeNode) -> list[Problem]:
    """Return problems without those that a job inherits from the scenario; `root` is the tree as written."""
    own = {problem.path for problem in problems}
    return [problem for problem in problems if not (_inherited(problem.path, root) and problem.path[2:] in own)]


def _merged(shared: TreeNode, job: TreeNode) -> TreeNode:
    return merge(shared, job.with_value({key: node for key, node in job.children.items() if key not in SHARED}))


def _shared_keys(job: TreeNode, number: int) -> Iterator[Problem]:
    for key, node in job.children.items():
        if key in SHARED:
            path: Path = ("jobs", number, key)
            message = (
                f"jobs on one cluster share '{key}', or only the first has it; give it at the top level of the scenario"
            )
            yield Problem(path, (node.key_place or node.place).mistake(message, dotted(path), key))


def _inherited(path: Path, root: TreeNode) -> bool:
    """Return whether a path in a job leads to a value that the job inherits from the scenario."""
    return len(path) > 2 and path[0] == "jobs" and root.at(path[:3]) is None
