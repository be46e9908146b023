"""Every number of the first page, computed again from the kept JSON files with NumPy alone.

Nothing of greedystep is imported: what is typed here are the definitions, in the plainest form.
"""

import gzip
import json
import re
from pathlib import Path

import numpy as np
import pytest
from kept_results import KEPT, needs_kept_results

pytestmark = needs_kept_results

ROOT = Path(__file__).parents[1]
BASELINES = ("dqn", "maxmin", "multi-step", "sarsa")
GAMES = ("breakout", "seaquest", "space-invaders")
PUBLISHED = {"breakout": 10.3, "seaquest": 19.5, "space-invaders": 45.5, "freeway": 50.0, "asterix": 16.8}
"""DQN of Young & Tian (2019) after 5M steps, from MinAtar's README."""


def numbers(name):
    return json.loads((KEPT / f"{name}.json").read_text())["numbers"]


@pytest.fixture(scope="module")
def tasks():
    return numbers("fig3")["tasks"]


@pytest.fixture(scope="module")
def outcome():
    """The first page as the kept Markdown has it: the paragraph, and the rows by their first words."""
    paragraph, *rest = (KEPT / "outcome.md").read_text().split("\n\n")
    rows = [line.strip("| ").split(" | ") for line in "\n".join(rest).splitlines() if line.startswith("| ")]
    return paragraph, {row[0]: tuple(row[1:]) for row in rows[2:]}


def row_of(outcome, begins):
    (found,) = [row for says, row in outcome[1].items() if says.startswith(begins)]
    return found


def final(task, method):
    return np.array(task["methods"][method]["final"]["returns"], float)


def best_baseline(task):
    return max(BASELINES, key=lambda method: final(task, method).mean())


def bootstrap(statistic, *samples, resamples=20_000):
    """The 95 % percentile interval of a statistic of the resampled means."""
    rng = np.random.default_rng(12345)
    means = [one[rng.integers(len(one), size=(resamples, len(one)))].mean(axis=1) for one in samples]
    return np.percentile(statistic(*means), [2.5, 97.5])


def ratio(task):
    ours, theirs = final(task, "greedy-step"), final(task, best_baseline(task))
    return ours.mean() / theirs.mean(), *bootstrap(lambda a, b: a / b, ours, theirs)


def at_end(entry, quantity):
    """Mean over seeds and over the last tenth of the steps, from the mean curve."""
    steps, curve = np.array(entry["steps"]), np.array(entry["curves"][quantity]["estimate"], float)
    return np.nanmean(curve[steps > 0.9 * steps[-1]])


# -- the paragraph and its rows ---------------------------------------------------------------------------------------


def test_the_ratios_of_the_headline(outcome, tasks):
    paragraph, measured = outcome[0], row_of(outcome, "Almost twice")[0]
    expected = np.array([ratio(tasks[game]) for game in GAMES])
    fast, own = measured.split(" times with preset fast; ")
    assert own.endswith(" with the paper's own protocol")
    printed = intervals_in(fast)
    np.testing.assert_allclose(printed[:, 0], expected[:, 0], atol=0.0051)
    np.testing.assert_allclose(printed[:, 1:], expected[:, 1:], atol=0.011)  # both are resampled
    protocol = numbers("protocol")["tasks"]
    expected_own = np.array([ratio(protocol[game]) for game in GAMES])
    np.testing.assert_allclose(intervals_in(own)[:, 0], expected_own[:, 0], atol=0.0051)
    np.testing.assert_allclose(intervals_in(own)[:, 1:], expected_own[:, 1:], atol=0.02)
    said = re.search(r"gets ([\d.]+), ([\d.]+) and ([\d.]+) times the return", paragraph).groups()
    np.testing.assert_array_equal(np.array(said, float), printed[:, 0])
    assert row_of(outcome, "Almost twice")[1] == "refuted"
    assert (expected[:, 2] < 1.5).all()


def intervals_in(text):
    """[3, 3]: mean and interval of the three games, from text such as "Breakout 0.60 (0.56 to 0.63), Seaquest ..."."""
    found = re.findall(r"(Breakout|Seaquest|Space Invaders) ([\d.]+) \(([\d.]+) to ([\d.]+)\)", text)
    assert [game for game, *_ in found] == ["Breakout", "Seaquest", "Space Invaders"]
    return np.array([one for _, *one in found], float)


