"""`python -m greedystep.cli` is `greedystep`."""

import sys

from greedystep.cli import main

sys.exit(main())
