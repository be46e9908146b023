"""`python -m greedystep.cli` is `greedystep`."""

from greedystep.cli import program

program()
