"""Training on the device: exact resume, seeds, lanes, boundaries of episodes, what the metrics mean."""

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from greedystep import checkpoint, envs
from greedystep.deep.config import MAX_ROUNDS, MAX_ROWS, DQNConfig
from greedystep.deep.device_loop import GPU_BLOCK
from greedystep.deep.divergence import DivergedError
from greedystep.deep.learner import UpdateInfo
from greedystep.deep.train_loop import epsilon_at, epsilon_greedy
from greedystep.deep.train_metrics import BINS, ChunkMetrics, EpisodeStats, bin_names, metrics_row
from greedystep.deep.trainer import RENUMBER_FROM, Trainer

TIME_COLUMNS = {"steps_per_second", "wall_seconds"}
SMALL = {
    "returns": "greedy-step",
    "hidden": (8,),
    "replay_size": 64,
    "batch_size": 8,
    "warmup": 40,
    "target_period": 30,
    "epsilon_steps": 100,
    "optimiser": "adam",
    "learning_rate": 1e-3,
    "log_every": 100,
}
"""A ring that wraps many times, and periods that end between rows of metrics."""


def trainer(seeds=(0,), limit=23, lane_hyperparams=None, hooks=None, **settings):
    env = envs.make("classic/mountaincar", limit=limit)
    return Trainer(DQNConfig(**SMALL | settings), env, seeds, lane_hyperparams=lane_hyperparams, **hooks or {})


def same(a, b):
    """Every array equal, bit for bit."""
    bits = [[np.asarray(x).tobytes() for x in map(plain, jax.tree.leaves(tree))] for tree in (a, b)]
    return bits[0] == bits[1]


def plain(x):
    return jax.random.key_data(x) if jnp.issubdtype(x.dtype, jax.dtypes.prng_key) else x


def without_time(rows):
    return [{k: v for k, v in row.items() if k not in TIME_COLUMNS} for row in rows]


# -- resume (SB3 #326, purejaxrl #22: stop, load and continue must be identical) ---------------------------------------


@pytest.mark.parametrize(
    "settings",
    [
        {"returns": "one-step"},
        {"returns": "greedy-step", "ensemble": 2},
        {"returns": "greedy-step", "num_envs": 2, "target_period": 40, "updates": 2, "double": True},
    ],
    ids=str,
)
def test_a_stopped_and_resumed_training_is_the_uninterrupted_one_bit_for_bit(settings, tmp_path):
    straight = trainer(**settings)
    rows = straight.run(400)

    first = trainer(**settings)
    begun = first.run(214)  # within a period and an episode, with a ring that has wrapped
    path = first.save(tmp_path)
    second = trainer(**settings)
    second.restore(path)
    ended = second.run(186)

    assert int(first.state.lanes.replay.newest[0, 0]) > SMALL["replay_size"]
    assert int(first.state.lanes.episode.length[0, 0]) > 0
    assert int(second.state.step) == 400
    assert same(straight.state, second.state)
    of_straight = [row for row in without_time(rows) if row["step"] != 300]
    of_resumed = [row for row in without_time(begun + ended) if row["step"] not in (214, 300)]
    assert of_straight == of_resumed
    assert second.seconds > first.seconds


def test_a_checkpoint_of_another_training_is_refused(tmp_path):
    one = trainer(returns="one-step")
    path = one.save(tmp_path)
    for other in (trainer(returns="one-step", seeds=[1]), trainer(returns="n-step")):
        with pytest.raises(ValueError, match=r"was saved by another training: its (seeds|config) is"):
            other.restore(path)


