"""Fixtures: both engines of a network have to pass these tests."""

from __future__ import annotations

import pytest

from clustersim.network import Network


@pytest.fixture(scope="module", params=["python", "numba"])
def engine(request):
    """Let networks be played by one engine, however little there is to do."""
    defaults = Network.__init__.__defaults__
    assert defaults[-1] is None
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Network.__init__, "__defaults__", (*defaults[:-1], request.param))
        yield request.param


@pytest.fixture
def shared_by(request, engine):
    """Skip ways of sharing links that only the Python engine has."""
    if engine == "numba" and request.node.callspec.params.get("sharing", "max-min") != "max-min":
        pytest.skip("the numba engine shares max-min only")
