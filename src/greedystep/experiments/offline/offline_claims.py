"""What is claimed of learning from logs, and how it is judged from the scores of the fits."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from greedystep.experiments.claims import UNDECIDED, Claim, Outcome, Verdict, judges
from greedystep.experiments.deep.judging import Estimate, over_tasks
from greedystep.experiments.offline.fit_methods import RULES, method
from greedystep.experiments.offline.logs import KINDS
from greedystep.stats import difference, interval

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


def gap(found: Found, ours: str, theirs: str, kinds: Sequence[str], by_seed: bool = False) -> Estimate | None:
    """The mean score of a method minus that of another, over tasks and kinds of logs; None where one is missing.

    `by_seed`: the CI is that of the differences between fits with the same seed.
    """
    a, b = (scores_of(found, name, kinds) for name in (ours, theirs))
    common = a.keys() & b.keys()
    if not common:
        return None
    a, b = ({name: some[name] for name in sorted(common)} for some in (a, b))
    if by_seed:
        return Estimate(*map(float, interval({name: a[name] - b[name] for name in a}, "mean")))
    return Estimate(*map(float, difference(a, b, "mean")))


def claims(found: Found) -> list[Claim]:
    """Judge each claim by the 95 % CI of a difference of mean scores over tasks and seeds."""
    return [narrow(found), broad(found), returns_on_data(found)]


LEAST_EFFECT = 0.05
"""Smallest difference of scores that counts: a twentieth of what the expert has over random play."""
NOT_FITTED = Outcome("untested", "the methods were not fitted to the same logs")


def _each_rule(
    found: Found, kind: str, judge: Callable[[Estimate], Verdict], what: str, by_seed: bool = False
) -> Outcome:
    """Judge by the score of each rule for the returns with bcq minus that without conservatism: all rules together."""
    gaps = {name: gap(found, method(name, "bcq"), method(name, "none"), (kind,), by_seed) for name in RULES}
    known = {name: one for name, one in gaps.items() if one is not None}
    if not known:
        return NOT_FITTED
    verdicts: dict[str, Verdict] = {name: judge(one) for name, one in known.items()}
    measured = "score with bcq minus without: " + "; ".join(f"{name} {one}" for name, one in known.items())
    open_, failing = ([name for name in known if verdicts[name] == one] for one in ("undecided", "refuted"))
    reasons = {UNDECIDED: open_, what: failing}
    why = "; ".join(f"{', '.join(names)}: {reason}" for reason, names in reasons.items() if names)
    return Outcome(over_tasks(verdicts.values()), measured, why)


@rule("offline-narrow", "From an expert's log, keeping to actions of the data is better than not.", "better")
def narrow(found: Found) -> Outcome:
    """Confirmed if the 95 % CI of the difference lies above 0 for every rule of returns, refuted if below for all.

    The rule was changed after the runs: a CI that contains 0 counted as refuting it. The verdict was the same.
    """
    return _each_rule(found, "expert", Estimate.above, "worse")


@rule("offline-broad", "From a log of random actions it costs nothing.", "not worse")
def broad(found: Found) -> Outcome:
    """Confirmed if the 95 % CI of the difference lies above -0.05 for every rule of returns, refuted if below for all.

    Fits with the same seed are compared: they begin with the same networks and draw the same batches. The rule was
    changed after the runs: seeds were not paired, and a CI that contains 0 confirmed the claim, however wide it was.
    """
    return _each_rule(found, "random", lambda one: one.above(-LEAST_EFFECT), "worse", by_seed=True)


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
