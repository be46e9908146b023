"""Every sentence of the paper has its check, every check exists, and every claim of an experiment belongs to one."""

import ast
import json
import re
from dataclasses import asdict
from pathlib import Path

import pytest

from greedystep import io
from greedystep.experiments import (
    NAMES,
    auto,
    fig1,
    fig2,
    fig3,
    fig4,
    fig5,
    horizon,
    offline,
    paper_protocol,
    presets,
    released_code,
    settings,
    table1,
)
from greedystep.experiments import greedy_curves as evaluation
from greedystep.experiments import sticky_actions as luck
from greedystep.experiments.sentence_verdicts import (
    Evidence,
    Row,
    experiment_of,
    recorded_outcomes,
    rows,
    verdict_of,
    verdict_of_test,
)
from greedystep.experiments.sentences import BEYOND_THE_PAPER, SENTENCES, TESTS, CheckedBy
from greedystep.report import verdicts

REPOSITORY = Path(__file__).parent.parent
TINY = {"side": 3, "pairs": 4, "trials": 10, "states": [8, 16], "steps": [2, 4]}
"""Ten models of a kind are enough: each statement that fails is violated by one of them."""


@pytest.fixture(scope="module")
def results():
    """Small results of what runs in seconds, and of trainings without any data."""

    def silent(share, what):
        pass

    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(table1.SCALES, "quick", TINY)
        made = {one.NAME: one.run("quick", silent) for one in (table1, fig1, released_code)}
    claims = {
        "fig3": fig3.claims({}, None),
        "fig4": fig4.claims({}),
        "fig5": fig5.claims({}),
        "horizon": horizon.claims({}),
        "luck": luck.claims({}),
        "presets": presets.claims({}),
        "protocol": paper_protocol.claims({}),
        "evaluation": evaluation.claims({}),
        "settings": [settings.one_for_all({})],
        "auto": auto.claims({auto.AUTO: {}, auto.SINGLE: {}}, {}),
        "offline": offline.claims({}),
    }
    made |= {name: {"claims": [asdict(claim) for claim in some]} for name, some in claims.items()}
    return json.loads(io.to_json(made))


def claims_of_fig2() -> set[str]:
    """As written in its source: its trials take minutes."""
    found = set()
    for path in Path(fig2.__file__).parent.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "rule":
                first = node.args[0] if node.args else next(k.value for k in node.keywords if k.arg == "id")
                assert isinstance(first, ast.Constant), f"{path.name}: the id of a claim is not written out"
                found.add(first.value)
    return found


@pytest.fixture(scope="module")
def claims(results):
    return {claim["id"] for result in results.values() for claim in result["claims"]} | claims_of_fig2()


def named_claims():
    return [one for sentence in SENTENCES for one in sentence.evidence if isinstance(one, str)]


# -- the list ---------------------------------------------------------------------------------------------------------


def test_sentences_are_complete_and_their_names_unique():
    names = [sentence.id for sentence in SENTENCES]
    assert len(set(names)) == len(names)
    for sentence in SENTENCES:
        assert sentence.evidence, sentence.id
        assert len(set(sentence.evidence)) == len(sentence.evidence), sentence.id
        assert all(text.strip() for text in (sentence.where, sentence.says))
        assert sentence.says.endswith(".")


def test_every_claim_that_a_sentence_names_is_made_by_an_experiment(claims):
    assert set(named_claims()) <= claims


def test_every_claim_of_an_experiment_is_named_by_a_sentence_or_beyond_the_paper(claims):
    assert claims - set(named_claims()) == set(BEYOND_THE_PAPER)


def test_every_test_that_a_sentence_names_exists():
    for name in TESTS:
        file, function = name.split("::")
        tree = ast.parse((REPOSITORY / file).read_text(encoding="utf-8"))
        assert function in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}, name


def test_the_outcome_of_every_test_is_recorded():
    """That the recorded outcomes are those of this run is checked at its end (conftest.py)."""
    assert set(recorded_outcomes()) == set(TESTS)


def test_every_test_that_a_reason_names_exists(results):
    for claim in (claim for result in results.values() for claim in result["claims"]):
        for name in (word.strip("();,") for word in claim["reason"].split() if "tests/" in word):
            file, function = name.split("::")
            assert f"def {function}(" in (REPOSITORY / file).read_text(encoding="utf-8"), name


def test_the_experiment_of_a_claim_is_known_by_its_name(results):
    for name, result in results.items():
        assert {experiment_of(claim["id"]) for claim in result["claims"]} == {name}
    assert {experiment_of(name) for name in claims_of_fig2()} == {"fig2"}
    assert set(results) | {"fig2"} == set(NAMES)


