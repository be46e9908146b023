"""The experiments on Table 1 and Figure 1: what they measure with, how they judge, and what they hand on."""

import json

import numpy as np
import oracles
import oracles_claims
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from greedystep import io, models
from greedystep.experiments import fig1, table1
from greedystep.experiments.claims import NOT_KNOWN, VERDICTS
from greedystep.experiments.table1 import operator_claims, properties, theorems

TINY = {"side": 3, "pairs": 4, "trials": 2, "states": [8, 16], "steps": [2, 4]}


def silent(share: float, what: str) -> None:
    assert 0 <= share <= 1
    assert what


@pytest.fixture(scope="module")
def tiny_table1():
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(table1.SCALES, "quick", TINY)
        return table1.run("quick", silent)


@pytest.fixture(scope="module")
def quick_fig1():
    return fig1.run("quick", silent)


# -- the contract -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("experiment", "result"), [(fig1, "quick_fig1"), (table1, "tiny_table1")])
def test_figures_and_tables_come_from_the_json_alone(experiment, result, request):
    result = request.getfixturevalue(result)
    stored = json.loads(json.dumps(io.jsonable(result)))
    assert set(stored) == {"title", "settings", "numbers", "claims"}
    drawn, tables = experiment.draw(stored), experiment.tables(stored)
    assert drawn
    assert all(figure.axes for figure in drawn.values())
    assert all(table.rows for table in tables)
    assert tables[0].id == experiment.NAME


def test_claims_are_complete_and_their_names_unique(tiny_table1, quick_fig1):
    claims = [*tiny_table1["claims"], *quick_fig1["claims"]]
    assert all(claim["verdict"] in VERDICTS for claim in claims)
    names = [claim["id"] for claim in claims]
    assert len(set(names)) == len(names)
    assert all(name.isascii() for name in names)


def test_the_same_run_gives_the_same_numbers_but_for_the_cost(tiny_table1, monkeypatch):
    monkeypatch.setitem(table1.SCALES, "quick", TINY)
    again = table1.run("quick", silent)
    for part in ("properties", "convergence", "theorems", "formulas", "variance"):
        assert again["numbers"][part] == tiny_table1["numbers"][part]


# -- Figure 1 ---------------------------------------------------------------------------------------------------------


def test_fig1_measures_two_iterations_against_n_and_twice_the_work(quick_fig1):
    for row in quick_fig1["numbers"]["rows"]:
        N = row["horizon"]
        assert row[fig1.ONE_STEP] == {"iterations": N, "sweeps": N}
        assert row[fig1.FULL] == {"iterations": 2, "sweeps": 2 * N}
        assert row[fig1.HALF] == {"iterations": 2, "sweeps": N}
    verdict = {claim["id"]: claim["verdict"] for claim in quick_fig1["claims"]}
    assert verdict == {"fig1-two-iterations": "confirmed", "fig1-n-iterations": "confirmed", "fig1-faster": "partly"}


def test_fig1_n_half_is_the_shortest_look_ahead_that_does_it():
    assert fig1._cost(16, 8)["iterations"] == 2
    assert fig1._cost(16, 7)["iterations"] > 2


def test_fig1_waits_for_the_far_end_of_a_long_chain_too():
    assert fig1._cost(3000, 1)["iterations"] == 3000  # V*(s0) = 0.99^2999 = 8e-14


def test_fig1_judges_by_work():
    assert fig1._faster(fewer_iterations=True, work_ratio=0.5) == "confirmed"
    assert fig1._faster(fewer_iterations=True, work_ratio=1.0) == "partly"
    assert fig1._faster(fewer_iterations=False, work_ratio=1.0) == "refuted"


def test_fig1_judges_iterations(quick_fig1):
    row = quick_fig1["numbers"]["rows"][0]
    for method, name in ((fig1.FULL, "fig1-two-iterations"), (fig1.ONE_STEP, "fig1-n-iterations")):
        slow = row | {method: {"iterations": 3, "sweeps": 3.0}}
        claim = next(claim for claim in fig1._claims([slow]) if claim.id == name)
        assert (claim.verdict, claim.measured, claim.reason) == ("refuted", [3], NOT_KNOWN)


# -- Table 1: what it measures with -----------------------------------------------------------------------------------