@pytest.mark.parametrize("optimiser", ["adam", "rmsprop", "centred-rmsprop"])
def test_a_checkpoint_with_the_names_of_earlier_versions_is_read_to_the_bit(optimiser):
    """Every array of the file is in the state, but for the update counts of RMSprop, which nothing needs."""
    path = Path(__file__).parent / "data" / f"dqn-former-names-{optimiser}.ckpt"
    one = Trainer.load(path)
    with path.open("rb") as file:
        stored = checkpoint._read_header(file, path)["leaves"]
        arrays = {leaf["name"]: file.read(leaf["bytes"]) for leaf in stored}
    if optimiser != "adam":
        arrays.pop("state.lanes.knowledge.averages.count")
    found = [np.asarray(plain(x)).tobytes() for x in jax.tree.leaves(one.state)]
    assert found == list(arrays.values())
    if optimiser == "adam":
        rows = one.run(30)
        assert [row["step"] for row in rows] == [100, 105]
        assert np.isfinite(rows[-1]["loss"])


def test_training_more_compiles_nothing_new_and_equals_training_at_once():
    at_once, in_parts = trainer(), trainer()
    at_once.run(250)
    for steps in (10, 100, 3, 137):
        in_parts.run(steps)
    assert same(at_once.state, in_parts.state)
    assert len(in_parts._programs) == 1


def test_chunks_end_at_multiples_of_log_every_and_rows_have_all_columns():
    one = trainer(seeds=[5, 6])
    one.run(30)
    chunks = list(one.chunks(200))
    assert [[row["step"] for row in rows] for rows in chunks] == [[100, 100], [200, 200], [230, 230]]
    assert [(row["lane"], row["seed"]) for row in chunks[0]] == [(0, 5), (1, 6)]
    expected = "step lane seed episode_return episode_length episodes loss mean_q mean_n share_n_above_1 n_histogram "
    expected += "overestimation target_age steps_per_second wall_seconds"
    assert list(chunks[0][0]) == expected.split()
    assert chunks[1][0]["episodes"] == 4  # a limit of 23 steps: ends at steps 115, 138, 161, 184
    assert chunks[1][0]["episode_return"] == chunks[1][0]["episode_length"] * -1 == -23


# -- seeds and lanes (purejaxrl #35: all seeds gave one curve) ---------------------------------------------------------


def test_lanes_are_the_trainings_that_their_seeds_give_alone_and_differ():
    together, alone = trainer(seeds=[3, 4]), trainer(seeds=[4])
    rows, own = together.run(200), alone.run(200)
    assert same(jax.tree.map(lambda x: x[1:], together.state.lanes), alone.state.lanes)
    assert [row["loss"] for row in rows if row["lane"] == 1] == [row["loss"] for row in own]
    first, second = (row["loss"] for row in rows if row["step"] == 200)
    assert first != second


def close(x, y):
    """Equal up to rounding, which differs with the sizes of products."""
    np.testing.assert_allclose(x, y, rtol=1e-4, atol=1e-6)


def test_hyperparameters_may_differ_between_lanes():
    settings = {"returns": "lambda", "seeds": [3, 3]}
    lane_hyperparams = {"learning_rate": [1e-3, 1e-2], "lambda_": [0.2, 0.9], "epsilon_end": [0.1, 0.5]}
    together = trainer(lane_hyperparams=lane_hyperparams, **settings)
    together.run(200)
    alone = trainer(returns="lambda", seeds=[3], learning_rate=1e-2, lambda_=0.9, epsilon_end=0.5)
    alone.run(200)
    assert same(jax.tree.map(lambda x: x[1:], together.state.lanes), alone.state.lanes)
    networks = together.params.layers[0].weight
    assert not (networks[0] == networks[1]).all()


@pytest.mark.parametrize("returns", ["n-step", "sarsa"])
def test_n_may_differ_between_lanes_and_a_checkpoint_knows_it(returns, tmp_path):
    settings = {"returns": returns, "loss": "squared"}
    together = trainer(n=7, seeds=[3, 3, 3], lane_hyperparams={"n": [1, 7, 4]}, **settings)
    together.run(200)
    for lane, n in enumerate((1, 7, 4)):
        alone = trainer(n=n, seeds=[3], **settings)
        alone.run(200)
        expected = alone.state.lanes.learner.params
        found = jax.tree.map(lambda x, lane=lane: x[lane : lane + 1], together.params)
        jax.tree.map(close, found, expected)
    one, seven, four = (together.params.layers[0].weight[lane] for lane in range(3))
    assert not (one == seven).all()
    assert not (seven == four).all()

    path = together.save(tmp_path)
    assert checkpoint.read_about(path)["numbers"]["n"] == [1, 7, 4]
    loaded, last = Trainer.load(path), Trainer.load(path, lane=2)
    assert last.config.n == 4
    for other in (together, loaded, last):
        other.run(50)
    assert same(together.state, loaded.state)
    assert "n" not in checkpoint.read_about(last.save(tmp_path / "last"))["numbers"]
    np.testing.assert_allclose(last.params.layers[0].weight[0], together.params.layers[0].weight[2], rtol=1e-4)


