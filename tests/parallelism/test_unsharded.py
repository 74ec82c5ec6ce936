"""What is temporarily whole of sharded weights and gradients."""

from __future__ import annotations

from clustersim.model import Layer
from clustersim.parallelism.unsharded import unsharded_bytes


def block(num_parameters: int, attends: bool = True) -> list[Layer]:
    fc = Layer("fc", "fully-connected", 0.0, 0.0, 0.0, num_parameters, 1.0, 1.0)
    return [fc, Layer("scores", "matmul", 0.0, 0.0, 0.0, 0, 1.0, 1.0)] if attends else [fc]


MODEL = [block(500, attends=False), block(100), block(120), block(110), block(400, attends=False)]


def test_without_sharded_gradients_nothing_is_temporarily_whole() -> None:
    assert (
        unsharded_bytes(MODEL, None, 2, 4, by_fsdp=False) == unsharded_bytes(MODEL, "zero-1", 2, 4, by_fsdp=True) == 0
    )


def test_two_blocks_next_to_each_other_are_whole() -> None:
    assert unsharded_bytes(MODEL, "zero-2", 2, 4, by_fsdp=False) == 4 * (500 + 100)
    assert unsharded_bytes(MODEL, "zero-3", 2, 4, by_fsdp=False) == (2 + 4) * (500 + 100)
    assert unsharded_bytes([block(7)], "zero-3", 2, 4, by_fsdp=False) == (2 + 4) * 7


def test_fsdp_keeps_its_root_gathered_and_a_buffer_beside_the_gradients_of_the_next_block() -> None:
    """The root is the embedding and the last matrix; the gradients of the last, which come first, wait for the end."""
    gathered, waiting, next_block, buffer = 500 + 400 + 120 + 110, 500, 120, 120
    found = unsharded_bytes(MODEL, "zero-3", 2, 4, by_fsdp=True)
    assert found == 2 * (gathered + waiting + next_block) + 4 * buffer


def test_a_model_without_attention_has_no_root() -> None:
    plain = [block(5, attends=False), block(7, attends=False)]
    assert unsharded_bytes(plain, "zero-3", 2, 4, by_fsdp=True) == 2 * (5 + 7) + 2 * 7 + 4 * 7
