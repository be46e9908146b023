"""The paper's claims about Figures 4 and 5 and about its horizon N, and the rules that judge them.

The paper does not name the tasks of these figures: every task that was trained is judged, and named.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
from scipy.stats import rankdata

from greedystep.experiments.claims import Claim, Verdict
from greedystep.experiments.deep.evidence import Evidence
from greedystep.experiments.deep.rules import Found, above, below, lead, together, words
from greedystep.experiments.deep.tasks import TASKS
from greedystep.stats import Interval, interval

EARLY = 0.2
"""What is learned soon is learned within this share of the steps."""

NETWORKS = (1, 2, 4, 6)
FULL = "T-t"
HORIZONS = (1, 3, 10, 30, None)


def networks(number: int) -> str:
    """The name of Greedy-Step DQN with so many target networks."""
    return f"{number} networks" if number > 1 else "1 network"


def horizon(steps: int | None, number: int, double: bool = False) -> str:
    """The name of Greedy-Step DQN with a horizon and so many networks."""
    return f"N={FULL if steps is None else steps}, {networks(number)}" + (", double" if double else "")


def _on_each_task(found: Found, names: Iterable[str], judge: Callable[[str], tuple[Verdict, str]]) -> tuple:
    """The verdict over all tasks that have everything named, and what to say."""
    names = tuple(names)
    judged = {task: judge(task) for task in TASKS if all((task, name) in found for name in names)}
    said = "; ".join(f"{TASKS[task].title}: {words}" for task, (_, words) in judged.items())
    return together(verdict for verdict, _ in judged.values()), said or f"not trained: {'; '.join(names)}"


# -- Figure 4: target networks ----------------------------------------------------------------------------------------

MANY, ONE = networks(NETWORKS[-1]), networks(1)
OVERESTIMATION = "Section 6.2, Figure 4"


def claims_networks(found: Found) -> list[Claim]:
    def gap(what: Callable[[Evidence], np.ndarray], task: str) -> Interval:
        return lead(what(found[task, MANY]), what(found[task, ONE]))

    def compare(what: Callable[[Evidence], np.ndarray], rule: Callable[..., Verdict], unit: str):
        def judge(task: str) -> tuple[Verdict, str]:
            found_gap = gap(what, task)
            return rule(found_gap, 0), f"{words(found_gap)} {unit}"

        return _on_each_task(found, (ONE, MANY), judge)

    better, said_better = compare(lambda e: e.final, above, "more reward than with 1")
    stable, said_stable = compare(fall, below, "more of its best return lost at the end than with 1")
    smaller, said_smaller = compare(lambda e: e.at_end(e.q), below, "difference in mean Q")
    cured, said_cured = compare(lambda e: e.at_end(e.overestimation), below, "difference in over-estimation")
    best, said_best = _on_each_task(found, map(networks, NETWORKS), lambda task: _six_is_best(found, task))
    return [
        Claim("fig4-better", f"With {MANY} it performs better.", OVERESTIMATION, "better", said_better, better),
        Claim("fig4-stable", f"With {MANY} it is more stable.", OVERESTIMATION, "more stable", said_stable, stable),
        Claim("fig4-smaller-q", f"With {MANY} Q is smaller.", OVERESTIMATION, "smaller", said_smaller, smaller),
        Claim(
            "fig4-overestimation",
            "Several target networks reduce over-estimation (measured: Q minus the discounted return that followed).",
            OVERESTIMATION,
            "reduced",
            said_cured,
            cured,
        ),
        Claim(
            "fig4-six",
            "With 6 target networks the performance is often good (measured: whether another number is better).",
            OVERESTIMATION,
            "6",
            said_best,
            best,
        ),
    ]


def fall(found: Evidence) -> np.ndarray:
    """[seeds] how far the final return lies below the best one on the way."""
    return np.nanmax(found.returns, axis=1) - found.final


def _six_is_best(found: Found, task: str) -> tuple[Verdict, str]:
    """Refuted: another number is better for certain; confirmed: none is."""
    gaps = {n: lead(found[task, networks(n)].final, found[task, MANY].final) for n in NETWORKS[:-1]}
    better = [n for n, gap in gaps.items() if above(gap, 0) == "confirmed"]
    if any(above(gap, 0) == "untested" for gap in gaps.values()):
        return "untested", "too few seeds"
    said = f"with {', '.join(map(str, better))} it is better" if better else "no other number is better for certain"
    return ("refuted" if better else "confirmed"), said


# -- Figure 5: the chosen step ----------------------------------------------------------------------------------------

STEP = "Section 6.2, Figure 5"


def claims_step(found: Found, method: str) -> list[Claim]:
    def first_and_last(task: str) -> tuple[Verdict, str]:
        ours = found[task, method]
        gap = interval(ours.n[:, _first(ours)] - ours.n[:, -1], "mean")
        begin, end = ours.n[:, _first(ours)].mean(), ours.n[:, -1].mean()
        return above(gap, 0), f"n = {begin:.3g} at first and {end:.3g} at the end, a difference of {words(gap)}"

    def trend(task: str) -> tuple[Verdict, str]:
        rho = interval(rank_correlation(found[task, method]), "mean")
        return below(rho, 0), words(rho)

    larger, said_larger = _on_each_task(found, (method,), first_and_last)
    falling, said_falling = _on_each_task(found, (method,), trend)
    return [
        Claim(
            "fig5-larger-at-first",
            "At the beginning of training larger steps are chosen, later shorter ones (measured: the mean chosen n of "
            "each seed at the first and the last point).",
            STEP,
            "larger",
            said_larger,
            larger,
        ),
        Claim(
            "fig5-getting-smaller",
            "The chosen steps get smaller by themselves as training goes on (measured: their rank correlation with "
            "the steps of training).",
            STEP,
            "below 0",
            said_falling,
            falling,
        ),
    ]


def _first(found: Evidence) -> int:
    """The first point at which every seed has chosen."""
    return int(np.isfinite(found.n).all(axis=0).argmax())


def rank_correlation(found: Evidence) -> np.ndarray:
    """[seeds] Spearman's, of mean chosen n with the steps of training; NaN where n never changes."""
    known = np.isfinite(found.n).all(axis=0)
    if known.sum() < 3:
        return np.full(len(found.n), np.nan)
    when = rankdata(found.steps[known])
    curves = found.n[:, known]
    return np.array([np.corrcoef(when, rankdata(one))[0, 1] if np.ptp(one) else np.nan for one in curves])


