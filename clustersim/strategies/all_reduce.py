"""Synchronous all-reduce: every worker gets the sum of all gradients."""

from __future__ import annotations

from typing import ClassVar, Literal, Self

from pydantic import Field, model_validator

from clustersim.errors import InputError
from clustersim.program import COPIES, Copies
from clustersim.shortcuts import Shortcut
from clustersim.spec import of_software
from clustersim.strategies.collective_strategy import CollectiveStrategy


class AllReduce(CollectiveStrategy):
    """Workers all-reduce their gradients while backward still runs, as DistributedDataParallel and Horovod do.

    Buckets go one after another, as on the one communication stream of NCCL or DistributedDataParallel.
    """

    all_reduces_gradients: ClassVar[bool] = True
    synchronizes_replicas: ClassVar[bool] = True
    supports_layouts: ClassVar[bool] = True
    proved_shortcuts: ClassVar[frozenset[Shortcut]] = frozenset(Shortcut)

    kind: Literal["all-reduce"] = "all-reduce"
    copies: Literal["auto", "none", "pytorch", "pytorch-view", "horovod", "theano-mpi"] = Field(
        json_schema_extra=of_software("bucket_copies"),
        default="auto",
        description="how gradients are copied into buckets and back: `pytorch` (copied in the compute stream), "
        "`pytorch-view` (divided in the compute stream and not copied, as with `gradient_as_bucket_view`), `horovod` "
        "(copied in the communication stream, unless a bucket has one gradient), `theano-mpi` (each divided in the "
        "communication stream) or `none`; `auto` is `pytorch` where each GPU has the whole model without sharding; it "
        "is `none` for other layouts, for buckets of one layer or tensor, for Megatron-LM's buckets and for buckets "
        "that `gradient_kernels` fill",
    )

    shared_weights: Literal["once", "twice"] = Field(
        json_schema_extra=of_software("shared_weights"),
        default="once",
        description="how often the gradient of a matrix that two layers share is sent: `once`, or `twice` as in "
        "DistributedDataParallel of PyTorch up to 1.8 with find_unused_parameters: the last layer's bucket has it too, "
        "and no bucket is sent before that one",
    )

    stream: Literal["own", "default"] = Field(
        json_schema_extra=of_software("copy_stream"),
        default="own",
        description="the stream of copies between GPUs: their `own` stream, or, for `algorithm: tree` after backward, "
        "CUDA's `default` stream, in which a copy to a parent comes before the parent's own backward pass and delays "
        "it until the child has finished backward and its copy (Caffe with cuDNN before NCCL)",
    )

    @model_validator(mode="after")
    def _default_stream_is_of_a_tree(self) -> Self:
        if self.stream == "default" and (self.algorithm, self.overlap, self.buckets) != ("tree", False, "whole"):
            message = "copies in the default stream delay the parents of a tree that adds all gradients after backward"
            got = f"algorithm {self.algorithm}, overlap {str(self.overlap).lower()}, buckets {self.buckets}"
            allowed = "algorithm: tree, overlap: false, buckets: whole"
            raise InputError(f"{message}; give {allowed}, or leave stream out", key="stream", got=got, allowed=allowed)
        return self

    @property
    def blocks_parents(self) -> bool:
        return self.stream == "default"

    @property
    def sends_shared_twice(self) -> bool:
        return self.shared_weights == "twice"

    def gradient_copies(self, is_whole: bool) -> Copies:
        if self.copies != "auto":
            return COPIES[self.copies]
        return COPIES["pytorch" if is_whole and self.buckets not in ("layer", "tensor", "megatron") else "none"]

    def warnings(self) -> tuple[str, ...]:
        """Return a message for each option that is set and has no effect."""
        if self.copies == "horovod" and self.buckets in ("layer", "tensor"):
            return (
                *super().warnings(),
                "strategy.copies changes nothing: Horovod does not copy a gradient that is sent alone",
            )
        return super().warnings()
