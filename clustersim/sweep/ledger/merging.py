"""Ledgers of shards made one."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from clustersim.errors import InputError, Mistake
from clustersim.sweep.ledger.ledger import SweepLedger
from clustersim.sweep.ledger.store import explained, transaction

_COPIED = (
    """
    INSERT INTO sweeps (digest, name, seed, exact, num_points, scenario, scenario_text, started_s)
    SELECT digest, name, seed, exact, num_points, scenario, scenario_text, started_s FROM source.sweeps WHERE true
    ON CONFLICT (digest) DO UPDATE SET started_s = max(started_s, excluded.started_s)
    """,
    """
    INSERT OR IGNORE INTO points SELECT o.id, p.number, p.key, p.num_gpus, p.axes FROM source.points AS p
    JOIN source.sweeps AS s ON s.id = p.sweep JOIN main.sweeps AS o ON o.digest = s.digest
    """,
    """
    INSERT OR IGNORE INTO shards SELECT o.id, h.num_shards FROM source.shards AS h
    JOIN source.sweeps AS s ON s.id = h.sweep JOIN main.sweeps AS o ON o.digest = s.digest
    """,
    """
    INSERT INTO forecasts SELECT key, forecast, seconds FROM source.forecasts WHERE true
    ON CONFLICT (key) DO UPDATE SET forecast = excluded.forecast, seconds = excluded.seconds
    WHERE (excluded.forecast, excluded.seconds) < (forecasts.forecast, forecasts.seconds)
    """,
    """
    INSERT INTO failures SELECT o.id, e.number, e.kind, e.forecast, e.seconds FROM source.failures AS e
    JOIN source.sweeps AS s ON s.id = e.sweep JOIN main.sweeps AS o ON o.digest = s.digest WHERE true
    ON CONFLICT (sweep, number) DO UPDATE SET kind = excluded.kind, forecast = excluded.forecast,
    seconds = excluded.seconds WHERE (excluded.kind, excluded.forecast, excluded.seconds)
    < (failures.kind, failures.forecast, failures.seconds)
    """,
    """
    DELETE FROM failures WHERE EXISTS (SELECT 1 FROM points AS p JOIN forecasts AS f ON f.key = p.key
    WHERE p.sweep = failures.sweep AND p.number = failures.number)
    """,
)
"""What is taken from a ledger that is attached as `source`; the order of the sources does not matter."""


def merge(output: str | Path, sources: Sequence[str | Path]) -> SweepLedger:
    """Add ledgers to one, which is made if there is none, and return it open; each source is added whole or not.

    Raises
    ------
    InputError
        A source is not a ledger, or of another version of clustersim than the others; nothing is written then.
    """
    output, paths = Path(output), list(dict.fromkeys(map(Path, sources)))
    _check_versions([*([output] if output.exists() else []), *paths])
    ledger = SweepLedger.open(output)
    try:
        for path in paths:
            if not path.samefile(output):
                _add(ledger, path)
    except BaseException:
        ledger.close()
        raise
    return ledger


def _check_versions(paths: Sequence[Path]) -> None:
    versions: dict[str, Path] = {}
    for path in paths:
        with SweepLedger.read(path) as ledger:
            versions.setdefault(ledger.version, path)
    if len(versions) > 1:
        (one, first), (two, second), *_ = versions.items()
        message = f"is of clustersim {two}, and {first} of {one}; only ledgers of one version are merged"
        raise InputError(Mistake(message, file=str(second), got=two, allowed=one))


def _add(ledger: SweepLedger, path: Path) -> None:
    store = ledger.store
    with explained(path):
        store.execute("ATTACH ? AS source", (f"{path.absolute().as_uri()}?mode=ro",))
    with explained(ledger.path):
        try:
            with transaction(store):
                for statement in _COPIED:
                    store.execute(statement)
        finally:
            store.execute("DETACH source")
