"""`greedystep reproduce offline`: logs, fits in lanes, what is kept, and what is said of made-up scores."""

import json
import zlib
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from deep_experiments import silent

import greedystep as gs
from greedystep import io
from greedystep.deep.cloning import UpdateRange
from greedystep.deep.config import DQNConfig
from greedystep.deep.learner import Learner
from greedystep.deep.offline import fit, in_lanes, pool_periods
from greedystep.deep.target_pool import pool_size
from greedystep.deep.targets import LaneHyperparams
from greedystep.envs.core import ObservationSpec
from greedystep.experiments import NOTHING, offline
from greedystep.experiments.offline.fit_methods import METHODS, method
from greedystep.experiments.offline.logs import OfflineTask, behaviour_return, cut_to, make_logs
from greedystep.experiments.offline.offline_claims import broad, claims, narrow, returns_on_data
from greedystep.replay import ReplayBuffer


def walk(length, reward=1.0):
    last = np.arange(length) == length - 1
    seen = np.random.default_rng(length).normal(size=(length + 1, 2)).astype(np.float32)
    return gs.Trajectory(seen, np.arange(length) % 2, np.full(length, reward), last, np.zeros(length, bool))


# -- logs and fits ----------------------------------------------------------------------------------------------------


def test_a_log_is_cut_to_its_steps_and_what_is_cut_short_is_truncated():
    log = cut_to([walk(3), walk(4), walk(5)], 5)
    assert [len(one) for one in log] == [3, 2]
    assert (log[0].terminated[-1], log[1].terminated[-1], log[1].truncated[-1]) == (True, False, True)
    np.testing.assert_array_equal(log[1].observations, walk(4).observations[:3])
    assert behaviour_return(log) == 3.0
    assert [len(one) for one in cut_to([walk(3), walk(4)], 7)] == [3, 4]


def test_logs_have_their_steps_and_their_share_of_random_actions(tmp_path):
    task = OfflineTask("CartPole", "classic/cartpole", "paper", 100, 300, 1, kinds=("random",))
    (log,) = make_logs(task, tmp_path).values()
    assert sum(map(len, log)) == 300
    assert {chance for one in log for chance in np.asarray(one.behaviour_prob)} == {0.5}
    again = make_logs(task, tmp_path)["random"]
    assert all((a.observations == b.observations).all() for a, b in zip(log, again, strict=True))


@pytest.mark.parametrize(("shape", "periods"), [((4,), 8), ((84, 84, 4), 2), ((1000, 1000, 4), 1)])
def test_the_pool_of_a_log_has_eight_periods_unless_its_observations_are_large(shape, periods):
    config = DQNConfig(target_period=40, batch_size=25)  # 1,000 samples per period
    buffer = ReplayBuffer(100_000, 1, shape, np.dtype(np.uint8))
    assert pool_periods(config, buffer) == periods
    assert pool_size(config, buffer, periods) == 1_000 * periods
    assert pool_size(config, ReplayBuffer(500, 1, shape, np.dtype(np.uint8)), periods) == 500
    assert pool_periods(DQNConfig(target_period=1_000, batch_size=25), buffer) == 1  # 25,000 samples are enough


def test_lanes_are_fits_of_their_own_and_empty_rows_of_a_buffer_do_not_count():
    config = DQNConfig(returns="one-step", hidden=(4,), batch_size=4, target_period=5)
    spec = ObservationSpec((2,), np.dtype(np.float32), -np.inf, np.inf)
    learner, log = Learner(config, spec, 2), [walk(3), walk(6)]
    buffer, replay = ReplayBuffer.from_episodes(log, 9, 2, spec.shape, spec.dtype, rows=40)
    assert buffer.rows == 40
    rows = buffer.read(replay, buffer.sample(jax.random.key(0), replay, 500))
    assert rows.is_step.all()
    keys = jax.random.split(jax.random.key(1), 3)
    numbers = (getattr(config, name) or 0.0 for name in LaneHyperparams._fields)
    hyperparams = LaneHyperparams(*(jnp.full(3, x, jnp.float32) for x in numbers))._replace(
        learning_rate=jnp.full(3, 0.01)
    )
    states, update_range = jax.vmap(learner.init)(keys), UpdateRange.of(0, 12, 12)
    together = in_lanes(fit, learner, buffer)(replay, update_range, states, hyperparams, keys, None)
    own = jax.tree.map(lambda x: x[2], (states, hyperparams, keys))
    alone = jax.jit(partial(fit, learner, buffer))(replay, update_range, *own, None)
    jax.tree.map(
        lambda x, y: np.testing.assert_allclose(x[2], y, rtol=1e-5, atol=1e-6),
        together.state.params,
        alone.state.params,
    )


# -- the experiment, with made-up fits --------------------------------------------------------------------------------


