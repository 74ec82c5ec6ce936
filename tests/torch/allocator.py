"""What torch allocates and frees on a GPU, played without one: tensors of the meta device, by the allocator's rules."""

from __future__ import annotations

import weakref
from bisect import bisect_left, insort
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

MIB = 2**20
_ROUND, _SMALL, _SMALL_SEGMENT = 512, MIB, 2 * MIB
_MIDDLE, _MIDDLE_SEGMENT, _LARGE_ROUND = 10 * MIB, 20 * MIB, 2 * MIB


@dataclass(eq=False)
class Block:
    """A piece of a segment; `before` and `after` are its neighbours there."""

    address: int
    size: int
    is_small: bool
    is_free: bool = True
    before: Block | None = None
    after: Block | None = None


@dataclass
class CachingAllocator:
    """The rules of c10/cuda/CUDACachingAllocator.cpp for one stream, on memory without end.

    Sizes are rounded up to 512 bytes. Up to 1 MiB comes out of segments of 2 MiB, up to 10 MiB out of 20 MiB, more out
    of a segment of its own, rounded up to 2 MiB. The smallest free block that is large enough is taken, and split where
    512 bytes (of small ones) or more than 1 MiB are left; free neighbours are joined.
    """

    allocated: int = 0
    reserved: int = 0
    most_allocated: int = 0
    _next_address: int = 0
    _free: dict[bool, list[tuple[int, int, Block]]] = field(default_factory=lambda: {True: [], False: []})

    def take(self, num_bytes: int) -> Block:
        """Return a block of at least so many bytes."""
        size = max(1, -(-num_bytes // _ROUND)) * _ROUND
        free = self._free[size <= _SMALL]
        at = bisect_left(free, (size, -1))
        block = free.pop(at)[2] if at < len(free) else self._segment(size)
        left = block.size - size
        if left >= _ROUND if block.is_small else left > _SMALL:
            rest = Block(block.address + size, left, block.is_small, before=block, after=block.after)
            if rest.after is not None:
                rest.after.before = rest
            block.size, block.after = size, rest
            self._put(rest)
        block.is_free = False
        self.allocated += block.size
        self.most_allocated = max(self.most_allocated, self.allocated)
        return block

    def give_back(self, block: Block) -> None:
        """Free a block, and join it with free neighbours."""
        self.allocated -= block.size
        before, after = block.before, block.after
        if after is not None and after.is_free:
            self._remove(after)
            block.size, block.after = block.size + after.size, after.after
            if block.after is not None:
                block.after.before = block
        if before is not None and before.is_free:
            self._remove(before)
            before.size, before.after = before.size + block.size, block.after
            if before.after is not None:
                before.after.before = before
            block = before
        block.is_free = True
        self._put(block)

    def _segment(self, size: int) -> Block:
        whole = _SMALL_SEGMENT if size <= _SMALL else _MIDDLE_SEGMENT if size < _MIDDLE else -(-size // _LARGE_ROUND)
        whole *= 1 if size < _MIDDLE else _LARGE_ROUND
        self.reserved += whole
        self._next_address += whole
        return Block(self._next_address - whole, whole, size <= _SMALL)

    def _put(self, block: Block) -> None:
        insort(self._free[block.is_small], (block.size, block.address, block))

    def _remove(self, block: Block) -> None:
        free = self._free[block.is_small]
        del free[bisect_left(free, (block.size, block.address))]


class Played(TorchDispatchMode):
    """While it is in use, every storage that an operator makes takes a block, and gives it back when it dies."""

    def __init__(self) -> None:
        super().__init__()
        self.allocator = CachingAllocator()
        self._alive: dict[int, Any] = {}

    def hold(self, tensor: torch.Tensor) -> None:
        """Take a block for a tensor's storage, unless it has one."""
        storage = tensor.untyped_storage()
        key = storage._cdata
        if key in self._alive or not storage.nbytes():
            return
        block = self.allocator.take(storage.nbytes())

        def dies(reference: Any) -> None:
            del self._alive[key]
            self.allocator.give_back(block)

        self._alive[key] = weakref.ref(storage, dies)

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        found = func(*args, **(kwargs or {}))
        for leaf in tree_leaves(found):
            if isinstance(leaf, torch.Tensor):
                self.hold(leaf)
        return found
