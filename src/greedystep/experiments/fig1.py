"""The paper's Figure 1: on the N-horizon problem two iterations suffice instead of N; and what the two cost.

The figure is not in the paper's text; `models.n_horizon` is a reconstruction from its caption. Every method starts from
q = 0, which lies below Q*, and stops when its greedy values are exact. Work is counted in Bellman sweeps: one product
with the whole model is 1, one with the chain of a policy is 1/A.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from greedystep import figures, models, operators
from greedystep.charts import Chart, Line
from greedystep.experiments.claims import Claim, Verdict, judged, rule_text, verdict_if
from greedystep.runs.progress import ReportProgress
from greedystep.tables import Table

NAME = "fig1"
TITLE = "The N-horizon problem: iterations and work of value iteration and Greedy-Step"

HORIZONS = {"quick": [2**k for k in range(2, 10)], "paper": [2**k for k in range(2, 13)]}
DISCOUNT = 0.99
EXACT = 1e-9
"""Largest relative error of V that counts as zero; relative, since V(s0) = γ^(N-1) is tiny for large N."""

ONE_STEP, HALF, FULL = "value iteration", "Greedy-Step, N/2 steps", "Greedy-Step, N steps"
LOOK_AHEAD = {ONE_STEP: lambda N: 1, HALF: lambda N: N // 2, FULL: lambda N: N}
"""Method -> how many steps it looks ahead. N/2 is the shortest look-ahead that needs only two iterations."""
MEASURES = {"iterations": "Iterations until V is exact", "sweeps": "Bellman sweeps until V is exact"}


def run(scale: str, progress: ReportProgress) -> dict[str, Any]:
    rows, horizons = [], HORIZONS[scale]
    for i, horizon in enumerate(horizons):
        progress(i / len(horizons), f"horizon {horizon}")
        costs = {method: _cost(horizon, look(horizon)) for method, look in LOOK_AHEAD.items()}
        rows.append({"horizon": horizon} | costs)
    return {
        "title": TITLE,
        "settings": {"scale": scale, "discount": DISCOUNT, "horizons": horizons, "start": "q = 0"},
        "numbers": {"rows": rows},
        "claims": [asdict(claim) for claim in _claims(rows)],
    }


def _cost(horizon: int, look_ahead: int) -> dict[str, float]:
    """Return the iterations and sweeps until V is exact; look_ahead = 1 is value iteration."""
    mdp, policies = models.n_horizon(horizon, DISCOUNT)
    optimum = DISCOUNT ** np.arange(horizon - 1, -1, -1.0)  # state s needs horizon - s steps, of which the last pays 1
    q, iterations = np.zeros(mdp.rewards.shape), 0
    while not np.allclose(q.max(axis=1), optimum, rtol=EXACT, atol=0):
        q, iterations = operators.greedy_step(mdp, policies, q, look_ahead), iterations + 1
    sweeps_each = 1 + len(policies) * (look_ahead - 1) / mdp.num_actions
    return {"iterations": iterations, "sweeps": iterations * sweeps_each}


# -- claims -----------------------------------------------------------------------------------------------------------


def _claims(rows: list[dict[str, Any]]) -> list[Claim]:
    where = "Section 3, Figure 1"
    one_step, ours = ([row[method]["iterations"] for row in rows] for method in (ONE_STEP, FULL))
    half, full = (max(row[method]["sweeps"] / row[ONE_STEP]["sweeps"] for row in rows) for method in (HALF, FULL))
    is_two, is_n = set(ours) == {2}, one_step == [row["horizon"] for row in rows]
    two = "On the N-horizon problem Greedy-Step needs 2 iterations, whatever N."
    n = "On the same problem classical value iteration needs N iterations."
    faster = "There Greedy-Step converges faster than value iteration."
    work = f"{max(ours)} iterations against up to {max(one_step)}; {full:.2g} times the work of value iteration "
    work += f"with look-ahead N, {half:.2g} times with the shortest look-ahead that does it, N/2"
    why = "one iteration that looks N steps ahead costs as much as N sweeps (fig1, Bellman sweeps)"
    brief = f"{max(ours)} iterations against up to {max(one_step)}, at {half:.2g} times the work"
    verdict, exact = _faster(max(ours) < max(one_step), min(half, full)), "Confirmed if this is so for every N."
    return [
        judged("fig1-two-iterations", two, where, 2, 2 if is_two else ours, verdict_if(is_two), rule=exact),
        judged("fig1-n-iterations", n, where, "N", "N" if is_n else one_step, verdict_if(is_n), rule=exact),
        judged("fig1-faster", faster, where, "faster", work, verdict, why, brief, rule_text(_faster)),
    ]


def _faster(fewer_iterations: bool, work_ratio: float) -> Verdict:
    """Confirmed if there is less work, partly if there are fewer iterations that cost as much, otherwise refuted."""
    return "confirmed" if work_ratio < 1 else "partly" if fewer_iterations else "refuted"


# -- figures and tables -----------------------------------------------------------------------------------------------

CHARTS = "Exact counts: nothing here is random."


def charts(result: dict[str, Any]) -> list[Chart]:
    rows = result["numbers"]["rows"]

    def line(method: str, measure: str) -> Line:
        return Line(method, [row["horizon"] for row in rows], [row[method][measure] for row in rows])

    return [
        Chart(
            "The N-horizon problem", "horizon N", what, [line(m, measure) for m in LOOK_AHEAD], log_x=True, log_y=True
        )
        for measure, what in MEASURES.items()
    ]


def draw(result: dict[str, Any]) -> dict[str, Figure]:
    return {"fig1": figures.draw_charts(charts(result), columns=2)}


def tables(result: dict[str, Any]) -> list[Table]:
    rows = [
        {"N": row["horizon"]} | {f"{measure}: {m}": row[m][measure] for measure in MEASURES for m in LOOK_AHEAD}
        for row in result["numbers"]["rows"]
    ]
    title = "Iterations and Bellman sweeps until V is exact on the N-horizon problem"
    return [Table.from_records("fig1", title, rows)]
