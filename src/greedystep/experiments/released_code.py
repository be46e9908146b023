"""The code that the paper's authors released: which learning targets it computes, and which steps it trains on.

The repository github.com/QINGYWuuu/Greedy_Step_DQN is of 2021-09-14 and for Atari. Here stands what its learner and
its memory compute, in our own words and NumPy. Three facts follow from reading alone:

- The first public version (commit e8d199f) has Maxmin's ensemble, with Double DQN's choice of actions; the last one
  (f7b844e) has no ensemble, and Double DQN as an option.
- Neither stores parts of episodes, and both count every end of an episode as terminal.
- Both evaluate at ε = 0, where published curves of DQN and Maxmin DQN are returns of training episodes at ε = 0.1.

The rules were written after the code was read, when the outcome was known: the experiment shows it with numbers, and
would notice if the functions below said something else.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from greedystep import figures
from greedystep.charts import BLACK, BLUE, GREEN, GREY, ORANGE
from greedystep.experiments.claims import Claim, Verdict, judged, rule_text, verdict_if
from greedystep.returns import greedy_step
from greedystep.runs.progress import ReportProgress
from greedystep.tables import Table

NAME = "released"
TITLE = "The code that the authors released: its learning targets, and how often it trains on a step"

SCALES = {"quick": {"episodes": 1_000, "draws": 100_000}, "paper": {"episodes": 10_000, "draws": 1_000_000}}
"""Scale -> random episodes for each kind of values, and how often an episode is drawn."""
SEED = 0
RELATIVE, ABSOLUTE = 1e-9, 1e-12
"""Targets that differ by no more than this are the same: sums of rewards are added up in another order."""
LOWEST = {"not negative": 0.0, "of both signs": -3.0}
"""Kind of values -> the least reward and value of a random episode; the largest is 3."""
LENGTHS = tuple(2**k for k in range(4, 12))
"""Steps of the stored episodes that are drawn from, one of each length."""
FEWEST_ROWS = 11
"""An episode of fewer rows (one per observation, so one more than steps) is drawn again."""
EQUAL = 0.1
"""Relative difference up to which two steps count as trained on equally often."""
EVALUATION = (
    "The released code evaluates at ε = 0; published curves of DQN and Maxmin DQN are returns of training episodes at "
    "ε = 0.1. What that is worth is measured in fig3 and evaluation."
)

FIRST, LAST = "first version (e8d199f)", "last version (f7b844e)"


# -- learning targets -------------------------------------------------------------------------------------------------


def first_version(rewards: np.ndarray, next_values: np.ndarray, discount: float) -> np.ndarray:
    """Return the targets [T] of an episode in the first public version.

        Mᵢᵢ = rᵢ + γ V(sᵢ₊₁),    Mᵢⱼ = γ Mᵢ₊₁ⱼ for j > i,    target of step j: maxᵢ Mᵢⱼ = maxᵢ γ^(j-i) (rⱼ + γ V(sⱼ₊₁))

    Rewards are not summed, and the maximum is over the rows i ≤ j instead of the columns j ≥ i. So it compares a
    one-step target with the same number discounted: it is the one-step target unless that is negative, and γ^j times
    the one-step target if it is.

    Args:
        rewards: [T].
        next_values: [T], V(s[t+1]), 0 in the last place, where the episode is over.
        discount: γ.
    """
    return _complete_rows(np.diag(rewards + discount * next_values), discount).max(axis=0)


def last_version(rewards: np.ndarray, next_values: np.ndarray, discount: float) -> np.ndarray:
    """Return the targets [T] of an episode in the last public version.

        Mᵢᵢ = rᵢ + γ V(sᵢ₊₁),    Mᵢⱼ = rᵢ + γ Mᵢ₊₁ⱼ for j > i,    target of step i: maxⱼ Mᵢⱼ

    Mᵢⱼ is the n-step return with n = j - i + 1, so the target is the greedy-step return (Eq. 6) without a limit of n.
    Arguments as in `first_version`.
    """
    matrix = np.triu(np.ones((len(rewards), len(rewards)))) * rewards[:, None]
    return _complete_rows(matrix + np.diag(discount * next_values), discount).max(axis=1)


def _complete_rows(matrix: np.ndarray, discount: float) -> np.ndarray:
    """Add γ times the next row to each row of [T, T], the last ones first; entries j < i do not exist."""
    for i in range(len(matrix) - 2, -1, -1):
        matrix[i] += discount * matrix[i + 1]
        matrix[i + 1, : i + 1] = -np.inf
    return matrix


def one_step(rewards: np.ndarray, next_values: np.ndarray, discount: float) -> np.ndarray:
    """Return rₜ + γ V(sₜ₊₁), [T]; arguments as in `first_version`."""
    return rewards + discount * next_values


def greedy(rewards: np.ndarray, next_values: np.ndarray, discount: float) -> np.ndarray:
    """Return this library's greedy-step returns [T] of a terminated episode; arguments as in `first_version`."""
    discounts = np.append(np.full(len(rewards) - 1, discount), 0.0)
    return greedy_step(rewards, discounts, next_values).returns