def means_in(pattern, paragraph):
    """The means of the three games, from text such as "0.60, 0.30 and 0.70"."""
    three = r"(-?[\d.]*\d), (-?[\d.]*\d) and (-?[\d.]*\d)"
    return [float(x) for x in re.search(pattern.replace("MEANS", three), paragraph).groups()]


def brief(experiment, id):
    """What the kept file says in short that was measured for a claim."""
    claims = json.loads((KEPT / f"{experiment}.json").read_text())["claims"]
    (found,) = [claim["brief"] for claim in claims if claim["id"] == id]
    return found


def test_the_ratios_with_the_papers_own_protocol(outcome):
    kept = numbers("protocol")["tasks"]
    trained = means_in("own protocol it gets MEANS times", outcome[0])
    played = [float(mean) for mean in re.findall(r"([\d.]+) \(", brief("protocol", "protocol-twice-greedy-play"))]
    for printed, quantity in ((trained, "returns"), (played, "greedy_play")):
        for game, times in zip(GAMES, printed, strict=True):
            methods = kept[game]["methods"]
            means = {method: np.mean(np.array(one["final"][quantity], float)) for method, one in methods.items()}
            assert all(len(one["final"][quantity]) == 5 for one in methods.values())
            assert all(one["steps"][-1] == 5_000_000 for one in methods.values())
            assert times == pytest.approx(means["greedy-step"] / max(means[one] for one in BASELINES), abs=0.0051)
        assert max(printed) < 1


def test_greedy_play_beside_training_returns(outcome, tasks):
    printed = means_in("greedy play of the best baseline gets MEANS times its own training return", outcome[0])
    said = brief("fig3", "fig3-greedy-beside-training")
    intervals = np.array(re.findall(r"\(([\d.]+) to ([\d.]+)\)", said), float)
    for game, times, interval in zip(GAMES, printed, intervals, strict=True):
        best = best_baseline(tasks[game])
        played = np.array(tasks[game]["methods"][best]["final"]["greedy_play"], float)
        trained = final(tasks[game], best)
        assert times == pytest.approx(played.mean() / trained.mean(), abs=0.0051)
        # Both are resampled, and Seaquest's seeds differ much.
        np.testing.assert_allclose(interval, bootstrap(lambda a, b: a / b, played, trained), atol=0.03)
        assert interval[0] > 1.5


def test_our_greedy_play_beside_training_returns(outcome, tasks):
    printed = means_in("our Greedy-Step DQN gets MEANS times in such a comparison", outcome[0])
    for game, times in zip(GAMES, printed, strict=True):
        played = np.array(tasks[game]["methods"]["greedy-step"]["final"]["greedy_play"], float)
        trained = final(tasks[game], best_baseline(tasks[game]))
        assert times == pytest.approx(played.mean() / trained.mean(), abs=0.0051)


@pytest.fixture(scope="module")
def evaluations():
    """Game -> method -> [seeds, (return of greedy play, Q minus it)]: means of the evaluations in the last tenth.

    From the trainings themselves, of which the JSON file names the settings and the seeds.
    """
    with gzip.open(KEPT / "parts" / "evaluation.jsonl.gz", "rt") as lines:
        next(lines)
        trained = [one for line in lines for one in json.loads(line)["lanes"] if "greedy" in one]

    def last_tenth(one):
        steps = np.array(one["greedy"]["step"])
        late = steps > 0.9 * one["steps"]
        assert late.sum() >= 3
        return [np.array(one["greedy"][name], float)[late].mean() for name in ("return", "overestimation")]

    return {
        game: {
            method: np.array(
                [
                    last_tenth(one)
                    for one in trained
                    if (one["task"], one["setting"]) == (game, entry["setting"]) and one["seed"] in entry["seeds"]
                ]
            )
            for method, entry in numbers("evaluation")["tasks"][game]["methods"].items()
        }
        for game in GAMES
    }


