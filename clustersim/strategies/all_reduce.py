"""Synchronous all-reduce: every worker ends up with the sum of all gradients."""

from __future__ import annotations

from typing import ClassVar, Literal, Self

from pydantic import Field, model_validator

from clustersim.errors import InputError
from clustersim.program import COPIES, Copies
from clustersim.shortcuts import Shortcut
from clustersim.strategies.collective_strategy import CollectiveStrategy


class AllReduce(CollectiveStrategy):
    """Workers add their gradients among themselves, by a collective algorithm.

    One bucket follows the other, as on the one communication stream of NCCL or DistributedDataParallel.
    """

    proved_shortcuts: ClassVar[frozenset[Shortcut]] = frozenset(Shortcut)

    kind: Literal["all-reduce"] = "all-reduce"
    copies: Literal["auto", "none", "pytorch", "pytorch-view", "horovod", "theano-mpi"] = Field(
        default="auto",
        description="how gradients come into the buckets that they travel in, and back: `pytorch` (copied by the GPU "
        "that computes), `pytorch-view` (divided there, as with `gradient_as_bucket_view`), `horovod` (copied by those "
        "who exchange them, but where one travels alone), `theano-mpi` (divided by those who exchange them, each by "
        "itself) or `none`; `auto` is `pytorch` where each GPU has the whole model and nobody shares it out, and "
        "`none` where it lies otherwise, or gradients travel by themselves, in Megatron-LM's buckets or in those of "
        "the code whose `gradient_kernels` move them",
    )

    shared_weights: Literal["once", "twice"] = Field(
        default="once",
        description="how often the gradient of a matrix travels that two layers share: `once`, or `twice`, as in "
        "DistributedDataParallel of PyTorch up to 1.8 with find_unused_parameters: the last layer's bucket has it too, "
        "and none is sent before that",
    )

    stream: Literal["own", "default"] = Field(
        default="own",
        description="where copies between GPUs queue: in a stream of their own, or, for `algorithm: tree` after "
        "backward, in CUDA's `default` one, where a copy to a parent stands before the parent's own backward pass and "
        "holds it up until the child's has ended and is copied (Caffe with cuDNN before NCCL)",
    )

    @model_validator(mode="after")
    def _has_parents_that_add_at_once(self) -> Self:
        if self.stream == "default" and (self.algorithm, self.overlap, self.buckets) != ("tree", False, "whole"):
            message = (
                "copies in the default stream hold up the parents of a tree that adds all gradients after backward"
            )
            got = f"algorithm {self.algorithm}, overlap {str(self.overlap).lower()}, buckets {self.buckets}"
            allowed = "algorithm: tree, overlap: false, buckets: whole"
            raise InputError(f"{message}; give {allowed}, or leave stream out", key="stream", got=got, allowed=allowed)
        return self

    @property
    def holds_parents_up(self) -> bool:
        return self.stream == "default"

    @property
    def sends_shared_twice(self) -> bool:
        return self.shared_weights == "twice"

    def copies_made(self, is_whole: bool) -> Copies:
        if self.copies != "auto":
            return COPIES[self.copies]
        return COPIES["pytorch" if is_whole and self.buckets not in ("layer", "tensor", "megatron") else "none"]

    def warnings(self) -> tuple[str, ...]:
        """Return what the user wrote here and what changes nothing."""
        if self.copies == "horovod" and self.buckets in ("layer", "tensor"):
            return (*super().warnings(), "strategy.copies changes nothing: Horovod does not copy what travels alone")
        return super().warnings()
