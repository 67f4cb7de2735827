"""``python -m fleetmetrics``: the command line, see `fleetmetrics.cli`."""

import sys

from fleetmetrics.cli import main

if __name__ == "__main__":
    sys.exit(main())