# -- rows -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("claims", "tests", "expected"),
    [
        (["confirmed"], ["confirmed"], "confirmed"),
        (["refuted"], ["refuted"], "refuted"),
        (["partly", "partly"], [], "partly"),
        (["confirmed"], ["refuted"], "partly"),
        (["confirmed", "refuted", "untested"], [], "partly"),
        (["untested"], [], "untested"),
        (["confirmed", "untested"], [], "untested"),
        (["untested"], ["confirmed"], "untested"),
        (["refuted", "untested"], [], "partly"),  # of three tasks one was run: the others may hold
        (["untested"], ["refuted"], "refuted"),  # a counterexample
        (["undecided"], [], "undecided"),
        (["undecided"], ["confirmed"], "partly"),
        (["refuted", "undecided"], [], "undecided"),
        (["undecided"], ["refuted"], "refuted"),
        (["undecided", "untested"], [], "undecided"),
        (["untested"], ["confirmed", "refuted"], "partly"),
        ([], ["confirmed"], "confirmed"),
    ],
)
def test_a_sentence_needs_all_of_its_checks(claims, tests, expected):
    evidence = [Evidence("claim", "table1", verdict, "") for verdict in claims]
    evidence += [Evidence(None, "tests/test_x.py::test_y", verdict, "") for verdict in tests]
    assert verdict_of(evidence) == expected


@pytest.mark.parametrize(
    ("supports", "outcome", "expected"),
    [
        (True, "passed", "confirmed"),
        (True, "failed", "refuted"),
        (True, "skipped", "untested"),
        (True, None, "untested"),
        (False, "passed", "refuted"),
        (False, "failed", "untested"),  # what was thought to be a counterexample is none
    ],
)
def test_a_test_judges_by_its_outcome(supports, outcome, expected):
    assert verdict_of_test(CheckedBy("tests/test_x.py::test_y", supports, "words"), outcome) == expected


def test_an_outcome_changes_the_verdict_of_its_sentences():
    (evidence,) = next(sentence.evidence for sentence in SENTENCES if sentence.id == "method-no-policy")
    assert isinstance(evidence, CheckedBy)
    found = {row.id: row for row in rows([], recorded_outcomes() | {evidence.test: "failed"})}
    assert found["method-no-policy"].verdict == "refuted"
    assert found["method-no-policy"].measured.startswith("failed: ")


def by_name(results) -> dict[str, Row]:
    return {row.id: row for row in rows(results)}


def test_without_results_only_theory_is_judged():
    found = by_name([])
    assert list(found) == [sentence.id for sentence in SENTENCES]
    assert found["method-no-policy"].verdict == "confirmed"
    assert found["intro-first"].verdict == "refuted"
    assert "modified policy iteration" in found["intro-first"].measured
    assert found["deep-twice"].verdict == "untested"
    assert found["deep-twice"].measured == "not run: greedystep reproduce fig3"


def test_theorems_are_judged_as_the_facts_are(results):
    found = by_name(results.values())
    confirmed = ("vi-theorem-1", "vi-lemma-1", "vi-theorem-2", "vi-converges", "vi-theorem-5", "related-lemma-2")
    refuted = ("vi-theorem-4", "vi-lemma-1-first", "vi-any", "vi-rewritten", "method-matrix-formula", "related-lambda")
    partly = ("abstract-rate", "abstract-any-data", "method-no-restriction", "related-need-behaviour")
    for names, verdict in ((confirmed, "confirmed"), (refuted, "refuted"), (partly, "partly")):
        for name in names:
            assert found[name].verdict == verdict, name


def test_a_claim_is_passed_on():
    claim = {"id": "fig3-equal-time", "measured": "2 times", "verdict": "refuted"}
    explained = by_name([{"claims": [claim]}])["discussion-time"]
    assert (explained.verdict, explained.measured) == ("refuted", "2 times")
    assert explained.evidence[0].link == "fig3"
    assert explained.evidence[0].claim == "fig3-equal-time"


def test_what_is_measured_twice_is_said_once():
    row = by_name([])["deep-twice"]
    assert len(row.evidence) == 3
    assert row.measured == "not run: greedystep reproduce fig3"


def test_rules_that_came_after_the_runs_are_shown_as_such(results):
    claims = [claim for result in results.values() for claim in result["claims"] if claim["rule"]]
    late = {claim["id"] for claim in claims if verdicts.is_late(claim["rule"])}
    said = "after (the (first )?(runs|trainings|code)|a change of the agent)"
    assert {claim["id"] for claim in claims if re.search(said, claim["rule"])} == late
    assert {"fig3-same-level-pong", "protocol-mixed-comparison", "horizon-double", "released-drawing"} <= late
    assert not late & {"fig3-twice-breakout", "protocol-twice", "evaluation-overestimation"}