@given(st.integers(0, 2**32 - 1), st.integers(1, 4), st.booleans())
@settings(max_examples=30, deadline=None)
def test_the_matrix_form_is_the_formula_of_the_paper(seed, horizon, as_printed):
    random = np.random.default_rng(seed)
    mdp = models.garnet(5, 3, 2, discount=0.9, seed=seed)
    policies, values = properties.random_policies(mdp, random), random.normal(size=5)
    ours = properties.MatrixForm(mdp, policies, horizon, as_printed)(values)
    np.testing.assert_allclose(ours, oracles.matrix_form(mdp, policies, values, horizon, as_printed), atol=1e-12)


@pytest.mark.parametrize("case", properties.cases(3), ids=lambda case: case.name)
def test_optimal_q_is_a_fixed_point_of_the_bellman_operator(case):
    optimum = properties.optimal_q(case.mdp)
    np.testing.assert_allclose(case.mdp.backup(optimum.max(axis=1)), optimum, atol=1e-9)
    assert case.mdp.deterministic == ("deterministic" in case.name)


def test_matrices_that_are_too_large_are_not_built(monkeypatch):
    monkeypatch.setattr(properties, "LARGEST", 1000)
    (row,) = properties.measure_cost([8], [])["states"]
    assert row["seconds"]["matrices"] is None
    assert row["seconds"]["inside"] > 0


def test_theorems_that_hold_are_never_violated_and_the_others_are():
    rows = theorems.count_violations(30, lambda share: None)
    violated = {(row["operator"], row["statement"]): row["violations"] for row in rows}
    never, anywhere = ("Theorem 5 with N = n", "Theorem 5 with q >= Q*"), "Theorem 5: max_π (B^π)^n B q = B^(n+1) q"
    needs_determinism = {
        ("Greedy-Step (definition)", "is the form of the proofs"),
        ("Greedy-Step (definition)", "Lemma 1: |Gq-Gq'| <= |Bq-Bq'|"),
        ("Greedy-Step (definition)", "Theorem 4: |Gq-Q*| <= |Bq-Q*|"),
        ("Greedy-Step (proofs)", "Theorem 5 with N = n+1"),
        ("Greedy-Step (proofs)", "Theorem 5 with n = 1, N = 2"),
        ("multi-step optimality", "limit = Q* if a policy knows the way"),
        ("sampled Greedy-Step", "contraction to Q*"),
    }
    for key, counts in violated.items():
        if key[1] in never or key[1] == anywhere:
            assert min(counts.values()) > 0
        else:
            assert counts["deterministic"] == 0
            assert key in needs_determinism or counts["stochastic"] == 0
    assert sum(violated[key]["stochastic"] > 0 for key in needs_determinism) >= 4  # three are rare, at 5 in 100


# -- Table 1: how it judges -------------------------------------------------------------------------------------------


def verdict_of(numbers, name):
    return next(claim.verdict for claim in table1.claims(numbers) if claim.id == name)


def changed(numbers, *path, to):
    """The numbers with one of them changed."""
    copy = json.loads(json.dumps(io.jsonable(numbers)))
    *way, last = path
    place = copy
    for key in way:
        place = place[key]
    place[last] = to
    return copy


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("table1-one-step-optimality", ("properties", "one-step optimality", "cases", 0, "to_optimum")),
        ("table1-multi-step-optimality", ("properties", "multi-step optimality", "cases", 1, "above_optimum")),
        ("table1-multi-step-on-policy", ("properties", "multi-step on-policy", "cases", 2, "to_policy")),
        ("table1-multi-step-off-policy", ("properties", "multi-step off-policy", "cases", 3, "rate")),
        ("table1-greedy-step-definition", ("properties", "Greedy-Step (definition)", "cases", 0, "rate")),
        ("table1-greedy-step-proofs", ("properties", "Greedy-Step (proofs)", "cases", 0, "to_optimum")),
        ("table1-no-correction", ("properties", "Greedy-Step (proofs)", "cases", 0, "moves")),
        ("good-policy-faster", ("convergence", "curves", properties.KNOWING, "errors")),
    ],
)
def test_a_claim_that_is_confirmed_would_be_refuted_by_another_number(tiny_table1, name, path):
    assert verdict_of(tiny_table1["numbers"], name) == "confirmed"
    worse = [1.0] * 200 if path[-1] == "errors" else 1.5
    assert verdict_of(changed(tiny_table1["numbers"], *path, to=worse), name) == "refuted"


