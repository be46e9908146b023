"""What is claimed of learning from logs, and how it is judged from the scores of the fits."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from greedystep.experiments.claims import Claim, Outcome, judges
from greedystep.experiments.deep.judging import Estimate
from greedystep.experiments.offline.fit_methods import RULES, method
from greedystep.experiments.offline.logs import KINDS
from greedystep.stats import difference

Found = Mapping[str, Mapping[str, Any]]
rule = partial(judges, where="not in the paper")


def scores_of(found: Found, name: str, kinds: Sequence[str]) -> dict[str, np.ndarray]:
    """The scores of a method's seeds by task and kind of log, where it was fitted."""
    return {
        f"{key}, {fit['kind']}": np.array(fit["scores"], float)
        for key, task in found.items()
        for fit in task["fits"]
        if fit["method"] == name and fit["kind"] in kinds
    }


def gap(found: Found, ours: str, theirs: str, kinds: Sequence[str]) -> Estimate | None:
    """The mean score of a method minus that of another, over tasks and kinds of logs; None where one is missing."""
    a, b = (scores_of(found, name, kinds) for name in (ours, theirs))
    common = a.keys() & b.keys()
    if not common:
        return None
    a, b = ({name: some[name] for name in sorted(common)} for some in (a, b))
    return Estimate(*map(float, difference(a, b, "mean")))


def claims(found: Found) -> list[Claim]:
    """Judge each claim by the 95 % CI of a difference of mean scores over tasks and seeds."""
    return [narrow(found), broad(found), returns_on_data(found)]


LEAST_EFFECT = 0.05
"""Smallest difference of scores that counts: a twentieth of what the expert has over random play."""
NOT_FITTED = Outcome("untested", "the methods were not fitted to the same logs")


def _each_rule(found: Found, kind: str, fails: Callable[[Estimate], bool], what: str) -> Outcome:
    """Judge by the score of each rule for the returns with bcq minus that without conservatism.

    Confirmed if none of them fails, refuted if all do.
    """
    gaps = {name: gap(found, method(name, "bcq"), method(name, "none"), (kind,)) for name in RULES}
    known = {name: one for name, one in gaps.items() if one is not None}
    if not known:
        return NOT_FITTED
    failing = [name for name, one in known.items() if fails(one)]
    verdict = "confirmed" if not failing else "partly" if len(failing) < len(known) else "refuted"
    measured = "score with bcq minus without: " + "; ".join(f"{name} {one}" for name, one in known.items())
    return Outcome(verdict, measured, f"{what} for {', '.join(failing)}")


@rule("offline-narrow", "From an expert's log, keeping to actions of the data is better than not.", "better")
def narrow(found: Found) -> Outcome:
    """Confirmed if the 95 % CI of the difference lies above 0 for every rule of returns, refuted if for none."""
    return _each_rule(found, "expert", lambda one: not one.is_above(), "not better")


@rule("offline-broad", "From a log of random actions it costs nothing.", "not worse")
def broad(found: Found) -> Outcome:
    """Refuted if the 95 % CI of the difference lies below 0 for every rule of returns, partly if for some."""
    return _each_rule(found, "random", lambda one: one.is_below(), "worse")


@rule(
    "offline-greedy-step",
    "Kept to the data, greedy-step returns learn more from a log than one-step ones.",
    f"at least {LEAST_EFFECT} more",
)
def returns_on_data(found: Found) -> Outcome:
    """Confirmed if the 95 % CI of the difference in mean score lies above 0.05, refuted if below.

    The rule was changed after the runs: the bound was 0, by which 0.01 (0.00 to 0.01) confirmed the claim.
    """
    one = gap(found, method("greedy-step", "bcq"), method("one-step", "bcq"), tuple(KINDS))
    if one is None:
        return NOT_FITTED
    verdict, measured = one.above(LEAST_EFFECT), f"mean score minus that of one-step: {one}"
    return Outcome(verdict, measured, f"the gain is smaller than {LEAST_EFFECT}" if verdict == "refuted" else "")
