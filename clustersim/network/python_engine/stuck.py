"""What waits on a network that is stuck, given the objects of the Python engine."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from clustersim.network.collective import Collective
from clustersim.network.flow import Flow, Link
from clustersim.network.progress import NOT_ENTERED, LinkName, Stuck, waits_for_rank
from clustersim.network.python_engine.ranks import PythonRanks


def find_stuck(
    collectives: Mapping[Collective, PythonRanks], flows: Iterable[Flow], link_name: LinkName
) -> list[Stuck]:
    """Return what waits, given the collectives in progress and the flows on the links, none of which moves."""
    stalled: dict[PythonRanks, list[Flow]] = {ranks: [] for ranks in collectives.values()}
    found = []
    for flow in flows:
        owner = next((ranks for ranks in stalled if ranks.place(flow)), None)
        if owner is None:
            found.append(Stuck(None, None, f"a transfer of {flow.num_bytes:g} bytes {_where(flow, link_name)}"))
        else:
            stalled[owner].append(flow)
    for collective, ranks in collectives.items():
        outside = (Stuck(rank, None, NOT_ENTERED) for rank in collective.awaited_outside())
        found += sorted([*_behind_messages(ranks, stalled[ranks], link_name), *_behind_ranks(ranks), *outside])
    return found


def _where(flow: Flow, link_name: LinkName) -> str:
    narrowest: Link | None = flow.path.narrowest
    assert narrowest is not None
    return f"stands still on the link {link_name(narrowest.number)}, which has {narrowest.bytes_per_s:g} bytes/s"


def _behind_messages(ranks: PythonRanks, flows: Iterable[Flow], link_name: LinkName) -> Iterator[Stuck]:
    """Yield the ranks that wait for messages that stand still."""
    for flow in flows:
        number, is_added = ranks.place(flow) or (0, False)
        step = ranks.steps[number]
        src, dst = step.ends(flow.message)
        for rank in step.waiting_for(flow.message, is_added):
            if is_added:
                what = f"the adding of the message from rank {src} to rank {dst}"
            else:
                what = f"its message to rank {dst}" if rank == src else f"the message from rank {src}"
            yield Stuck(rank, number, f"waits for {what}, which {_where(flow, link_name)}")


def _behind_ranks(ranks: PythonRanks) -> Iterator[Stuck]:
    """Yield the ranks that wait for others to reach their step."""
    for rank, number in enumerate(ranks.at_steps):
        if number >= 0:
            for other in dict.fromkeys(ranks.steps[number].missing(rank)):
                yield Stuck(rank, number, waits_for_rank(other, ranks.reached_steps[other]))