def random_episode(random: np.random.Generator, lowest: float) -> tuple[np.ndarray, np.ndarray, float]:
    """Return rewards and next values [T] of a terminated episode of 1 to 29 steps, uniform up to 3, and a discount."""
    length = int(random.integers(1, 30))
    rewards, next_values = random.uniform(lowest, 3, (2, length))
    next_values[-1] = 0.0
    return rewards, next_values, float(random.choice([0.5, 0.9, 0.99]))


# -- drawing ----------------------------------------------------------------------------------------------------------


def draw_by_row(lengths: np.ndarray, draws: int, random: np.random.Generator) -> np.ndarray:
    """Return how often each episode [E] is drawn as in the released code: the one in which a random row lies.

    An episode of L steps has L + 1 rows. One of fewer than `FEWEST_ROWS` rows is drawn again, so it is never used.
    """
    rows = np.asarray(lengths) + 1
    weights = np.where(rows < FEWEST_ROWS, 0, rows)
    return random.multinomial(draws, weights / weights.sum())


def draw_alike(lengths: np.ndarray, draws: int, random: np.random.Generator) -> np.ndarray:
    """Return how often each episode [E] is drawn if all are equally likely, as in `ReplayBuffer.sample_episodes`."""
    return random.multinomial(draws, np.full(len(lengths), 1 / len(lengths)))


def frequency(lengths: np.ndarray, drawn: np.ndarray) -> np.ndarray:
    """Return how often a step of each episode [E] is trained on, relative to the mean over all stored steps.

    Whoever draws an episode trains on each of its steps once: kₑ ΣL / Σ k L for kₑ drawings of episode e.
    """
    return drawn * np.sum(lengths) / np.sum(drawn * lengths)


# -- the experiment ---------------------------------------------------------------------------------------------------


def run(scale: str, progress: ReportProgress) -> dict[str, Any]:
    random, episodes, draws = np.random.default_rng(SEED), SCALES[scale]["episodes"], SCALES[scale]["draws"]
    rows = []
    for place, (kind, lowest) in enumerate(LOWEST.items()):
        progress(place / len(LOWEST), f"random episodes with values {kind}")
        rows += _compare([random_episode(random, lowest) for _ in range(episodes)], kind)
    lengths = np.array(LENGTHS)
    frequencies = {name: frequency(lengths, draw(lengths, draws, random)) for name, draw in DRAWINGS.items()}
    drawing = [
        {"steps": steps} | {name: float(often[e]) for name, often in frequencies.items()}
        for e, steps in enumerate(LENGTHS)
    ]
    about = {"scale": scale, "seed": SEED, "random episodes per kind of values": episodes, "drawings": draws}
    return {
        "title": TITLE,
        "settings": about | {"evaluation": EVALUATION},
        "numbers": {"targets": rows, "example": _example(), "drawing": drawing},
        "claims": [asdict(claim) for claim in claims(rows, drawing)],
    }


VERSIONS = {FIRST: first_version, LAST: last_version}
DRAWINGS = {"released": draw_by_row, "ours": draw_alike}