def test_the_multi_step_operator_needs_no_ratios_even_where_its_limit_moves(tiny_table1):
    numbers, name = tiny_table1["numbers"], "table1-multi-step-no-correction"
    assert verdict_of(numbers, name) == "partly"
    still = [case | {"moves": 0.0} for case in numbers["properties"][MULTI_STEP]["cases"]]
    assert verdict_of(changed(numbers, "properties", MULTI_STEP, "cases", to=still), name) == "confirmed"


def test_a_step_that_is_always_the_same_is_not_adaptive(tiny_table1):
    numbers = tiny_table1["numbers"]
    assert verdict_of(numbers, "table1-adaptive-step") == "confirmed"
    same = changed(numbers, "properties", DEFINITION, "cases", 0, "steps", to=[3])
    assert verdict_of(same, "table1-adaptive-step") == "refuted"


DEFINITION, PROOFS = properties.GREEDY
MULTI_STEP = properties.MULTI_STEP


@pytest.mark.parametrize(
    ("name", "operator", "statement"),
    [
        ("theorem-1", DEFINITION, "Theorem 1: Q* = G Q*"),
        ("lemma-1-contraction", DEFINITION, "Lemma 1: |Gq-Gq'| <= γ |q-q'|"),
        ("lemma-1-first", DEFINITION, "Lemma 1: |Gq-Gq'| <= |Bq-Bq'|"),
        ("theorem-4", DEFINITION, "Theorem 4: |Gq-Q*| <= |Bq-Q*|"),
        ("theorem-5", DEFINITION, "Theorem 5 with N = n+1"),
        ("theorem-5-squared", DEFINITION, "Theorem 5 with n = 1, N = 2"),
        ("any-horizon", DEFINITION, "Theorem 5 with N = n"),
        ("stays-below", DEFINITION, "q <= Q* stays below"),
        ("proofs-form", DEFINITION, "is the form of the proofs"),
        ("proofs-below", "proofs", "(B^π)^n Q* <= Q*"),
        ("theorem-5-proofs-form", PROOFS, "Theorem 5 with N = n+1"),
        ("theorem-5-proof-step", "proofs", "Theorem 5: max_π (B^π)^n B q = B^(n+1) q"),
        ("lemma-2", MULTI_STEP, "Lemma 2: |Oq-Oq'| <= γ^N |q-q'|"),
        ("multi-step-limit-below", MULTI_STEP, "limit <= Q*"),
        ("multi-step-limit-optimal", MULTI_STEP, "limit = Q* if a policy knows the way"),
        ("sampled-contraction", "sampled Greedy-Step", "contraction to Q*"),
    ],
)
def test_a_statement_is_refuted_by_one_violation_and_by_no_other_statement(tiny_table1, name, operator, statement):
    def judged(broken):
        """The verdict if only this statement were violated, in one deterministic model."""
        rows = [
            row | {"violations": {"deterministic": int((row["operator"], row["statement"]) == broken), "stochastic": 0}}
            for row in tiny_table1["numbers"]["theorems"]
        ]
        return {claim.id: claim for claim in table1.claims(tiny_table1["numbers"] | {"theorems": rows})}

    assert judged(None)[name].verdict == "confirmed"
    assert judged((operator, statement))[name].verdict == "refuted"
    assert judged((operator, statement))[name].reason
    others = [
        claim.id for claim in judged((operator, statement)).values() if claim.verdict != judged(None)[claim.id].verdict
    ]
    assert others == [name]


def test_one_optimal_policy_being_enough_refutes_that_all_must_be(tiny_table1):
    def judged(violations):
        rows = [
            row | {"violations": {"deterministic": 0, "stochastic": violations}}
            if "one policy" in row["statement"]
            else row
            for row in tiny_table1["numbers"]["theorems"]
        ]
        return verdict_of(tiny_table1["numbers"] | {"theorems": rows}, "multi-step-all-optimal")

    assert judged(0) == "refuted"
    assert judged(3) == "untested"


