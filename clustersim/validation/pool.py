"""Questions answered side by side in processes of their own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from clustersim.errors import InputError
from clustersim.scenario.files import read_scenario
from clustersim.sweep.pool import ProcessPool
from clustersim.validation.question import Answer, Question, answer

OnProgress = Callable[[float, str], None]


def answer_all(
    questions: Sequence[Question], tell: OnProgress = lambda share, what: None, workers: int = 0
) -> list[Answer]:
    """Return the answer of each question, in their order whoever is done first.

    `workers` is how many processes take part, as many as there are cores where it is 0.
    """

    def told(number: int, how_many: int) -> None:
        tell(how_many / len(questions), _name(questions[number]))

    with ProcessPool(workers) as pool:
        return pool.map(answer, questions, told, order_of(questions))


def order_of(questions: Sequence[Question]) -> list[int]:
    """Return the numbers of questions in the order in which they are begun.

    Those of one file follow one another, since they have clusters, layers and schedules in common that a process keeps
    for a while. The file that asks of most GPUs comes first, so that nothing long is left to the end.
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
    """Return how many GPUs a question is about, by its row or else by its file; 0 where neither names a number."""
    for text in question.overrides:
        key, _, value = text.partition("=")
        if key == "num_gpus" and value.isdecimal():
            return int(value)
    try:
        named = read_scenario(question.file)[0].child("num_gpus")
    except InputError:  # told with everything else that is wrong, when it is answered
        return 0
    return named.value if named is not None and isinstance(named.value, int) else 0