def test_greedy_play_beside_greedy_play(outcome, evaluations):
    printed = means_in("Where all methods play greedily it gets MEANS times", outcome[0])
    for times, methods in zip(printed, evaluations.values(), strict=True):
        assert set(methods) == {*BASELINES, "greedy-step"}
        assert {len(seeds) for seeds in methods.values()} == {5}
        played = {method: seeds[:, 0].mean() for method, seeds in methods.items()}
        assert times == pytest.approx(played["greedy-step"] / max(played[one] for one in BASELINES), abs=0.0051)
    assert max(printed) < 1


def test_over_estimation_beside_dqn(outcome, evaluations):
    sentence = "Over-estimation may be a reason, but not on every game: "
    printed = means_in(f"{sentence}Q minus the return of greedy play exceeds DQN's by MEANS", outcome[0])
    differences = [one["greedy-step"][:, 1].mean() - one["dqn"][:, 1].mean() for one in evaluations.values()]
    np.testing.assert_allclose(printed, differences, rtol=0.006)


def theorem(statement):
    rows = [row for row in numbers("table1")["theorems"] if row["statement"] == statement]
    (row,) = [row for row in rows if "definition" in row["operator"]]
    return row["violations"], row["trials"]


def test_counterexamples_are_counted(outcome):
    violations, trials = theorem("Lemma 1: |Gq-Gq'| <= γ |q-q'|")
    assert sum(violations.values()) == 0
    said = f"contraction violated in none of {2 * trials:,} MDPs"
    assert said in outcome[0]
    assert row_of(outcome, "Converges to Q*") == (said, "confirmed")
    violations, trials = theorem("Theorem 4: |Gq-Q*| <= |Bq-Q*|")
    below, _ = theorem("Theorem 4 with q <= Q*")
    assert violations["deterministic"] == sum(below.values()) == 0
    slower, verdict = row_of(outcome, "Always at least as fast")
    assert slower.startswith(f"slower in {violations['stochastic']} of {trials:,} stochastic MDPs; ")
    assert slower.endswith(f"; from q <= Q* in none of {2 * trials:,} MDPs")
    assert verdict == "refuted"


def test_the_error_of_the_sampled_operator(outcome):
    cases = next(one["cases"] for name, one in numbers("table1")["properties"].items() if "sampled" in name)
    errors = {kind: max(c["to_optimum"] for c in cases if c["deterministic"] == kind) for kind in (True, False)}
    assert errors[True] < 1e-6
    said, verdict = row_of(outcome, "Data of any policy")
    assert said == f"values are off by 0 in deterministic MDPs, by up to {errors[False]:.3g} in stochastic ones"
    assert verdict == "partly"


def over_estimation(name, *methods):
    """[games, methods]: Q minus the return of the behaviour policy at the end."""
    kept = numbers(name)["tasks"]
    return np.array([[at_end(kept[game]["methods"][one], "overestimation") for one in methods] for game in GAMES])


def test_over_estimation_by_networks(outcome):
    text, verdict = row_of(outcome, "Several target networks")
    printed = np.array(re.findall(r"([\d.]+) to ([\d.]+)", text), float)
    np.testing.assert_allclose(printed, over_estimation("fig4", "1 network", "6 networks"), rtol=0.006)
    assert (printed[:, 0] > printed[:, 1]).all()
    assert verdict == "confirmed"
    assert re.findall(r"Breakout|Seaquest|Space Invaders", text) == ["Breakout", "Seaquest", "Space Invaders"]
    returns = [numbers("fig4")["tasks"][game]["methods"] for game in GAMES]
    changes = [
        np.mean(np.array(one["6 networks"]["final"]["returns"], float))
        - np.mean(np.array(one["1 network"]["final"]["returns"], float))
        for one in returns
    ]
    printed = means_in("reduce over-estimation, as the paper says, and change the return by MEANS", outcome[0])
    np.testing.assert_allclose(printed, changes, rtol=0.006)


def test_our_dqn_beside_the_published_one(outcome, tasks):
    def near(tasks, games):
        ratios = [final(tasks[game], "dqn").mean() / PUBLISHED[game] for game in games]
        return f"{sum(1 / 1.25 <= one <= 1.25 for one in ratios)} of {len(ratios)}"

    own = near(numbers("protocol")["tasks"], GAMES)
    said = f"on {near(tasks, PUBLISHED)} games of MinAtar, with the paper's own protocol on {own}."
    assert said in outcome[0]


