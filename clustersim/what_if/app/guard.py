"""Which requests are answered: those of the page itself, on this machine."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

CONTENT_POLICY = (
    "default-src 'self'; script-src 'self' 'unsafe-inline'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data: blob:; connect-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
)
"""What a browser may load for the page, and who may show it."""


def guard(server: Any, port: int) -> None:
    """Refuse requests for another host name (DNS rebinding) and those that another site's page makes.

    `server` is the Flask application.
    """
    from flask import Response, request

    hosts = {f"127.0.0.1:{port}", f"localhost:{port}"}

    @server.before_request  # type: ignore[untyped-decorator]
    def refuse() -> Response | None:
        if request.host not in hosts:
            return Response("This page is for this machine only.", 403)
        if not is_own(request.headers.get("Origin"), hosts) or request.headers.get("Sec-Fetch-Site") == "cross-site":
            return Response("Another site asked; only this page may.", 403)
        return None

    @server.after_request  # type: ignore[untyped-decorator]
    def protect(response: Response) -> Response:
        response.headers["Content-Security-Policy"] = CONTENT_POLICY
        response.headers["X-Content-Type-Options"] = "nosniff"
        response.headers["Referrer-Policy"] = "no-referrer"
        return response


def is_own(origin: str | None, hosts: set[str]) -> bool:
    """Return whether a request's origin is the page itself; a request that is no page's has none.

    >>> is_own("http://127.0.0.1:8050", {"127.0.0.1:8050"}), is_own("https://example.org", {"127.0.0.1:8050"})
    (True, False)
    >>> is_own(None, set()), is_own("null", {"127.0.0.1:8050"})
    (True, False)
    """
    if origin is None:
        return True
    parts = urlsplit(origin)
    return parts.scheme == "http" and parts.netloc in hosts