@pytest.mark.parametrize("numbers", [{}, {"n": [3, 1, 2]}], ids=["greedy-step", "n-step"])
def test_the_number_of_networks_may_differ_between_lanes_and_a_checkpoint_knows_it(numbers, tmp_path):
    env, config = envs.make("minatar/breakout"), {"returns": "n-step" if numbers else "greedy-step", "hidden": (8,)}
    config |= {"replay_size": 300, "warmup": 50, "target_period": 50, "batch_size": 8, "log_every": 100}
    seeds, numbers = [4, 4, 5], numbers | {"ensemble": [1, 3, 2]}
    of_lane = [{name: values[lane] for name, values in numbers.items()} for lane in range(3)]
    largest = {name: max(values) for name, values in numbers.items()}
    together = Trainer(DQNConfig(**largest, **config), env, seeds, lane_hyperparams=numbers)
    together.run(200)
    for lane, (seed, own) in enumerate(zip(seeds, of_lane, strict=True)):
        alone = Trainer(DQNConfig(**own, **config), env, [seed])
        alone.run(200)
        present = jax.tree.map(lambda x, lane=lane, count=own["ensemble"]: x[lane, :count], together.params)
        jax.tree.map(close, present, jax.tree.map(lambda x: x[0], alone.params))

    path = together.save(tmp_path)
    assert checkpoint.read_about(path)["numbers"]["ensemble"] == [1, 3, 2]
    loaded, last = Trainer.load(path), Trainer.load(path, lane=2)
    assert {name: getattr(last.config, name) for name in numbers} == of_lane[2]
    for other in (together, loaded, last):
        other.run(100)
    assert same(together.state, loaded.state)
    jax.tree.map(lambda x, y: close(x[0], y[2, :2]), last.params, together.params)


def test_lanes_that_train_all_networks_cannot_differ_in_their_number():
    env, config = envs.make("minatar/breakout"), DQNConfig(ensemble=2, ensemble_update="all", hidden=(8,))
    with pytest.raises(ValueError, match=r"^lane_hyperparams: lanes of this agent cannot differ in ensemble$"):
        Trainer(config, env, [0, 1], lane_hyperparams={"ensemble": [1, 2]})


def test_one_step_returns_are_n_step_returns_with_n_1():
    one_step, n_step = trainer(returns="one-step"), trainer(returns="n-step", n=1)
    assert without_time(one_step.run(100)) == without_time(n_step.run(100))


@pytest.mark.parametrize("returns", ["one-step", "greedy-step", "auto"])
def test_blocks_of_rounds_are_the_rounds_one_by_one(returns):
    """GPUs run blocks of static length; no test has a GPU, so that the blocks themselves are compared here."""
    one = trainer(returns=returns, warmup=40, target_period=20)
    arguments = (jnp.int32(0), one.state.lanes, one.hyperparams, jnp.int32(130))
    expected, by_tens = (jax.jit(one._run_lanes, static_argnames="block")(*arguments, block=b) for b in (1, 10))
    assert same(expected, by_tens)


def test_a_gpu_runs_blocks_only_where_all_parts_of_the_training_are_multiples(monkeypatch):
    fits, odd = trainer(warmup=100, target_period=50), trainer(warmup=100, target_period=60)
    assert fits._block(200) == 1
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    assert [one._block(end) for one, end in ((fits, 200), (fits, 170), (odd, 200))] == [GPU_BLOCK, 1, 1]
    assert [fits.loop.block(begin, 300) for begin in (50, 30)] == [GPU_BLOCK, 1]