def _compare(episodes: list[tuple[np.ndarray, np.ndarray, float]], kind: str) -> list[dict[str, Any]]:
    """Return for our greedy-step returns and each version in how many episodes its targets differ from ours."""
    references = {"one-step": one_step, "greedy-step": greedy}
    rows = []
    for name, targets in {"greedy-step": greedy, **VERSIONS}.items():
        differ = dict.fromkeys(references, 0)
        for episode in episodes:
            made = targets(*episode)
            for reference, ours in references.items():
                differ[reference] += not np.allclose(made, ours(*episode), rtol=RELATIVE, atol=ABSOLUTE)
        rows.append({"targets": name, "values": kind, "episodes": len(episodes), "differ from": differ})
    return rows


def _example() -> dict[str, list[float]]:
    """Return all targets of an episode of 24 steps that pays 1 in the middle and at the end, γ = 0.9, V in [0, 0.5]."""
    rewards, next_values = np.zeros(24), np.random.default_rng(SEED).uniform(0, 0.5, 24)
    rewards[[11, 23]], next_values[-1] = 1.0, 0.0
    every = {"one-step": one_step, "greedy-step": greedy, **VERSIONS}
    made = {name: targets(rewards, next_values, 0.9).tolist() for name, targets in every.items()}
    return {"rewards": rewards.tolist(), "next_values": next_values.tolist()} | made


# -- claims -----------------------------------------------------------------------------------------------------------


def claims(rows: list[dict[str, Any]], drawing: list[dict[str, Any]]) -> list[Claim]:
    """Judge what the two versions compute, and how often steps are trained on."""
    return [_looks_ahead(rows), _is_greedy_step(rows), _equally_often(drawing)]


WHERE = "not in the paper; the released code"
TESTS = "tests/test_released_code.py"


def _looks_ahead(rows: list[dict[str, Any]]) -> Claim:
    found = {row["targets"]: row for row in rows if row["values"] == "not negative"}
    differ, could = (found[name]["differ from"]["one-step"] for name in (FIRST, "greedy-step"))
    of = f"{found[FIRST]['episodes']:,} random episodes"
    return judged(
        "released-first-looks-ahead",
        "The targets of the first public version, the one with the Maxmin ensemble, look more than one step ahead.",
        WHERE,
        "more than one step",
        f"without negative values they differ from the one-step targets in {differ:,} of {of}, greedy-step returns in "
        f"{could:,}",
        _ahead(differ, could),
        "the maximum is over the rows of its matrix, of which the one-step target is the largest, not over its "
        f"columns ({TESTS}::test_the_first_version_has_the_one_step_target_where_values_are_not_negative)",
        f"differ from one-step targets in {differ:,} of {of}",
        rule_text(_ahead),
    )


def _ahead(differ: int, could: int) -> Verdict:
    """By random episodes without negative values, in which looking ahead can only raise a target.

    Confirmed if its targets differ from the one-step targets in as many episodes as greedy-step returns do, partly if
    in fewer, refuted if in none. The rule was written after the code was read, when the outcome was known.
    """
    return "refuted" if differ == 0 else "confirmed" if differ >= could else "partly"


def _is_greedy_step(rows: list[dict[str, Any]]) -> Claim:
    found = [row for row in rows if row["targets"] == LAST]
    differ, episodes = sum(row["differ from"]["greedy-step"] for row in found), sum(row["episodes"] for row in found)
    measured = f"differ in {differ:,} of {episodes:,} random episodes"
    return judged(
        "released-last-is-greedy-step",
        "The targets of the last public version, which has no ensemble any more, are greedy-step returns.",
        WHERE,
        "the same",
        f"{measured}, half of them with values of both signs",
        _same(differ, episodes),
        brief=measured,
        rule=rule_text(_same),
    )


def _same(differ: int, episodes: int) -> Verdict:
    """Confirmed if its targets are those of this library up to rounding in all random episodes, partly if in some.

    Refuted if in none. The rule was written after the code was read, when the outcome was known.
    """
    return "confirmed" if differ == 0 else "refuted" if differ == episodes else "partly"


