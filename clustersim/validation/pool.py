"""Questions answered side by side in processes of their own."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

from clustersim.validation.question import Answer, Question, answer

Tell = Callable[[float, str], None]


def answer_all(questions: Sequence[Question], tell: Tell = lambda share, what: None, workers: int = 0) -> list[Answer]:
    """Return the answer of each question, in their order whoever is done first.

    `workers` is how many processes take part, as many as there are cores where it is 0. What is asked of more GPUs is
    begun first, so that nothing long is left to the end.
    """
    workers = min(workers or _num_cores(), len(questions))
    if workers <= 1:
        return [_told(question, tell, number, len(questions)) for number, question in enumerate(questions)]
    from concurrent.futures import ProcessPoolExecutor, as_completed
    from multiprocessing import get_context

    answers: list[Answer | None] = [None] * len(questions)
    order = sorted(range(len(questions)), key=lambda number: -_size(questions[number]))
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        try:
            running = {pool.submit(answer, questions[number]): number for number in order}
            for done, future in enumerate(as_completed(running), start=1):
                number = running[future]
                answers[number] = future.result()
                tell(done / len(questions), _name(questions[number]))
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return [found for found in answers if found is not None]


def _num_cores() -> int:
    """Return how many cores this process may use; systems that do not say have all of the machine's."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _told(question: Question, tell: Tell, number: int, total: int) -> Answer:
    found = answer(question)
    tell((number + 1) / total, _name(question))
    return found


def _name(question: Question) -> str:
    return " ".join([question.file.parent.name, *question.overrides])


def _size(question: Question) -> int:
    """Return how many GPUs a question names, 0 where only its file does."""
    for text in question.overrides:
        key, _, value = text.partition("=")
        if key == "num_gpus" and value.isdecimal():
            return int(value)
    return 0