@pytest.mark.parametrize(
    ("lane_hyperparams", "message"),
    [
        (
            {"discount": [0.9]},
            "^lane_hyperparams: expected names among .*, got 'discount'$",
        ),
        ({"gate": [0.9]}, "^lane_hyperparams: returns='greedy-step' has no gate$"),
        ({"n": [3]}, "^lane_hyperparams: returns='greedy-step' has no n$"),
        ({"learning_rate": [0.1, 0.2]}, "^lane_hyperparams: expected 1 values of learning_rate"),
        ({"learning_rate": [-0.1]}, r"^learning_rate: expected a number in \[1.17549e-38, 3.40282e\+38\], got -0.1$"),
    ],
)
def test_lane_hyperparameters_that_make_no_sense_are_refused(lane_hyperparams, message):
    with pytest.raises(ValueError, match=message):
        trainer(lane_hyperparams=lane_hyperparams)


def test_no_lane_has_a_larger_n_than_the_config():
    with pytest.raises(ValueError, match=r"^lane_hyperparams: n above that of the config, 3: 4$"):
        trainer(returns="n-step", n=3, lane_hyperparams={"n": [4]})


@pytest.mark.parametrize("seed", [-1, 2**32, 0.5, True])
def test_seeds_are_whole_numbers(seed):
    with pytest.raises(ValueError, match=r"^seed: expected an integer"):
        trainer(seeds=[seed])


# -- divergence -------------------------------------------------------------------------------------------------------


def test_a_loss_that_is_not_finite_stops_with_its_step_and_keeps_the_checkpoint(tmp_path):
    settings = {"returns": "one-step", "loss": "squared", "optimiser": "rmsprop"}
    one = trainer(learning_rate=1e30, **settings)
    one.run(40)
    path = one.save(tmp_path)
    with pytest.raises(DivergedError, match=r"^the loss of lane 0 \(seed 0\) was not finite at step (4|5)\d:"):
        one.run(160)
    assert checkpoint.latest(tmp_path) == path
    fresh = trainer(learning_rate=1e30, **settings)
    fresh.restore(path)
    assert int(fresh.state.step) == 40


def test_a_trainer_with_a_hook_goes_on_and_reports_each_diverged_lane_once():
    found = []
    lane_hyperparams = {"learning_rate": [1e-3, 1e30]}
    settings = {"returns": "one-step", "loss": "squared", "optimiser": "rmsprop"}
    hooks = {"on_diverged": lambda *where: found.append(where)}
    rows = trainer(seeds=[0, 1], lane_hyperparams=lane_hyperparams, hooks=hooks, **settings).run(300)
    ((lane, step),) = found
    assert lane == 1
    assert 40 < step < 60
    assert [row["step"] for row in rows if row["lane"] == 0] == [100, 200, 300]
    assert np.isfinite(rows[-2]["loss"])
    assert not np.isfinite(rows[-1]["loss"])
    alone = trainer(seeds=[0], **settings | {"learning_rate": 1e-3}).run(300)
    assert [row["loss"] for row in rows if row["lane"] == 0] == [row["loss"] for row in alone]


# -- episodes (gymnax #109, CleanRL #499: final observations, no steps across a reset) ---------------------------------