def _equally_often(drawing: list[dict[str, Any]]) -> Claim:
    shortest, longest = drawing[0], drawing[-1]
    times, ours = (longest[name] / shortest[name] for name in DRAWINGS)
    long, short = f"an episode of {longest['steps']:,} steps", f"one of {shortest['steps']:,}"
    return judged(
        "released-drawing",
        "The released code trains on each stored step equally often.",
        WHERE,
        "equally often",
        f"on a step of {long} {times:.0f} times as often as on a step of {short}; {ours:.2f} times if every episode is "
        "drawn equally often",
        _equal(times),
        "it draws an episode by drawing one of its rows and takes all its steps, so that each counts in proportion to "
        f"the length ({TESTS}::test_episodes_drawn_by_a_random_step_are_trained_on_by_the_square_of_their_length)",
        f"{times:.0f} times as often in {long} as in {short}",
        rule_text(_equal),
    )


def _equal(times: float) -> Verdict:
    """By simulated drawings from eight episodes: how often a step of the longest and one of the shortest is trained on.

    Confirmed if their ratio is 1 within a tenth, refuted if not. The rule was written after the code was read, when the
    outcome was known.
    """
    return verdict_if(abs(times - 1) <= EQUAL)


# -- figures and tables -----------------------------------------------------------------------------------------------


@figures.style()
def draw(result: dict[str, Any]) -> dict[str, Figure]:
    """Draw the targets of one episode, and how often a step is trained on by the length of its episode."""
    figure, (left, right) = figures.panels(1, 2, width_ratios=[1.25, 1])
    figure.set_size_inches(11.0, 4.8)
    _draw_example(left, result["numbers"]["example"])
    _draw_frequencies(right, result["numbers"]["drawing"])
    return {NAME: figure}


def _draw_example(axis: Axes, example: dict[str, list[float]]) -> None:
    steps = np.arange(len(example["rewards"]))
    axis.plot(steps, example["greedy-step"], "-", color=ORANGE, label="greedy-step returns")
    axis.plot(steps, example["one-step"], "-", color=BLUE, label="one-step targets")
    for name, marker, label in ((LAST, "s", "released, last version"), (FIRST, "o", "released, first version")):
        axis.plot(steps, example[name], marker, color=BLACK, fillstyle="none", markersize=6, label=label)
    for step in np.flatnonzero(example["rewards"]).tolist():
        axis.axvline(step, color=GREY, linewidth=1, linestyle=":")
        axis.annotate("reward 1", (step, 1.01), xycoords=("data", "axes fraction"), ha="center", fontsize="small")
    axis.set(xlabel="step of the episode", ylabel="target", ylim=0)
    axis.set_title("Learning targets of one episode", pad=18)
    _legend_below(axis)


def _draw_frequencies(axis: Axes, drawing: list[dict[str, Any]]) -> None:
    lengths = [row["steps"] for row in drawing]
    styles = {
        "ours": ("o-", GREEN, "greedystep: draws every episode equally often"),
        "released": ("s--", BLACK, "released: draws the episode of a random row"),
    }
    for name, (form, colour, label) in styles.items():
        axis.plot(lengths, [row[name] for row in drawing], form, color=colour, fillstyle="none", label=label)
    axis.set_xscale("log", base=2)
    axis.set_yscale("log")
    axis.set_xticks(lengths, [f"{length:,}" for length in lengths])
    ticks = [0.01, 0.03, 0.1, 0.3, 1, 3]
    axis.set_yticks(ticks, [f"{tick:g}" for tick in ticks])
    axis.set_yticks([], minor=True)
    axis.set(xlabel="steps of its episode", ylabel="times the mean over all stored steps", ylim=(0.008, 3))
    axis.set_title("How often a step is trained on", pad=18)
    _legend_below(axis)


def _legend_below(axis: Axes) -> None:
    axis.legend(loc="upper center", bbox_to_anchor=(0.5, -0.14), ncols=2 if len(axis.lines) > 2 else 1)


def tables(result: dict[str, Any]) -> list[Table]:
    """Return in how many episodes the targets differ from one-step targets and from greedy-step returns."""
    rows = [
        {name: row[name] for name in ("targets", "values", "episodes")}
        | {f"differ from {reference}": number for reference, number in row["differ from"].items()}
        for row in result["numbers"]["targets"]
    ]
    title = "Random episodes in which the targets differ from one-step targets and from greedy-step returns"
    return [Table.from_records(NAME, title, rows)]
