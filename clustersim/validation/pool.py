"""Answers questions in parallel processes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from clustersim.errors import InputError
from clustersim.scenario.files import read_scenario
from clustersim.sweep.pool import ProcessPool
from clustersim.validation.question import Answer, Question, answer

OnProgress = Callable[[float, str], None]


def answer_all(
    questions: Sequence[Question], on_progress: OnProgress = lambda share, what: None, workers: int = 0
) -> list[Answer]:
    """Return the answers in the order of the questions.

    `workers` is the number of processes; 0 means one per core.
    """

    def finished(number: int, num_done: int) -> None:
        on_progress(num_done / len(questions), _name(questions[number]))

    with ProcessPool(workers) as pool:
        return pool.map(answer, questions, finished, order_of(questions))


def order_of(questions: Sequence[Question]) -> list[int]:
    """Return the numbers of questions in the order in which they start.

    Questions of one file follow each other: they share clusters, layers and schedules, which a process caches. The file
    with the most GPUs comes first, so that no long simulation is left for the end.
    """
    sizes = [size_of(question) for question in questions]
    most: dict[Path, int] = {}
    for question, size in zip(questions, sizes, strict=True):
        most[question.file] = max(size, most.get(question.file, 0))
    return sorted(
        range(len(questions)),
        key=lambda number: (-most[questions[number].file], questions[number].file, -sizes[number]),
    )


def _name(question: Question) -> str:
    return " ".join([question.file.parent.name, *question.overrides])


def size_of(question: Question) -> int:
    """Return the number of GPUs of a question, from its row or else its file; 0 if neither has it."""
    for text in question.overrides:
        key, _, value = text.partition("=")
        if key == "num_gpus" and value.isdecimal():
            return int(value)
    try:
        named = read_scenario(question.file)[0].child("num_gpus")
    except InputError:  # reported with all other mistakes when the question is answered
        return 0
    return named.value if named is not None and isinstance(named.value, int) else 0
