"""`python -m clustersim`: the same as the command `clustersim`."""

from __future__ import annotations

import signal
import sys

from clustersim.garbage_collection import collect_rarely


def main() -> int:
    """Run the command line of this process and return its exit status; who interrupts it early gets no traceback."""
    collect_rarely()
    try:
        from clustersim.cli import main as run

        return run()
    except KeyboardInterrupt:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        from clustersim.cli.failure import report_interrupt

        return report_interrupt(as_json="--json" in sys.argv)


if __name__ == "__main__":
    sys.exit(main())
