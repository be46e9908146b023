"""`greedystep tune`: studies that go on, here and on Ray, what is written, and what is refused."""

import json

import pytest
from deep_runs import SETTINGS, rows

from greedystep.cli import main
from greedystep.deep import tuning
from greedystep.deep.divergence import DivergedError
from greedystep.deep.tuning import SPACE, TuneConfig, Tuning

FIXED = {name: value for name, value in SETTINGS.items() if name not in ("returns", "target_period")}
WORDS = [f"--{name.replace('_', '-')}={value}" for name, value in (FIXED | {"hidden": 8}).items()]


def words(out, *more):
    about = ["--steps", "400", "--seeds", "2", "--out", str(out)]
    return ["tune", "classic/cartpole", *WORDS, *about, *map(str, more)]


def config(**changes):
    return TuneConfig("classic/cartpole", settings=FIXED, search=("learning_rate",), steps=400, **changes)


def silent(share, what):
    assert 0 <= share <= 1


def test_a_study_is_written_and_goes_on(tmp_path, capsys):
    out = tmp_path / "study"
    assert main(words(out, "--trials", "2", "--search", "learning_rate", "epsilon_end")) == 0
    said = capsys.readouterr().out
    first = json.loads((out / "tune.json").read_text())
    assert [trial["state"] for trial in first["trials"]] == ["complete"] * 2
    best = max(first["trials"], key=lambda trial: trial["score"])
    assert first["best"]["number"] == best["number"]
    assert f"trial {best['number']}, score {best['score']:.6g}" in said
    assert f"--learning-rate {best['params']['learning_rate']:.6g}" in said
    assert set(best["params"]) == {"learning_rate", "epsilon_end"}
    assert (out / "tune.png").read_bytes().startswith(b"\x89PNG")
    assert "epsilon_end" in first["importance"]
    for line in (out / "study.journal").read_text().splitlines():
        json.loads(line)
    assert {row["seed"] for row in rows(out / "trial0")} == {0, 1}
    assert main(words(out, "--trials", "3", "--search", "learning_rate", "epsilon_end")) == 0
    second = json.loads((out / "tune.json").read_text())
    assert second["trials"][:2] == first["trials"]
    assert len(second["trials"]) == 3
    assert main(words(out, "--trials", "3", "--search", "learning_rate")) == 2
    assert "holds a study of something else" in capsys.readouterr().err


def test_the_score_is_that_of_the_last_episodes(tmp_path):
    results = Tuning(tmp_path, config()).run(1, None, silent)
    found = rows(tmp_path / "trial0")
    per_seed = []
    for seed in (0, 1):
        own = [row for row in found if row["seed"] == seed]
        total = sum((row["episode_return"] or 0) * row["episodes"] for row in own)
        per_seed.append(total / sum(row["episodes"] for row in own))  # 400 steps have fewer than 100 episodes
    assert sum(row["episodes"] for row in found) < 200
    assert results["trials"][0]["score"] == pytest.approx(sum(per_seed) / 2)


def test_a_trial_that_was_stopped_is_finished_with_the_same_settings(tmp_path, monkeypatch):
    def interrupted(*arguments, folder, report):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(tuning, "train_seed", interrupted)
        with pytest.raises(KeyboardInterrupt):
            Tuning(tmp_path, config()).run(2, None, silent)
    begun = Tuning(tmp_path, config())._study().trials
    assert {trial.state.name for trial in begun} == {"RUNNING"}
    results = Tuning(tmp_path, config()).run(2, None, silent)
    assert [trial["state"] for trial in results["trials"]] == ["complete"] * 2
    assert results["trials"][0]["params"] == begun[0].params


def test_a_trial_that_fails_counts_until_the_study_goes_on(tmp_path, monkeypatch):
    def diverges(*arguments, folder, report):
        raise DivergedError("the loss was not finite")

    with monkeypatch.context() as patched:
        patched.setattr(tuning, "train_seed", diverges)
        Tuning(tmp_path, config()).run(2, None, silent)
    said = []
    results = Tuning(tmp_path, config()).run(2, None, lambda share, what: said.append(what))
    assert [trial["state"] for trial in results["trials"]] == ["fail"] * 2 + ["complete"] * 2
    assert said[0] == "0 of 2 trials are finished already"


def test_trials_run_side_by_side_on_ray(cluster, tmp_path, capsys):
    assert main(words(tmp_path / "study", "--trials", "2", "--on", "ray", "--search", "learning_rate")) == 0
    found = json.loads((tmp_path / "study" / "tune.json").read_text())
    assert [trial["state"] for trial in found["trials"]] == ["complete"] * 2
    assert found["trials"][0]["params"] != found["trials"][1]["params"]


def test_every_range_gives_settings_that_an_agent_takes():
    optuna = tuning.import_optuna()
    for env in ("classic/cartpole", "minatar/breakout"):
        for preset in ("paper", "fast"):
            made = TuneConfig(env, preset=preset, search=tuple(SPACE))
            study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0))
            for _ in range(5):
                made.suggest(study.ask())


@pytest.mark.parametrize(
    ("more", "sentence"),
    [
        (("--search", "speed"), "search: expected names among learning_rate"),
        (("--search", "batch_size"), "search: batch_size is given, so it cannot be searched as well"),
        (("--trials", "0"), "trials: expected"),
    ],
)
def test_what_is_refused(more, sentence, tmp_path, capsys):
    assert main(words(tmp_path / "study", *more)) == 2
    assert sentence in capsys.readouterr().err
    assert not (tmp_path / "study").exists()