@pytest.mark.parametrize("num_envs", [1, 3])
def test_every_stored_step_is_one_of_the_game_and_none_leads_into_another_episode(num_envs):
    one = trainer(limit=7, num_envs=num_envs, replay_size=99, target_period=30, warmup=30, log_every=150)
    one.run(150)
    buffer, replay = one.loop.buffer, jax.tree.map(lambda x: x[0], one.state.lanes.replay)
    count = int(buffer.num_steps(replay).sum())
    index = buffer.step_index(replay, jnp.arange(count))
    rows, seen = buffer.read(replay, index), buffer.observations(replay, index)
    after = buffer.observations(replay, buffer.ahead(index, 1))
    game = envs.make("classic/mountaincar", limit=None)
    state = jax.vmap(game.reset)(jax.random.split(jax.random.key(0), count))
    state = state._replace(position=seen[:, 0], velocity=seen[:, 1])
    expected, step = jax.vmap(game.advance)(
        jax.vmap(game.draw)(jax.random.split(jax.random.key(0), count)), state, rows.action
    )
    np.testing.assert_allclose(after, jax.vmap(game.observe)(expected), atol=1e-6)
    np.testing.assert_array_equal(rows.reward, step.reward)
    assert rows.is_step.all()
    assert int(rows.truncated.sum()) >= count // 7 - 1
    assert not (rows.terminated & rows.truncated).any()


def test_behaviour_probabilities_are_those_of_the_actor():
    one = trainer(epsilon_end=0.3, epsilon_steps=0, warmup=20, log_every=50)
    one.run(50)
    buffer, replay = one.loop.buffer, jax.tree.map(lambda x: x[0], one.state.lanes.replay)
    rows = buffer.read(replay, buffer.step_index(replay, jnp.arange(int(buffer.num_steps(replay)[0]))))
    probabilities = np.asarray(rows.behaviour_prob)
    np.testing.assert_allclose(probabilities[:20], 1 / 3, rtol=1e-6)
    assert {round(float(p), 5) for p in probabilities[20:]} == {0.1, 0.8}


def test_the_actor_explores_as_often_as_it_says():
    q = jnp.tile(jnp.array([0.0, 1.0, 0.5, 1.0]), (20_000, 1))  # of equal actions the first
    action, probability = epsilon_greedy(jax.random.key(0), q, jnp.float32(0.2))
    np.testing.assert_allclose(np.bincount(action) / 20_000, [0.05, 0.85, 0.05, 0.05], atol=0.01)
    np.testing.assert_allclose(probability, np.where(np.asarray(action) == 1, 0.85, 0.05), rtol=1e-6)


def test_epsilon_falls_in_a_straight_line_and_stays():
    config = DQNConfig(epsilon_start=1.0, epsilon_steps=100)
    found = [float(epsilon_at(config, jnp.float32(0.1), jnp.int32(step))) for step in (0, 50, 100, 10_000)]
    np.testing.assert_allclose(found, [1.0, 0.55, 0.1, 0.1], rtol=1e-6)


# -- long trainings ---------------------------------------------------------------------------------------------------


def test_steps_beyond_int32_are_counted():
    """With two environments, 4.29e9 steps: rounds are counted with int32, steps are not."""
    one = trainer(num_envs=2, target_period=40, loss="squared")
    one.run(100)
    end = 2 * (2**31 - 1)
    one.state = one.state._replace(step=np.array(end - 60))
    rows = one.run(30)
    assert rows[-1]["step"] == end - 30
    assert rows[-1]["loss"] is not None
    with pytest.raises(ValueError, match=r"^steps: expected an integer from 0 to 30, got 32$"):
        one.run(32)
    one.hyperparams = one.hyperparams._replace(learning_rate=jnp.full(1, 1e30))
    with pytest.raises(DivergedError, match=r"was not finite at step 42949672\d\d: "):
        one.run(30)


def test_rows_of_the_replay_are_numbered_anew_before_they_leave_int32(monkeypatch):
    """The same training, with a threshold that is passed again and again."""
    usual, anew = trainer(), trainer()
    found = usual.run(400)
    monkeypatch.setattr("greedystep.deep.trainer.RENUMBER_FROM", 130)
    assert without_time(anew.run(400)) == without_time(found)
    assert int(anew.state.lanes.replay.next_row.max()) < 230 < int(usual.state.lanes.replay.next_row.max())
    assert same(anew.state.lanes.learner, usual.state.lanes.learner)


