"""Sensitivities in sentences: what limits, what else helps, what does not, and what to buy."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from clustersim.report.palette import LABELS
from clustersim.report.words import THIN, count, duration, gpus, listed, percent, plural
from clustersim.sensitivity.result import Gain, Upgrade, Why
from clustersim.what_if.base import SIZES

HELPS = 0.02
"""Elasticity from which on a resource is said to help."""

_SAVES = 0.005
"""Relative change of the cost from which on an upgrade is said to change it."""

_SHOWS = 0.002
"""Share of an iteration by which single savings must differ in sum from that of all to be explained."""

_MOST_NAMED = 3


def sentences(found: Why) -> tuple[str, ...]:
    """Return the answer as sentences, each with its full stop."""
    return tuple(f"{text[:1].upper()}{text[1:]}." for text in _all(found) if text)


def _all(found: Why) -> Iterator[str]:
    help_ = [each for each in found.gains if each.elasticity >= HELPS]
    yield _limit(found, help_)
    yield _others(help_)
    yield _useless(found)
    yield _sum(found)
    yield from _to_buy(found)
    yield from (note.rstrip(".") for note in found.notes)


def _limit(found: Why, help_: Sequence[Gain]) -> str:
    """Say what the run trains and which resource gives most."""
    rate = found.samples_per_s * (found.tokens_per_sample or 1.0)
    subject = f"{gpus(found.num_gpus)} {'trains' if found.num_gpus == 1 else 'train'} {count(rate)} {found.unit} per s"
    if not help_:
        return f"{subject}, and no single resource makes that faster"
    first = help_[0]
    much = "limits" if first.elasticity >= 0.5 else "limits most"
    return f"{subject}; the {first.title} {much}: {percent(found.by)} more gives {percent(first.gain)}"


def _saved(gain: Gain) -> str:
    """Say which parts of an iteration become shorter."""
    parts = sorted(gain.saved_s.items(), key=lambda item: -item[1])
    total = sum(max(0.0, seconds) for _, seconds in parts)
    told = [f"{duration(seconds)} less {LABELS[part]}" for part, seconds in parts[:2] if seconds > 0.1 * total > 0]
    return f"each iteration then has {listed(told)}" if told else ""


def _longer(gain: Gain) -> str:
    """Say which part of an iteration becomes longer most, as where the library then chooses otherwise."""
    part = min(gain.saved_s, key=lambda name: gain.saved_s[name])
    return f" ({LABELS[part]} {duration(-gain.saved_s[part])} longer)" if gain.saved_s[part] < 0 else ""


def _others(gains: Sequence[Gain]) -> str:
    """Say what becomes shorter with the first resource, and what the next ones give."""
    if not gains:
        return ""
    first, others = gains[0], gains[1:]
    told = [f"the {each.title} gives {percent(each.gain)}" for each in others[:_MOST_NAMED]]
    rest = others[_MOST_NAMED:]
    if rest:
        told.append(f"{plural(len(rest), 'other resource')} at most {percent(rest[0].gain)} each")
    return "; ".join(filter(None, (_saved(first), f"next, {listed(told)}" if told else "")))


def _useless(found: Why) -> str:
    """Say what gives next to nothing, and what makes the run slower."""
    below = [each for each in found.gains if abs(each.elasticity) < HELPS]
    slower = [each for each in found.gains if each.elasticity <= -HELPS]
    told = []
    if below:
        told.append(f"next to nothing from: {', '.join(each.title for each in below)}")
    told += [f"with a higher {each.title} the run is {percent(-each.gain)} slower{_longer(each)}" for each in slower]
    return "; ".join(told)


def _sum(found: Why) -> str:
    """Say what all resources give together, and why that saves another time than the sum of what each saves.

    Times sum, gains do not: two halves of an iteration that are 10 % faster each give 4.8 %, and both give 10 %.
    """
    saved_s, all_s = sum(map(_saved_s, found.gains)), _saved_s(found.together)
    told = f"everything {percent(found.by)} faster gives {percent(found.together.gain)}"
    if abs(found.together.elasticity - 1) > HELPS / 2:
        told += ", not the same, since some times follow none of these rates"
    if abs(saved_s - all_s) < _SHOWS * found.iteration_s:
        return told
    why = (
        "the rest is saved only where several are faster at once, such as compute and the communication beside it"
        if saved_s < all_s
        else "some of them save the same time"
    )
    iteration = f"an iteration is {duration(all_s)} shorter then" if all_s > 0 else "no iteration is shorter then"
    return f"{told}; {iteration}, and the resources alone save {duration(saved_s)} in sum: {why}"


def _saved_s(gain: Gain) -> float:
    return sum(gain.saved_s.values())


def _to_buy(found: Why) -> Iterator[str]:
    """Say which upgrade makes training cheapest, and what one without a price may cost."""
    tried = [each for each in found.upgrades if each.gain is not None and each.key != SIZES]
    with_price = [each for each in tried if each.is_priced and each.dollars_per_million is not None]
    if with_price:
        yield _cheapest(found, with_price[0])
    others = [each for each in tried if not each.is_priced and (not with_price or each.key != with_price[0].key)]
    best = max(others, key=lambda each: each.gain or 0.0, default=None)
    if best is not None and (best.gain or 0.0) >= HELPS * found.by:
        yield f"{_change(best)} gives {percent(best.gain or 0.0)}{_worth(found, best)}"
    first = found.gains[0]
    if first.worth_dollars is not None and first.elasticity >= HELPS:
        yield (
            f"{percent(found.by)} more of the {first.title} is worth {money(first.worth_dollars)} for an hour of each "
            f"GPU, which costs {money(found.dollars_per_hour or 0.0)}"
        )


def _cheapest(found: Why, best: Upgrade) -> str:
    """Say how fast the cheapest of the upgrades with a price is, and what training then costs."""
    change, gain, cost = best.cost_change, best.gain or 0.0, money(best.dollars_per_million or 0.0)
    faster = f"{_change(best)} is {percent(abs(gain))} {'faster' if gain >= 0 else 'slower'}"
    if change is None:
        return f"{faster}; a million {found.unit} then cost {cost} (now: no price is known)"
    costs = f"{cost} instead of {money(found.dollars_per_million or 0.0)}"
    if abs(change) < _SAVES:
        return f"{faster}, and a million {found.unit} cost the same"
    if change < 0:
        return f"{faster}, and a million {found.unit} cost {percent(-change)} less ({costs})"
    return f"{faster}, but a million {found.unit} cost {percent(change)} more ({costs}): no GPU tried is cheaper"


def _change(each: Upgrade) -> str:
    return f"{each.title}: {each.then} instead of {each.now}"


def _worth(found: Why, each: Upgrade) -> str:
    if each.pays_up_to is None or found.dollars_per_hour is None:
        return ""
    more = each.pays_up_to - found.dollars_per_hour
    return f", and pays if it costs less than {money(more)} for an hour of each GPU"


def money(dollars: float) -> str:
    """Return dollars as text: three digits, two decimals from a dollar on.

    >>> money(3.99), money(0.0312), money(-0.5), money(1234.5).replace(THIN, " ")
    ('$3.99', '$0.0312', '-$0.50', '$1 234')
    """
    size = abs(dollars)
    text = f"{size:.3g}" if size < 0.0995 else f"{size:.2f}" if size < 1000 else f"{size:,.0f}".replace(",", THIN)
    return f"{'-' if dollars < 0 else ''}${text}"
