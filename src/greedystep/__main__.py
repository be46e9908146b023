"""`python -m greedystep` is `greedystep`."""

from greedystep.cli import program

program()
