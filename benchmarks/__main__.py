"""`python -m benchmarks` is `greedystep bench`."""

import sys

from greedystep.cli import main

if __name__ == "__main__":
    sys.exit(main(["bench", *sys.argv[1:]]))
