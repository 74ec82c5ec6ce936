"""`python -m clustersim.profiling MODEL`."""

import sys

from clustersim.profiling.main import main

if __name__ == "__main__":
    sys.exit(main())
