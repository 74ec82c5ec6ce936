"""The update of a stage by its ranks: element-wise kernels, and matrices that Muon orthogonalizes whole.

Where replicas shard, each matrix is orthogonalized by one of them, which first needs the momentum of the whole matrix
in 16 bits. With `zero-1` and `zero-2` this is an all-gather over the replicas, and updated weights are gathered as with
any other optimizer (Distributed Muon, arXiv:2502.16982, section 2.3, which gathers up to as much; a rank needs only
matrices of which it has a part). With `zero-3` each rank has rows of every matrix: an all-to-all brings these rows to
the rank of the matrix, and another returns those of its update (microsoft/dion's Muon for PyTorch's FSDP2).
State in whole tensors (`sharding_by: tensors`) has the matrices whole, so that nothing is sent.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from clustersim.kernels.compute_time import update_work
from clustersim.kernels.muon import OPERAND_BYTES, MatrixTime, matrices_of, matrix_times, shared_out_s
from clustersim.kernels.optimizer import OptimizerSpec
from clustersim.model import Model, Workload
from clustersim.parallelism.experts import EXPERT_REPLICAS, is_expert_parallel
from clustersim.parallelism.grid import Grid
from clustersim.parallelism.pieces import Piece
from clustersim.program.ops import Call, Key


@dataclass(frozen=True)
class SharedMatrices:
    """Matrices of a stage that `num_ranks` replicas have in common: their times and parameters.

    `axis` is that of replicas of experts, or "" where it is the one along which all replicas shard.
    """

    axis: str
    num_ranks: int
    times: tuple[MatrixTime, ...]
    num_parameters: float


@dataclass(frozen=True)
class StageUpdate:
    """Seconds of a stage's update on a rank that updates all of its parameters, and what is done on whole matrices."""

    element_wise_s: float
    shared: tuple[SharedMatrices, ...] = ()

    @property
    def seconds(self) -> float:
        """Seconds of a rank that updates all of the stage's parameters."""
        return self.shared_s(1.0, is_sharded=False)

    def shared_s(self, share: float, is_sharded: bool = True) -> float:
        """Return the seconds of the rank with the most work if replicas share the update.

        Each has `share` of the parameters, and orthogonalizes whole matrices.
        """
        matrices = (shared_out_s(each.times, each.num_ranks if is_sharded else 1) for each in self.shared)
        return self.element_wise_s * share + sum(matrices)

    def gathers(self, sharding: str | None, shard_axis: str) -> Iterator[Call]:
        """Yield the collectives that bring whole momenta to the ranks that orthogonalize them."""
        for each in self.shared:
            if each.num_ranks > 1 and each.num_parameters:
                axis, size = each.axis or shard_axis, each.num_parameters * OPERAND_BYTES
                key = Key("momenta of experts" if each.axis else "momenta", 0, 0)
                if sharding == "zero-3":
                    yield Call(key, "all-to-all", axis, size / each.num_ranks)
                else:
                    yield Call(key, "all-gather", axis, size)

    def returns(self, sharding: str | None, shard_axis: str) -> Iterator[Call]:
        """Yield the collectives that return a matrix's update to the ranks that have its rows."""
        if sharding == "zero-3":
            for call in self.gathers(sharding, shard_axis):
                yield replace(call, key=call.key._replace(what=f"{call.key.what}, updated"))


def stage_update(whole: Workload, optimizer: OptimizerSpec, pieces: Sequence[Piece], grid: Grid) -> StageUpdate:
    """Return the update of a stage with these pieces; `whole` has the seconds of the undivided model's update.

    Element-wise kernels take a share of their time in proportion to parameters. Matrices take the time of those of the
    pieces, multiplied by the ratio of the model's known time to its own estimate.
    """
    held, num = sum(piece.layer.num_parameters for piece in pieces), whole.model.num_parameters
    if not num:
        return StageUpdate(0.0)
    if optimizer.skipped or not optimizer.orthogonalizes:
        return StageUpdate(whole.optimizer_s * held / num)
    guess = update_work(whole.model, whole.gpu, whole.precision, optimizer)
    factor = whole.optimizer_s / guess.seconds
    model = Model("stage", "stage", tuple(piece.layer for piece in pieces))
    own = update_work(model, whole.gpu, whole.precision, optimizer)
    return StageUpdate(own.element_wise_s * factor, tuple(_shared(whole, pieces, grid, factor)))


def _shared(whole: Workload, pieces: Sequence[Piece], grid: Grid, factor: float) -> Iterator[SharedMatrices]:
    found = matrices_of([piece.layer for piece in pieces])
    alike = [is_expert_parallel(piece, grid) for piece in pieces]
    groups = (("", False, grid.shard_group_size), (EXPERT_REPLICAS, True, grid.num_expert_replicas))
    for axis, is_expert, num_ranks in groups:
        own = [each for each, is_own in zip(found, alike, strict=True) if each and is_own == is_expert]
        if own:
            times = matrix_times(own, whole.gpu)
            scaled = tuple(each._replace(seconds=each.seconds * factor) for each in times)
            yield SharedMatrices(axis, num_ranks, scaled, sum(each.num_parameters for each in own))