# -- the horizon N ----------------------------------------------------------------------------------------------------

HYPERPARAMETER = "Section 4.1, hyperparameter"
SHORT, LONG, CURED = horizon(1, 1), horizon(None, 1), horizon(None, 6)
CURED_BY_DOUBLE = horizon(None, 1, double=True)


def claims_horizon(found: Found) -> list[Claim]:
    def faster(task: str) -> tuple[Verdict, str]:
        gap = lead(found[task, CURED].height(EARLY), found[task, horizon(1, 6)].height(EARLY))
        return above(gap, 0), f"{words(gap)} more reward than with N=1 in the first fifth of the steps, 6 networks"

    def suffers(task: str) -> tuple[Verdict, str]:
        gap = lead(_over(found[task, LONG]), _over(found[task, SHORT]))
        return above(gap, 0), f"{words(gap)} more over-estimation than with N=1, 1 network"

    def with_double(task: str) -> tuple[Verdict, str]:
        gap = lead(found[task, CURED_BY_DOUBLE].final, found[task, LONG].final)
        return above(gap, 0), f"{words(gap)} more reward than without"

    first, said_first = _on_each_task(found, (CURED, horizon(1, 6)), faster)
    second, said_second = _on_each_task(found, (LONG, SHORT), suffers)
    third, said_third = _on_each_task(found, (LONG, SHORT, CURED), lambda task: _addressed(found, task))
    fourth, said_fourth = _on_each_task(found, (LONG, CURED_BY_DOUBLE), with_double)
    return [
        Claim(
            "horizon-faster",
            "A larger N lets information propagate faster.",
            HYPERPARAMETER,
            "faster",
            said_first,
            first,
        ),
        Claim(
            "horizon-overestimation",
            "A larger N tends to suffer from over-estimation.",
            HYPERPARAMETER,
            "more",
            said_second,
            second,
        ),
        Claim(
            "horizon-addressed",
            "That over-estimation is well addressed by its reduction techniques (measured: Maxmin with 6 networks).",
            HYPERPARAMETER,
            "well addressed",
            said_third,
            third,
        ),
        Claim(
            "horizon-double",
            "Greedy-Step performs well with Double DQN (measured: against Greedy-Step alone).",
            "Section 4.1, overestimation",
            "well",
            said_fourth,
            fourth,
        ),
    ]


def _over(found: Evidence) -> np.ndarray:
    return found.at_end(found.overestimation)


def _addressed(found: Found, task: str) -> tuple[Verdict, str]:
    """Confirmed: less over-estimation than without the cure, and no more than one-step DQN, as far as can be told.

    Partly: one of the two. Refuted: neither, or more than without.
    """
    against_one_step = lead(_over(found[task, CURED]), _over(found[task, SHORT]))
    against_alone = lead(_over(found[task, CURED]), _over(found[task, LONG]))
    said = f"{words(against_one_step)} more than one-step DQN, {words(against_alone)} more than without"
    reduced = below(against_alone, 0)
    if reduced in ("untested", "refuted"):
        return reduced, said
    met = [reduced == "confirmed", above(against_one_step, 0) != "confirmed"]
    return ("confirmed" if all(met) else "partly" if any(met) else "refuted"), said
