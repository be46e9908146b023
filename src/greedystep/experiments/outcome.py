"""The outcome on one page: what the report and the README say first, in one paragraph, one figure and ten rows.

Words are typed here, numbers never: a {claim id} in a text stands for what the experiment measured for that claim
(`Claim.brief`), {claim id:means} for the means of several tasks without their names, and a sentence is chosen by the
verdict that its claims have together. So new results change the page without a change of this file. What was not run
says so.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from greedystep.experiments.claims import Verdict, together
from greedystep.experiments.sentence_verdicts import experiment_of
from greedystep.tables import cell

FIGURE = "outcome"
"""The one figure, by the name of its files; `outcome_figure` draws it from the results of fig3 and protocol."""
CAPTION = (
    "Final return of Greedy-Step DQN relative to the best of the paper's four baselines, with 95 % CIs over seeds. "
    "Filled: training returns of both. Hollow: its greedy play (ε = 0) over the baseline's training return (ε = 0.1). "
    "Returns of Pong and MountainCar are negative and have no ratio."
)


@dataclass(frozen=True)
class Headline:
    """One row of the first page: what the paper says, and the claims that test it."""

    id: str
    says: str
    """What the paper says, in a few words."""
    measured: str
    """What was measured; every {claim id} is replaced by the claim's `brief`."""
    claims: tuple[str, ...]
    """The claims that decide the row, together."""


HEADLINES = (
    Headline(
        "twice",
        "Almost twice the return of the best baseline on Breakout, Seaquest and Space Invaders",
        "{protocol-twice} times with the paper's own protocol; Breakout {fig3-twice-breakout}, Seaquest "
        "{fig3-twice-seaquest}, Space Invaders {fig3-twice-space-invaders} times with 64 environments",
        ("protocol-twice", "fig3-twice-breakout", "fig3-twice-seaquest", "fig3-twice-space-invaders"),
    ),
    Headline(
        "samples",
        "Baselines need more than twice the samples on Pong, MountainCar and Freeway",
        "steps of the baselines over its own: Pong {fig3-half-the-samples-pong}, MountainCar "
        "{fig3-half-the-samples-mountaincar}, Freeway {fig3-half-the-samples-freeway}",
        ("fig3-half-the-samples-pong", "fig3-half-the-samples-mountaincar", "fig3-half-the-samples-freeway"),
    ),
    Headline(
        "state-of-the-art",
        "State of the art",
        "ahead of the nine other methods on {fig3-state-of-the-art}",
        ("fig3-state-of-the-art",),
    ),
    Headline(
        "time",
        "Almost the training time of DQN",
        "{fig3-equal-time}; six cost more with the paper's own protocol",
        ("fig3-equal-time",),
    ),
    Headline(
        "networks",
        "Several target networks reduce its over-estimation",
        "Q minus behaviour return from one network to six: {fig4-overestimation}",
        ("fig4-overestimation",),
    ),
    Headline(
        "steps",
        "The chosen step n falls during training",
        "mean n, first to last: {fig5-larger-at-first}",
        ("fig5-larger-at-first",),
    ),
    Headline(
        "delay",
        "Trace Back is solved in about 20 episodes at any delay, because of looking ahead",
        "{fig2-twenty-episodes}, depending on the exploration rate; one-step backups from the end need "
        "{fig2-because-of-looking-ahead}",
        ("fig2-twenty-episodes", "fig2-because-of-looking-ahead"),
    ),
    Headline(
        "converges",
        "Converges to Q* for any behaviour policies, without correction",
        "contraction violated in {lemma-1-contraction}",
        ("lemma-1-contraction", "theorem-1", "table1-no-correction"),
    ),
    Headline(
        "faster",
        "Always at least as fast as one-step value iteration",
        "slower in {theorem-4}",
        ("theorem-4",),
    ),
    Headline(
        "any-data",
        "Data of any policy are safe to learn from",
        "values are off {sampled-safe}",
        ("sampled-safe",),
    ),
)
"""The rows of the first page, the most important first."""


@dataclass(frozen=True)
class Passage:
    """A sentence of the first paragraph, by the verdict that its claims have together."""

    claims: tuple[str, ...]
    says: Mapping[Verdict, str]
    """Verdict -> sentence; a verdict without one leaves the sentence out."""


TWICE = HEADLINES[0].claims
ALMOST_TWICE = "almost twice the return of the best baseline"
RATIOS = (
    "with the paper's own protocol Greedy-Step DQN gets {protocol-twice:means} times as much on Breakout, Seaquest and "
    "Space Invaders"
)
MIXED = (
    "the released code plays greedily (ε = 0), published baselines are training curves (ε = 0.1), and our own results, "
    "compared in that way, give {protocol-mixed-comparison:means} times"
)
MORE = (
    "with 64 environments its Q exceeds the return of greedy play by {evaluation-overestimation:means} more than DQN's "
    "does"
)

