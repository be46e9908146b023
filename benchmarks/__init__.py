"""Benchmarks beside other packages: `python -m benchmarks planning|envs|train|returns --help` in a checkout.

A benchmark is a module with `run(out, repeats) -> dict`, which writes out/NAME.json and out/NAME.md; it may have
options of its own.
"""
