"""The rate of samples is that of the slowest of reading, decoding and training."""

from __future__ import annotations

import numpy as np
import pytest
import simpy
from hypothesis import given, settings
from hypothesis import strategies as st

from clustersim.devices import Input, InputStage, SharedRate

BATCH = 10
MB = 1e6


def input_stage(env, hosts, **knobs):
    return InputStage(env, Input.model_validate(knobs), np.asarray(hosts), BATCH, seed=0)


def cycles(env, stage, rank, train_s, num_iterations):
    """Train on batch after batch; return when each iteration ended."""
    ends = []

    def train():
        for iteration in range(num_iterations):
            yield from stage.fetch(rank)
            yield env.timeout(train_s[iteration] if np.ndim(train_s) else train_s)
            ends.append(env.now)

    return env.process(train()), ends


def steady_s(train_s, num_iterations=60, **knobs):
    """Return the mean cycle of a lone worker without its first ones, over a multiple of the batches in the ring."""
    env = simpy.Environment()
    done, ends = cycles(env, input_stage(env, [0], **knobs), 0, train_s, num_iterations)
    env.run(done)
    return (ends[-1] - ends[num_iterations // 3 - 1]) / (num_iterations - num_iterations // 3)


@settings(max_examples=30, deadline=None)
@given(
    read_s=st.floats(0.1, 3.0),
    decode_s=st.floats(0.1, 3.0),
    train_s=st.floats(0.1, 3.0),
    prefetch=st.sampled_from([0, 1, 3, 4]),  # prefetch + 1 batches go round, which divides the 40 cycles measured
)
def test_a_lone_worker_takes_the_slowest_stage_or_the_whole_round_shared_by_the_batches_in_it(
    read_s, decode_s, train_s, prefetch
):
    cycle_s = steady_s(
        train_s,
        decode=f"{BATCH / decode_s} samples/s",
        storage=f"{BATCH * MB / read_s} B/s",
        sample_bytes="1 MB",
        prefetch=prefetch,
    )
    stages = read_s, decode_s, train_s
    assert cycle_s == pytest.approx(max(*stages, sum(stages) / (prefetch + 1)), rel=1e-9)


@pytest.mark.parametrize("decode", [10.0, 35.0, 1000.0])
@pytest.mark.parametrize("storage", [20.0, 60.0, 1000.0])
def test_throughput_is_the_least_of_compute_decoding_per_host_and_storage(decode, storage):
    """Five GPUs on two hosts, three of them on one host: in total, with a barrier after each iteration."""
    hosts, train_s, num_iterations = [0, 0, 0, 1, 1], 0.5, 30
    env = simpy.Environment()
    stage = input_stage(env, hosts, decode=f"{decode} samples/s", storage=f"{storage} MB/s", sample_bytes="1 MB")
    ends = []

    def train():
        for _ in range(num_iterations):
            yield from [env.process(stage.fetch(rank)) for rank in range(5)]
            yield env.timeout(train_s)
            ends.append(env.now)

    env.run(env.process(train()))
    rate = 5 * BATCH * 12 / (ends[-1] - ends[-13])
    assert rate == pytest.approx(min(5 * BATCH / train_s, decode / 3 * 5, storage), rel=1e-9)
    spec = Input.model_validate({"decode": f"{decode} samples/s", "storage": f"{storage} MB/s", "sample_bytes": "1 MB"})
    assert spec.samples_per_s(np.array(hosts)) == pytest.approx(min(decode / 3 * 5, storage))


def test_prefetching_hides_jitter_of_decoding_the_more_the_farther_ahead():
    """Decoding takes 0.7 of the compute on average, and varies: prefetching mostly hides that."""
    seconds = [steady_s(1.0, 3000, decode="14.2857 samples/s", cv=0.8, prefetch=prefetch) for prefetch in (0, 1, 2, 16)]
    assert seconds == sorted(seconds, reverse=True)
    assert seconds[0] == pytest.approx(1.7, rel=0.03)
    assert seconds[1] > 1.1
    assert seconds[3] == pytest.approx(1.0, rel=0.005)


def test_jitter_has_the_mean_and_the_variation_that_were_asked_for():
    env = simpy.Environment()
    cv, stage = 0.5, input_stage(env, [0], decode="10 samples/s", cv=0.5, prefetch=0)
    done, ends = cycles(env, stage, 0, 0.0, 8_000)
    env.run(done)
    seconds = np.diff([0.0, *ends])
    assert seconds.mean() == pytest.approx(1.0, rel=0.02)
    assert seconds.std() / seconds.mean() == pytest.approx(cv, rel=0.05)


def test_another_rank_does_not_change_what_a_rank_draws():
    def ends_of(num_ranks):
        env = simpy.Environment()
        stage = input_stage(env, range(num_ranks), decode="10 samples/s", cv=0.5)
        done, ends = cycles(env, stage, 0, 0.5, 20)
        env.run(done)
        return ends

    assert ends_of(1) == ends_of(3)


@settings(max_examples=50, deadline=None)
@given(
    users=st.lists(st.tuples(st.floats(0, 10), st.one_of(st.just(0.0), st.floats(1e-6, 1e3))), min_size=1, max_size=12),
    start_s=st.sampled_from([0.0, 1e6]),
)
def test_a_shared_rate_gives_all_users_an_equal_share(users, start_s):
    """Against the definition, advanced from one arrival or departure to the next."""
    env, per_s = simpy.Environment(start_s), 7.0
    rate, ends = SharedRate(env, per_s), {}

    def use(number, arrival_s, amount):
        yield env.timeout(arrival_s)
        yield rate.serve(amount)
        ends[number] = env.now - start_s

    for number, (arrival_s, amount) in enumerate(users):
        env.process(use(number, arrival_s, amount))
    env.run()
    assert [ends[number] for number in range(len(users))] == pytest.approx(shared(users, per_s), rel=1e-8, abs=1e-7)


def shared(users, per_s):
    """Return when each user (arrival, amount) is done."""
    left, ends = {}, [0.0] * len(users)
    coming = sorted(range(len(users)), key=lambda number: users[number][0], reverse=True)
    now = 0.0
    while coming or left:
        arrival = users[coming[-1]][0] if coming else float("inf")
        first = min(left, key=left.__getitem__, default=None)
        done = float("inf") if first is None else now + left[first] * len(left) / per_s
        then = min(arrival, done)
        left = {number: amount - (then - now) * per_s / len(left) for number, amount in left.items()}
        now = then
        if done <= arrival:
            ends[first] = now
            del left[first]
        else:
            number = coming.pop()
            left[number] = users[number][1]
    return ends