PARAGRAPH = (
    Passage(
        ("lemma-1-contraction", "theorem-1"),
        {
            "confirmed": "With an exact model Greedy-Step converges to Q* whatever the behaviour policies, as the "
            "paper proves.",
            "refuted": "Greedy-Step does not always converge to Q* (contraction violated in {lemma-1-contraction}).",
        },
    ),
    Passage(
        TWICE,
        {
            "refuted": f"With networks its headline, {ALMOST_TWICE}, is not reproduced: {RATIOS}.",
            "partly": f"With networks its headline, {ALMOST_TWICE}, is reproduced in part: {RATIOS}.",
            "undecided": f"Whether its headline with networks, {ALMOST_TWICE}, holds is undecided: {RATIOS}.",
            "confirmed": f"With networks its headline, {ALMOST_TWICE}, is reproduced: {RATIOS}.",
        },
    ),
    Passage(
        ("protocol-twice-greedy-play",),
        dict.fromkeys(
            ("confirmed", "partly", "undecided", "refuted"),
            "If both play greedily, it gets {protocol-twice-greedy-play:means} times.",
        ),
    ),
    Passage(
        ("protocol-mixed-comparison", "fig3-mixed-comparison"),
        {
            "refuted": f"What is compared does not explain the difference: {MIXED}.",
            "undecided": f"Whether what is compared explains the difference is undecided: {MIXED}.",
            "partly": f"What is compared may explain part of the difference: {MIXED}.",
            "confirmed": f"What is compared may explain the difference: {MIXED}.",
        },
    ),
    Passage(
        ("evaluation-overestimation",),
        {
            "confirmed": f"Over-estimation is a likely reason why it is behind: {MORE}.",
            "partly": f"Over-estimation may be a reason why it is behind, but not on every game: {MORE}.",
            "refuted": f"Over-estimation is not the reason why it is behind: {MORE}.",
        },
    ),
    Passage(
        ("fig3-like-published",),
        dict.fromkeys(
            ("confirmed", "partly", "undecided"),
            "By its mean return our DQN learns about as much as the published one on {fig3-like-published} games of "
            "MinAtar, with the paper's own protocol on {protocol-like-published}.",
        ),
    ),
    Passage(
        ("auto-as-good",),
        dict.fromkeys(
            ("confirmed", "partly", "undecided"),
            "With one setting for all tasks, our default agent (auto) scores {auto-as-good}, where 1 is the fixed "
            "setting that two seeds chose for the task.",
        ),
    ),
)
"""The first paragraph."""


# -- with the numbers of results --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Row:
    """A row of the first page with its numbers."""

    id: str
    says: str
    measured: str
    verdict: Verdict
    claims: tuple[str, ...]
    explained: tuple[str, ...]
    """Those of the claims that say why they fail."""


def paragraph(results: Iterable[Mapping[str, Any]]) -> str:
    """Return the first paragraph; empty if no result has a claim that it speaks of."""
    known = _known(results)
    said = [one.says.get(_verdict(one.claims, known), "") for one in PARAGRAPH]
    return " ".join(fill(sentence, known) for sentence in said if sentence)


def rows(results: Iterable[Mapping[str, Any]]) -> list[Row]:
    """Return the rows of the first page of which at least one claim is among the results."""
    known, found = _known(results), []
    for one in HEADLINES:
        mine = [known[id] for id in one.claims if id in known]
        if mine:
            explained = tuple(claim["id"] for claim in mine if claim.get("reason"))
            verdict = _verdict(one.claims, known)
            found.append(Row(one.id, one.says, fill(one.measured, known), verdict, one.claims, explained))
    return found


def fill(text: str, claims: Mapping[str, Mapping[str, Any]]) -> str:
    """Replace every {claim id} by what was measured for that claim, in short.

    {claim id:means} has no intervals and no names of tasks: "0.60 and 0.30".
    """

    def short(match: re.Match[str]) -> str:
        id, form = match.groups()
        if id not in claims:
            return f"(not run: {experiment_of(id)})"
        measured = claims[id].get("brief") or cell(claims[id]["measured"])
        if form is None:
            return measured
        mean = re.sub(r" \([-\d.]+ to [-\d.]+\)", "", measured)
        means = re.findall(r"[A-Z][A-Za-z ]* (-?[\d.]*\d)", mean)
        return f"{', '.join(means[:-1])} and {means[-1]}" if len(means) > 1 else mean

    return re.sub(r"\{([\w-]+)(?::(means))?\}", short, text)


def _known(results: Iterable[Mapping[str, Any]]) -> dict[str, Mapping[str, Any]]:
    return {claim["id"]: claim for result in results for claim in result["claims"]}


def _verdict(ids: Sequence[str], claims: Mapping[str, Mapping[str, Any]]) -> Verdict:
    """Return the verdict of several claims together; untested while one of them is."""
    verdicts: list[Verdict] = [claims[id]["verdict"] if id in claims else "untested" for id in ids]
    return "untested" if "untested" in verdicts else together(verdicts)
