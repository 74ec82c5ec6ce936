"""`python -m clustersim`: the same as the command `clustersim`."""

import sys

from clustersim.cli import main

if __name__ == "__main__":
    sys.exit(main())
