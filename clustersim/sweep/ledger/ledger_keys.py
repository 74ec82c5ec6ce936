"""Keys of points: equal where the forecasts are, whatever the order of keys and the names of scenario files."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from clustersim.errors import InputError
from clustersim.kernels.measured_tables import find_tables
from clustersim.learning import package_versions
from clustersim.reading import TreeNode, with_files
from clustersim.scenario import Point, PointTree, Scenario
from clustersim.scenario.validate import open_topology
from clustersim.sweep.batch import WorkerVersions

_LEARNING = "learning"
_WORDS = ("name", "description", "$schema")
"""Keys of a scenario that no forecast depends on."""
_IN_FOLDERS = ("*.json", "*idx[13]-ubyte", "*idx[13]-ubyte.gz", "data_batch_[1-5].bin", "test_batch.bin")
"""Files of a folder that a scenario may name: profiles, and data sets of images."""


class LedgerKeys:
    """The keys of the points of one scenario. Files that several points name are read once.

    Unless it `learns`, a point has the same key as without the task of `learning`. A trained one depends on the
    versions of the packages that train.
    """

    def __init__(self, loaded: Scenario, exact: bool, learns: bool = True):
        tables = find_tables()
        self._same = {
            "exact": exact,
            "tables": None if tables is None else tables.package,
            "workers": WorkerVersions.here(),
            "anchors": [[run.measured.model_dump_json(), _untrained(run.point)] for run in loaded.anchors],
        }
        self._learns = learns
        self._clusters: dict[tuple[str, str | None], TreeNode | None] = {}
        self._digests: dict[str, str] = {}

    def key(self, tree: PointTree) -> str:
        """Return the SHA-256 of all that the forecast of a point depends on, in hexadecimal digits."""
        is_trained = self._learns and tree.root.at((_LEARNING, "task")) is not None
        root = tree.root if is_trained else _without_task(tree.root)
        cluster = self._cluster(root)
        named = [root] if cluster is None else [root, cluster]
        document = {
            **self._same,
            **({"trained with": package_versions()} if is_trained else {}),
            "keys": {key: node.plain() for key, node in root.children.items() if key not in _WORDS},
            "cluster": None if cluster is None else cluster.plain(),
            "files": dict(found for root in named for found in self._files(root)),
            "seed": tree.seed,
        }
        return hashlib.sha256(canonical(document).encode()).hexdigest()

    def _cluster(self, root: TreeNode) -> TreeNode | None:
        """Return the cluster that a scenario names; None if it describes one itself or the name is wrong."""
        node = root.child("topology")
        if node is None or not isinstance(node.value, str):
            return None
        place = node.value, node.place.file
        if place not in self._clusters:
            try:
                self._clusters[place] = open_topology(root).child("topology")
            except InputError:
                self._clusters[place] = None
        return self._clusters[place]

    def _files(self, root: TreeNode) -> Iterator[tuple[str, str]]:
        """Yield every text in a tree that is the name of a file, with its digest."""
        for text in _texts(with_files(root).plain()):
            if text not in self._digests:
                self._digests[text] = _digest_of(Path(text)) if text and "\0" not in text else ""
            if self._digests[text]:
                yield text, self._digests[text]


def _without_task(root: TreeNode) -> TreeNode:
    """Return the keys of a point with what is not trained of `learning`."""
    kept = {key: node for key, node in root.children.items() if key != _LEARNING}
    learning, scale = root.child(_LEARNING), root.at((_LEARNING, "scale"))
    if learning is not None and scale is not None:
        kept[_LEARNING] = learning.with_value({"scale": scale})
    return root.with_value(kept)


def _untrained(point: Point) -> str:
    """Return the keys of a measured run, which is forecast without any training."""
    return json.dumps(_unlearnt(point.model_dump(mode="json")))


def _unlearnt(keys: dict[str, Any]) -> dict[str, Any]:
    jobs = keys["jobs"]
    kept = {key: value for key, value in keys.items() if key != _LEARNING}
    return kept if isinstance(jobs, int) else {**kept, "jobs": [_unlearnt(job) for job in jobs]}


def canonical(document: Any) -> str:
    """Return a JSON text that does not depend on the order of keys."""
    return json.dumps(document, sort_keys=True, ensure_ascii=False, separators=(",", ":"), default=str)


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for child in value.values():
            yield from _texts(child)
    elif isinstance(value, list):
        for child in value:
            yield from _texts(child)


def _digest_of(path: Path) -> str:
    """Return the digest of a file, or of the files in a folder that forecasts depend on.

    It is empty if there is none, or it cannot be read.
    """
    try:
        path = path.expanduser()
        files = sorted(each for suffix in _IN_FOLDERS for each in path.glob(suffix)) if path.is_dir() else [path]
        data = b"".join(hashlib.sha256(each.read_bytes()).digest() for each in files if each.is_file())
    except (OSError, RuntimeError):  # RuntimeError: `~` of a user that is not known
        return ""
    return hashlib.sha256(data).hexdigest() if data else ""
