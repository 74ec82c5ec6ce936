"""Checks of processes that wait for every kernel (`software.launch: blocking`)."""

import pytest

GPT = "model: gpt-12x768x12-seq128\nprecision: amp-fp16\nbatch: {global: 16}\n"
TOPOLOGY = (
    "topology: {kind: star, num_hosts: 1, link: 100 Gbit/s, hop: 600 ns, host: {template: dgx-a100}}\n"
    "strategy: {kind: all-reduce, overlap: false}\n"
)
BLOCKING = GPT + TOPOLOGY + "software: {name: plain, launch: blocking}\n"


def test_a_scenario_without_overlap_is_valid(load):
    assert load(BLOCKING)
    assert load(BLOCKING + "parallelism: {tensor: 2, sharding: zero-1}")


@pytest.mark.parametrize(
    ("override", "what"),
    [
        ("strategy.overlap=true", "give overlap: false"),
        ("parallelism.sharding=zero-3", "give sharding: zero-1 or zero-2"),
        ("software.gather_overlap=true", "give gather_overlap: false"),
        ("parallelism.offload=optimizer", "give offload: none"),
        ("parallelism.pipeline=2", "give messages: awaited or paired"),
    ],
)
def test_overlap_with_compute_is_refused(load, mistakes, override, what):
    """With queued kernels the same is valid."""
    text, key = (
        BLOCKING + "parallelism: {tensor: 2, sharding: zero-1}",
        override.partition("=")[0].replace("parallelism.pipeline", "software.messages"),
    )
    (mistake,) = mistakes(text, (override,))
    assert mistake.key == key
    assert what in mistake.message
    assert "software.launch: blocking" in mistake.message
    assert load(text, (override, "software.launch=queued"))


def test_the_remedy_for_a_schedule_without_awaited_messages_is_one_with_them(load, mistakes):
    text = BLOCKING + "parallelism: {pipeline: 2, micro_batches: 4, schedule: zero-bubble}"
    (mistake,) = mistakes(text)
    assert mistake.key == "parallelism.schedule"
    assert "give schedule: 1f1b or gpipe, with messages: awaited" in mistake.message
    assert load(text.replace("zero-bubble", "1f1b"), ("software.messages=awaited",))


def test_messages_are_awaited_only_if_stages_reach_them_in_the_same_order(load, mistakes):
    text = GPT + TOPOLOGY + "parallelism: {pipeline: 2, micro_batches: 4, schedule: zero-bubble}\n"
    text += "software: {name: plain, messages: awaited}"
    (mistake,) = mistakes(text)
    assert mistake.key == "software.messages"
    assert "leave messages out, or take schedule: 1f1b" in mistake.message
    assert load(text.replace("zero-bubble", "1f1b"))


def test_masks_need_a_process_that_waits_for_every_kernel(load, mistakes):
    """Queued kernels may run at the same time."""
    text = BLOCKING.replace("blocking}", "blocking, masks: host}") + "parallelism: {micro_batches: 2}"
    assert load(text)
    (mistake,) = mistakes(text, ("software.launch=queued",))
    assert mistake.key == "software.masks"
    assert "leave masks out, or give software.launch: blocking" in mistake.message