# -- the other rows ---------------------------------------------------------------------------------------------------


def normalised(task, role):
    """Final returns of all seeds, 0 at random play and 1 at the mean of the best fixed setting."""
    low, best = task["random_play"], final(task, "best of the task").mean()
    return (final(task, role) - low) / (best - low)


def middle_half(scores):
    """The mean of the middle half (IQM) of the scores of all tasks and seeds, on the last axis."""
    ordered = np.sort(scores, axis=-1)
    quarter = ordered.shape[-1] // 4
    return ordered[..., quarter : ordered.shape[-1] - quarter].mean(axis=-1)


def test_auto_beside_fixed_settings(outcome):
    everything = numbers("auto")["tasks"]
    trained = [task for task in everything.values() if "auto" in task["methods"]]
    ours, single = ([normalised(task, role) for task in trained] for role in ("auto", "best single"))
    means = [scores.mean() for scores in ours]
    below = [f"{task['title']} ({mean:.2f})" for task, mean in zip(trained, means, strict=True) if mean < 0.95]
    each = f"0.95 or more on {len(means) - len(below)} of {len(everything)} tasks"
    each += f", not on {', '.join(below)}" if below else ""
    assert f"it scores {each}." in outcome[0]
    gap = middle_half(np.concatenate(ours)) - middle_half(np.concatenate(single))
    rng = np.random.default_rng(12345)
    drawn = [
        middle_half(np.concatenate([one[rng.integers(len(one), size=(20_000, len(one)))] for one in scores], axis=1))
        for scores in (ours, single)
    ]
    said = re.findall(r"[\d.]+", brief("auto", "auto-better-than-single"))
    assert [float(number) for number in said] == pytest.approx(
        [gap, *np.percentile(drawn[0] - drawn[1], [2.5, 97.5])], abs=0.011
    )


def steps_to(entry, level):
    curve = np.array(entry["curves"]["returns"]["estimate"], float)
    reached = np.flatnonzero(curve >= level)
    return entry["steps"][reached[0]] if len(reached) else np.inf


def test_samples_to_the_level_of_greedy_step(outcome, tasks):
    said, verdict = row_of(outcome, "Baselines need more")
    for game, title in (("pong", "Pong"), ("mountaincar", "MountainCar"), ("freeway", "Freeway")):
        methods = tasks[game]["methods"]

        def first(method, methods=methods):
            curve = np.array(methods[method]["curves"]["returns"]["estimate"], float)
            return curve[np.isfinite(curve)][0]

        gains = {method: final(tasks[game], method).mean() - first(method) for method in methods}
        if gains["greedy-step"] < 0.1 * max(gains.values()):
            assert f"{title} (it has not learned)" in said
            continue
        times = []
        for share in (0.9, 0.95, 0.97):
            level = first("greedy-step") + share * gains["greedy-step"]
            mine = steps_to(methods["greedy-step"], level)
            for one in BASELINES:
                theirs, most = steps_to(methods[one], level), methods[one]["steps"][-1]
                times.append((min(theirs, most) / mine, theirs > most))
        (least, _), (most, is_bound) = min(times), max(times)
        assert f"{title} {least:.2g} to {'more than ' if is_bound else ''}{most:.2g}" in said
        assert least < 2
    assert verdict == "partly"


def test_state_of_the_art(outcome, tasks):
    ahead, judged = [], 0
    for task in tasks.values():
        steps = min(one["steps"][-1] for one in task["methods"].values())

        def level(method, task=task, steps=steps):
            one = task["methods"][method]
            known = one["final"]["levels"] | {str(one["steps"][-1]): one["final"]["returns"]}
            near = min(known, key=lambda at: abs(int(at) - steps))
            assert abs(int(near) - steps) <= 0.01 * steps
            return np.array(known[near], float)

        others = [method for method in task["methods"] if method != "greedy-step"]
        best = max(others, key=lambda method: level(method).mean())
        low, _ = bootstrap(lambda a, b: a - b, level("greedy-step"), level(best))
        judged += 1
        ahead += [task["title"]] if low > 0 else []
    assert row_of(outcome, "State of the art") == (
        f"ahead of all other methods on {len(ahead)} of {judged} tasks ({', '.join(ahead)})",
        "partly",
    )


