"""The result of an import: a model, and notes on what was left out."""

from __future__ import annotations

from dataclasses import dataclass

from clustersim.model import MODELS, Model, load_model


@dataclass(frozen=True)
class Imported:
    """An imported model. `notes` are shown to the user; everything left out is noted."""

    model: Model
    notes: tuple[str, ...] = ()

    def summary(self) -> str:
        """Return one line: layers, parameters, forward FLOP of a sample."""
        model = self.model
        return (
            f"{model.name}: {len(model.layers)} layers, {model.num_parameters / 1e6:.3f} M parameters, "
            f"{model.flop / 1e9:.3f} GFLOP forward per {model.sample}"
        )

    def catalogue_match(self) -> str | None:
        """Return the catalogue's model with the same parameters and FLOP, None if there is none."""
        size = _size(self.model)
        return next((name for name in MODELS if _size(load_model(name)) == size), None)


def _size(model: Model) -> tuple[float, float, float]:
    return model.num_parameters, model.flop, model.flop_backward
