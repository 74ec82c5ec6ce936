"""What an import gives: a model, and what was left out of it, in sentences."""

from __future__ import annotations

from dataclasses import dataclass

from clustersim.workload import Model


@dataclass(frozen=True)
class Imported:
    """A model read from elsewhere. `notes` are told to the user; nothing is left out in silence."""

    model: Model
    notes: tuple[str, ...] = ()

    def summary(self) -> str:
        """Return one line: layers, parameters, forward FLOP of a sample."""
        model = self.model
        return (
            f"{model.name}: {len(model.layers)} layers, {model.num_parameters / 1e6:.3f} M parameters, "
            f"{model.flop / 1e9:.3f} GFLOP forward per {model.sample}"
        )