def test_the_training_time(outcome):
    seconds = {name: np.array(one) for name, one in numbers("fig3")["times"]["seconds"].items()}

    def middle(ratios):
        ratios = np.sort(ratios)
        return ratios[len(ratios) // 4 : len(ratios) - len(ratios) // 4].mean()

    one, six = (middle(seconds[f"greedy-step, {m}"] / seconds["one-step, 1"]) for m in (1, 6))
    assert row_of(outcome, "Almost the training time") == (
        f"{one:.2f} times with one network, {six:.2f} with six (preset fast)",
        "confirmed",
    )


def test_the_chosen_steps(outcome):
    said, verdict = row_of(outcome, "The chosen step n")
    falls = []
    for task in numbers("fig5")["tasks"].values():
        entry = task["methods"]["greedy-step"]
        steps, n = np.array(entry["steps"]), np.array(entry["curves"]["n"]["estimate"], float)
        steps, n = steps[np.isfinite(n)], n[np.isfinite(n)]
        first, last = n[steps <= 100_000].mean(), n[steps > steps[-1] - 100_000].mean()
        falls.append(first > last)
        printed = re.search(rf"{task['title']} ([\d.]+) to ([\d.]+)", said)
        np.testing.assert_allclose([float(x) for x in printed.groups()], [first, last], rtol=0.006)
    assert verdict == ("confirmed" if all(falls) else "partly")


def test_episodes_on_trace_back(outcome):
    kept = numbers("fig2")
    rows = [row for row in kept["trace-back"] if row["method"] == "greedy-step"] + kept["exploration"]
    medians = [np.median(row["solved"]["trials"]) for row in rows]
    ratios = []
    for task in ("choice", "trace-back"):
        ours, theirs = ([r for r in kept[task] if r["method"] == name] for name in ("greedy-step", "backward"))
        ratios += [
            np.median(b["solved"]["trials"]) / np.median(a["solved"]["trials"])
            for a, b in zip(ours, theirs, strict=True)
        ]
    assert set(ratios) == {1.0}
    said, verdict = row_of(outcome, "Trace Back")
    assert said.startswith(f"{min(medians):.4g} to {max(medians):.4g} episodes, depending on the exploration rate; ")
    assert said.endswith(" need as many episodes")
    assert verdict == "partly"


# -- the figure, and where all this stands ----------------------------------------------------------------------------


def test_the_figure_shows_the_ratios(tasks):
    expected = [ratio(task) for task in tasks.values() if final(task, best_baseline(task)).mean() > 0]
    lines = [line.strip("| ").split(" | ") for line in (KEPT / "fig3-ratios.md").read_text().splitlines()]
    table = np.array([line[2:] for line in lines if len(line) == 5][2:], float)
    np.testing.assert_allclose(table[:, 0], np.array(expected)[:, 0], rtol=1e-3)
    np.testing.assert_allclose(table[:, 1:], np.array(expected)[:, 1:], atol=0.011)
    dots = re.findall(r'<use xlink:href="#(\w+)" x="([\d.]+)" y="([\d.]+)" style="fill: #d55e00', picture())
    across = np.array([float(x) for _, x, _ in dots])[: len(expected)]
    slope, start = np.polyfit(table[:, 0], across, 1)
    np.testing.assert_allclose(start + slope * table[:, 0], across, atol=0.05)  # each dot lies where its number says
    reference = re.search(r'<path d="M ([\d.]+) [\d.]+ \nL \1 [\d.]+ \n" [^>]*stroke: #777777', picture())
    assert abs(start + slope - float(reference[1])) < 0.05  # and the line is at 1


def picture():
    return (KEPT / "fig3-ratios.svg").read_text()


def test_readme_and_page_say_the_same(outcome):
    readme, page = ((ROOT / name).read_text() for name in ("README.md", "results/paper/report.html"))
    paragraph, rows = outcome
    assert paragraph in readme
    assert 1 <= len(rows) <= 10
    plain = re.sub(r"&#x27;", "'", page).replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")
    assert paragraph in plain
    for says, (measured, verdict) in rows.items():
        assert f"| {says} | {measured} | {verdict} |" in readme
        assert says in plain
        assert measured in plain
    assert "results/paper/fig3-ratios.png" in readme
