"""Reads files written by users as trees with the line of every value, and explains what is wrong with them.

This package does not depend on scenarios, clusters or devices: a pydantic model defines what a file may contain.
"""

from __future__ import annotations

from clustersim.reading.explain import Problem, explain, got_text, place_of, raised
from clustersim.reading.files import find_file, looks_like_path, named_by, read_map, read_text, with_files
from clustersim.reading.packed import parse_json, read_members, read_packed
from clustersim.reading.shape import field_of, kinds_of, known_keys, known_kinds, models_at, takes_list
from clustersim.reading.tree import LIMITS, MAX_DEPTH, Limits, Path, Place, TreeNode, check_extent, dotted, from_python
from clustersim.reading.yaml_reader import read_yaml

__all__ = [
    "LIMITS",
    "MAX_DEPTH",
    "Limits",
    "Path",
    "Place",
    "Problem",
    "TreeNode",
    "check_extent",
    "dotted",
    "explain",
    "field_of",
    "find_file",
    "from_python",
    "got_text",
    "kinds_of",
    "known_keys",
    "known_kinds",
    "looks_like_path",
    "models_at",
    "named_by",
    "parse_json",
    "place_of",
    "raised",
    "read_map",
    "read_members",
    "read_packed",
    "read_text",
    "read_yaml",
    "takes_list",
    "with_files",
]
