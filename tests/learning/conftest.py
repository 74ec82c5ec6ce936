"""Whether torch is installed, or seems not to be."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

import pytest


@pytest.fixture
def no_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let torch seem not to be installed."""
    monkeypatch.setattr(import_module("clustersim.learning.train"), "find_spec", lambda name: None)


@pytest.fixture
def trains_nothing(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Fail where anything would be trained; call the fixture to have simulations fail too."""
    forecast, learning = (import_module(f"clustersim.simulate.{name}") for name in ("forecast", "learning"))

    def fail(*arguments: object, **options: object) -> None:
        raise AssertionError("this must not be called")

    monkeypatch.setattr(learning, "training_order", fail)
    monkeypatch.setattr(learning, "train", fail)
    return lambda: monkeypatch.setattr(forecast, "simulate_replicate", fail)