def test_no_chunk_can_leave_int32():
    """A full ring that was numbered anew, and the longest chunk with two rows a step."""
    assert max(RENUMBER_FROM, 2 * MAX_ROWS + 1) + 2 * MAX_ROUNDS < 2**31
    DQNConfig(log_every=MAX_ROUNDS, replay_size=MAX_ROWS)
    for name, most in (("log_every", MAX_ROUNDS), ("replay_size", MAX_ROWS)):
        with pytest.raises(ValueError, match=rf"^{name}: expected at most {most} with num_envs=1, got {most + 1}$"):
            DQNConfig(**{name: most + 1})


@pytest.mark.long
def test_n_beyond_the_replay_is_the_longest_return_in_it():
    long, longest = trainer(returns="n-step", n=2**31 - 1), trainer(returns="n-step", n=64)
    assert without_time(long.run(100)) == without_time(longest.run(100))


# -- what the metrics mean --------------------------------------------------------------------------------------------


def test_overestimation_is_the_mean_of_q_minus_the_discounted_return_that_followed():
    random, gamma = np.random.default_rng(0), 0.9
    rewards, q = random.normal(size=(2, 9)), random.normal(size=(2, 9))
    truncated = np.zeros((2, 9), bool)
    over = np.zeros((2, 9), bool)
    over[0, [3, 8]], over[1, 5], truncated[1, 5] = True, True, True
    metrics, episode = ChunkMetrics.init(), EpisodeStats.init(2)
    for t in range(9):
        metrics, episode = metrics.after_step(episode, rewards[:, t], truncated[:, t], over[:, t], q[:, t], gamma)
    errors = []
    for env, begin, end in ((0, 0, 3), (0, 4, 8), (1, 0, 5)):
        for t in range(begin, end + 1):
            ahead = [gamma ** (k - t) * rewards[env, k] for k in range(t, end + 1)]
            if truncated[env, end]:
                ahead[-1] = gamma ** (end - t) * q[env, end]
            errors.append(q[env, t] - sum(ahead))
    found = metrics_row(metrics)
    np.testing.assert_allclose(found["overestimation"], np.mean(errors), rtol=1e-5)
    assert found["episodes"] == 3
    totals = [rewards[0, :4].sum(), rewards[0, 4:].sum(), rewards[1, :6].sum()]
    np.testing.assert_allclose(found["episode_return"], np.mean(totals), rtol=1e-5)
    np.testing.assert_allclose(found["episode_length"], 5)


def test_steps_of_the_warm_up_are_not_valued():
    metrics, episode = ChunkMetrics.init(), EpisodeStats.init(1)
    reward, no, yes = jnp.ones(1), jnp.zeros(1, bool), jnp.ones(1, bool)
    metrics, episode = metrics.after_step(episode, reward, no, no, None, 0.9)
    metrics, episode = metrics.after_step(episode, reward, no, yes, jnp.full(1, 5.0), 0.9)
    assert metrics_row(metrics)["overestimation"] == 4.0
    assert metrics_row(metrics)["episode_length"] == 2


def test_the_histogram_of_n_counts_every_sample_in_its_bin():
    n = np.array([1, 1, 2, 3, 4, 5, 8, 9, 16, 17, 2**14, 2**14 + 1, 10**6])
    metrics = ChunkMetrics.init().after_update(jnp.int32(0), UpdateInfo(jnp.float32(0), jnp.float32(0)), jnp.asarray(n))
    found = metrics_row(metrics)
    assert bin_names()[:5] == ["1", "2", "3-4", "5-8", "9-16"]
    assert len(bin_names()) == BINS
    assert found["n_histogram"][:6] == [2, 1, 2, 2, 2, 1]
    assert found["n_histogram"][-2:] == [1, 2]
    assert sum(found["n_histogram"]) == len(n)
    np.testing.assert_allclose(found["mean_n"], n.mean())
    np.testing.assert_allclose(found["share_n_above_1"], 11 / 13)


def test_returns_that_mix_all_lengths_tell_no_n():
    rows = trainer(returns="lambda").run(100)
    assert rows[-1]["mean_n"] is None
    assert sum(rows[-1]["n_histogram"]) == 0
