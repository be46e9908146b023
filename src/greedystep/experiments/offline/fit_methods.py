"""The methods that learn from logs: every rule for the returns with every kind of conservatism, and cloning."""

from __future__ import annotations

from greedystep.deep.presets import OFFLINE_RETURNS, OFFLINE_RULE
from greedystep.experiments.deep.suite import Setting

RULES: dict[str, Setting] = {
    "greedy-step": {"returns": "greedy-step", "ensemble": 2},
    "one-step": {"returns": "one-step", "ensemble": 2},
    "Peng's Q(λ)": OFFLINE_RETURNS,
    "Monte Carlo": {"returns": "monte-carlo", "ensemble": 2},
    "auto": {"returns": "auto"},
}
CONSERVATISM = ("none", "cql", "bcq")
CLONING = "behaviour cloning"


def method(rule: str, conservatism: str) -> str:
    """The name of a rule with a kind of conservatism."""
    return f"{rule}, {conservatism}"


METHODS: dict[str, Setting] = {
    method(rule, kind): OFFLINE_RULE | setting | {"conservatism": kind}
    for rule, setting in RULES.items()
    for kind in CONSERVATISM
} | {CLONING: OFFLINE_RULE | {"returns": "one-step", "conservatism": "bcq", "bcq_threshold": 1.0}}

QUICK_METHODS = (
    *(method(rule, kind) for rule in ("greedy-step", "one-step") for kind in ("none", "bcq")),
    CLONING,
)