def test_sampled_data_are_safe_everywhere_where_nothing_is_chance_or_nowhere(tiny_table1):
    numbers = tiny_table1["numbers"]

    def judged(deterministic, stochastic):
        cases = numbers["properties"]["sampled Greedy-Step"]["cases"]
        cases = [case | {"to_optimum": deterministic if case["deterministic"] else stochastic} for case in cases]
        return verdict_of(changed(numbers, "properties", "sampled Greedy-Step", "cases", to=cases), "sampled-safe")

    assert verdict_of(numbers, "sampled-safe") == "partly"
    assert [judged(0, 0), judged(0, 1), judged(1, 0), judged(1, 1)] == ["confirmed", "partly", "refuted", "refuted"]


def test_a_correction_is_needed_where_limits_move_only_without_it(tiny_table1):
    def judged(without, corrected):
        numbers = tiny_table1["numbers"]
        for name, moves in zip(operator_claims.EVALUATION, (without, corrected), strict=True):
            cases = [case | {"moves": moves} for case in numbers["properties"][name]["cases"]]
            numbers = changed(numbers, "properties", name, "cases", to=cases)
        return verdict_of(numbers, "table1-needs-correction")

    assert verdict_of(tiny_table1["numbers"], "table1-needs-correction") == "confirmed"
    assert [judged(1, 0), judged(1, 1), judged(0, 1)] == ["confirmed", "partly", "refuted"]


def test_variance_is_high_if_it_grows_and_doubles(tiny_table1):
    def judged(*rows):
        rows = [
            {"case": str(i), "steps": [1, 2], "corrected": row, "uncorrected": [1, 1]} for i, row in enumerate(rows)
        ]
        return verdict_of(tiny_table1["numbers"] | {"variance": rows}, "importance-sampling-variance")

    assert judged([1, 2], [2, 4]) == "confirmed"
    assert judged([1, 2], [1, 1.5]) == "partly"
    assert judged([3, 2.5], [1, 1]) == "refuted"


def test_the_order_of_the_cost_is_that_of_the_memory(tiny_table1):
    def judged(power):
        sizes = (4, 8, 16)
        row = {"seconds": {"matrices": 1.0, "outside": 1.0}, "states": 4, "horizon": 4}
        rows = [row | {"states": n, "horizon": n, "bytes": {"matrices": n**power, "outside": 1}} for n in sizes]
        numbers = tiny_table1["numbers"] | {"cost": {"states": rows, "horizon": rows}}
        return verdict_of(numbers, "complexity"), verdict_of(numbers, "complexity-in-steps")

    assert judged(2) == ("confirmed", "refuted")
    assert judged(1) == ("refuted", "confirmed")
    assert judged(3) == ("refuted", "refuted")


@given(st.integers(0, 2**32 - 1))
@settings(max_examples=20, deadline=None)
def test_deviations_are_those_of_all_trajectories(seed):
    random = np.random.default_rng(seed)
    mdp = models.garnet(3, 2, 2, discount=0.9, seed=seed)
    behaviour, target = random.dirichlet(np.ones(2), (2, 3))
    start = random.normal(size=(3, 2))
    ratio = target / behaviour
    got = properties.deviations(mdp, behaviour, ratio, start, 3)
    for steps, deviation in enumerate(got, 1):
        squares = [
            oracles_claims.variance(mdp, behaviour, ratio, start, s, a, steps) for s in range(3) for a in range(2)
        ]
        np.testing.assert_allclose(deviation, np.sqrt(np.mean(squares)), rtol=1e-6, atol=1e-9)


def test_printed_formulas_are_refuted_by_what_they_give(tiny_table1):
    numbers = tiny_table1["numbers"]
    assert numbers["formulas"]["matrix_form"] == {"printed": [0.0, 1.9], "corrected": [0.9, 1.0]}
    assert verdict_of(numbers, "matrix-formula") == verdict_of(numbers, "lambda-weights") == "refuted"
    right = changed(numbers, "formulas", "matrix_form", "printed", to=[0.9, 1.0])
    assert verdict_of(right, "matrix-formula") == "confirmed"
    assert verdict_of(changed(numbers, "formulas", "lambda_weights", to=1.0), "lambda-weights") == "confirmed"
