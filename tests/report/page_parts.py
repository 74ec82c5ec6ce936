"""What a page carries compressed, as its script unpacks it."""

from __future__ import annotations

import base64
import gzip
import json
import re
from typing import Any


def names_packed(html: str) -> list[str]:
    return re.findall(r'<script type="text/plain" id="packed-([^"]+)">', html)


def unpacked(html: str, name: str) -> str:
    found = re.search(rf'<script type="text/plain" id="packed-{name}">([A-Za-z0-9+/=]*)</script>', html)
    assert found is not None, name
    return gzip.decompress(base64.b64decode(found[1])).decode()


def about(html: str) -> dict[str, Any]:
    found = re.search(r'<script type="application/json" id="page">(.*?)</script>', html, re.S)
    assert found is not None
    return json.loads(found[1])


def without_packed(html: str) -> str:
    return re.sub(r'(<script type="text/plain" id="packed-[^"]+">)[A-Za-z0-9+/=]*', r"\1", html)
