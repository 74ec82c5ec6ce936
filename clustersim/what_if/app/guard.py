"""Which requests are answered: those of the page itself, on this machine."""

from __future__ import annotations

from html import escape
from typing import Any
from urllib.parse import urlsplit

CONTENT_POLICY = (
    "default-src 'self'; script-src 'self' 'unsafe-inline'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data: blob:; connect-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
)
"""What a browser may load for the page, and who may show it."""

MAX_REQUEST_BYTES = 1_000_000
"""Longest body of a request; the page sends a few thousand bytes."""

HTTP_PORT = 80


def guard(server: Any, port: int) -> None:
    """Refuse requests for another host name (DNS rebinding) and those that another site's page makes.

    `server` is the Flask application.
    """
    from flask import Response, request

    hosts = hosts_of(port)
    server.config["MAX_CONTENT_LENGTH"] = MAX_REQUEST_BYTES

    @server.before_request  # type: ignore[untyped-decorator]
    def refuse() -> Response | None:
        if request.host not in hosts:
            return Response("This page is for this machine only.", 403)
        if not is_own(request.headers.get("Origin"), hosts) or request.headers.get("Sec-Fetch-Site") == "cross-site":
            return Response("Another site asked; only this page may.", 403)
        return None

    @server.errorhandler(Exception)  # type: ignore[untyped-decorator]
    def fail(error: Exception) -> Response:
        return Response(*failure(error, request.method), mimetype="text/plain")

    @server.after_request  # type: ignore[untyped-decorator]
    def protect(response: Response) -> Response:
        response.headers["Content-Security-Policy"] = CONTENT_POLICY
        response.headers["X-Content-Type-Options"] = "nosniff"
        response.headers["Referrer-Policy"] = "no-referrer"
        return response


def hosts_of(port: int) -> set[str]:
    """Return the host names under which the page is asked for; the port of HTTP is left out of them.

    >>> sorted(hosts_of(8050)), sorted(hosts_of(80))[:2]
    (['127.0.0.1:8050', 'localhost:8050'], ['127.0.0.1', '127.0.0.1:80'])
    """
    names = ("127.0.0.1", "localhost")
    return {f"{name}:{port}" for name in names} | (set(names) if port == HTTP_PORT else set())


def failure(error: Exception, method: str) -> tuple[str, int]:
    """Return one line for a request that failed, and its status: 404 for a path, 400 for a body.

    An error that has a status keeps it.
    """
    status = getattr(error, "code", None)
    if not isinstance(status, int):
        status = 404 if method == "GET" else 400
    what = {404: "There is no such page.", 413: "The request is too long."}
    return what.get(status, "The request cannot be read."), status


def title_markup(text: str) -> str:
    """Return a text for `{%title%}` of the page: no markup, and no place where Dash puts something else.

    >>> title_markup("</title>{%scripts%}")
    '&lt;/title&gt;&#123;%scripts%&#125;'
    """
    return escape(text).replace("{", "&#123;").replace("}", "&#125;")


def is_own(origin: str | None, hosts: set[str]) -> bool:
    """Return whether a request's origin is the page itself; a request that is no page's has none.

    >>> is_own("http://127.0.0.1:8050", {"127.0.0.1:8050"}), is_own("https://example.org", {"127.0.0.1:8050"})
    (True, False)
    >>> is_own(None, set()), is_own("null", {"127.0.0.1:8050"})
    (True, False)
    """
    if origin is None:
        return True
    try:
        parts = urlsplit(origin)
    except ValueError:
        return False
    return parts.scheme == "http" and parts.netloc in hosts