@pytest.fixture
def fits(monkeypatch):
    """Fits that take no time: a list of those made; BCQ reaches the expert's return, the rest half of it."""
    made = []

    class Fit:
        def __init__(self, task, setting, rows):
            self.task, self.setting = task, setting

        def run(self, log, on_piece):
            about = (self.task.title, tuple(self.setting.items()), log[0].rewards[0])
            made.append(about)
            on_piece(self.task.updates)
            best = 10.0 if self.setting["conservatism"] == "bcq" else 5.0
            # Fits run in threads: the noise must not depend on which of them comes first, nor on settings of them all.
            own = about[0], *(self.setting.get(x) for x in ("returns", "conservatism", "bcq_threshold")), about[2]
            noise = np.random.default_rng(zlib.crc32(repr(own).encode())).normal(size=self.task.seeds) * 0.1
            return {"returns": (best + noise).tolist(), "microseconds": 50.0, "device": "none", "loss": []}

    monkeypatch.setattr(offline, "LaneFit", Fit)
    returns = {"random": 0.0, "mixed": 0.5, "expert": 1.0}
    monkeypatch.setattr(
        offline, "make_logs", lambda task, folder: {kind: [walk(10, returns[kind])] for kind in task.kinds}
    )
    return made


def test_every_method_is_fitted_to_every_log_once(fits, tmp_path):
    one_task = len(METHODS) * 3
    result = offline.run("paper", silent, tmp_path, ["catcher"])
    assert len(fits) == len(set(fits)) == one_task == 48
    numbers = result["numbers"]
    assert len(numbers["logged_tasks"]["catcher"]["fits"]) == one_task
    assert f"Breakout: 0 of {one_task} fits are made" in numbers["missing"]
    assert not any(sentence.startswith("Catcher") for sentence in numbers["missing"])
    again = offline.run("paper", silent, tmp_path, NOTHING)
    assert len(fits) == one_task
    assert again["claims"] == result["claims"]
    next(tmp_path.glob("offline/catcher-mixed*.json")).write_text("{")
    mended = offline.run("paper", silent, tmp_path, ["catcher"])
    assert len(fits) == one_task + 1
    assert "counts as missing" in mended["numbers"]["problems"][0]
    assert not any(sentence.startswith("Catcher") for sentence in mended["numbers"]["missing"])


def test_figures_tables_and_claims_come_from_the_result_alone(fits, tmp_path):
    result = json.loads(io.to_json(offline.run("paper", silent, tmp_path, ["catcher", "cartpole"])))
    assert set(offline.draw(result)) == {"offline"}
    table, logs = offline.tables(result)
    assert len(table.rows) == 2 * 48
    assert len(logs.rows) == 2 * 3
    verdicts = {claim["id"]: claim["verdict"] for claim in result["claims"]}
    assert verdicts == {"offline-narrow": "confirmed", "offline-broad": "confirmed", "offline-greedy-step": "refuted"}
    scores = {row[2]: row[8] for row in table.rows if row[1] == "expert"}
    assert scores["one-step, bcq"] == pytest.approx(1.0, abs=0.2)
    assert scores["one-step, none"] == pytest.approx(0.5, abs=0.2)


def logged(**scores):
    """A task with scores by method on the random and on the expert log."""
    fits = [
        {"kind": kind, "method": method("one-step", name), "scores": seeds}
        for name, by_kind in scores.items()
        for kind, seeds in by_kind.items()
    ]
    return {"task": {"fits": fits}}


@pytest.mark.parametrize(
    ("kind", "without", "bcq", "verdict"),
    [
        ("expert", [0.1, 0.2, 0.15], [0.9, 1.0, 0.95], "confirmed"),
        ("expert", [0.1, 0.9, 0.15], [0.2, 0.9, 0.1], "undecided"),
        ("expert", [0.9, 1.0, 0.95], [0.1, 0.2, 0.15], "refuted"),
        ("random", [0.5, 0.51, 0.5], [0.5, 0.51, 0.5], "confirmed"),
        ("random", [0.5, 0.9, 0.1], [0.5, 0.9, 0.1], "confirmed"),  # the same seed by seed
        ("random", [0.5, 0.9, 0.1], [0.9, 0.1, 0.5], "undecided"),  # as good, but the CI reaches far below
        ("random", [0.5, 0.6, 0.55], [0.1, 0.2, 0.1], "refuted"),
    ],
)
def test_conservatism_is_judged_by_intervals_of_differences(kind, without, bcq, verdict):
    judge = narrow if kind == "expert" else broad
    assert judge(logged(none={kind: without}, bcq={kind: bcq})).verdict == verdict


@pytest.mark.parametrize(
    ("more", "verdict"), [(0.2, "confirmed"), (0.05, "undecided"), (0.01, "refuted"), (-0.2, "refuted")]
)
def test_a_difference_of_returns_must_be_large_enough_to_count(more, verdict):
    one_step = [0.5, 0.51, 0.49, 0.5]
    found = logged(bcq={"expert": one_step})
    name = method("greedy-step", "bcq")
    found["task"]["fits"].append({"kind": "expert", "method": name, "scores": [x + more for x in one_step]})
    claim = returns_on_data(found)
    assert claim.verdict == verdict
    assert "0.05" in claim.claimed


def test_nothing_is_judged_without_fits():
    assert {claim.verdict for claim in claims({})} == {"untested"}
