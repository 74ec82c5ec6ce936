"""Serves the page to this machine only."""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Callable
from threading import Thread

from clustersim.what_if.study import WhatIf

HOST = "127.0.0.1"


def listen(port: int) -> socket.socket:
    """Return a socket that listens on a port of this machine; 0 is any free one. Raise OSError if it is in use."""
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    if os.name == "posix":  # elsewhere two processes could listen on the same port
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((HOST, port))
        listener.listen()
    except OSError:
        listener.close()
        raise
    return listener


def serve(study: WhatIf, listener: socket.socket, on_start: Callable[[str], None]) -> None:
    """Serve the page of a scenario until interrupted; `on_start` is called with its address. It needs dash."""
    from werkzeug.serving import make_server

    from clustersim.what_if.app.page import page_app

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    port = listener.getsockname()[1]
    server = make_server(HOST, port, page_app(study, port), threaded=True, fd=listener.fileno())
    Thread(target=study.evaluate, args=({},), daemon=True).start()  # so that the first page need not wait for it
    on_start(f"http://{HOST}:{port}/")
    try:
        server.serve_forever()
    finally:
        server.server_close()
