"""Actors that play episodes for one learner: equal numbers whoever plays, bounded staleness, replaced actors."""

import time
from functools import partial
from types import SimpleNamespace
from typing import Any, NamedTuple

import jax
import numpy as np
import pytest
import sleepy_env  # noqa: F401
from deep_runs import rows

from greedystep.cli import main
from greedystep.deep import actors
from greedystep.deep.actors import AHEAD, START_WITHIN, EpisodePool, Player
from greedystep.deep.env_spec import as_environment, config_for
from greedystep.deep.learner import Learner
from greedystep.deep.trainer import Trainer
from greedystep.envs.host import HostEnvironment
from greedystep.runs.ray_cluster import ClusterError

SETTINGS = {
    "returns": "n-step",
    "n": 3,
    "hidden": (8,),
    "num_envs": 2,
    "replay_size": 600,
    "warmup": 100,
    "target_period": 100,
    "epsilon_steps": 300,
    "batch_size": 8,
    "log_every": 100,
}
WORDS = [f"--{name.replace('_', '-')}={value}" for name, value in (SETTINGS | {"hidden": 8}).items()]
LONGEST = 60
"""Steps of the longest episode of sleepy_env:Sleepy-v0."""


def make():

    import gymnasium
    import numpy as np

    class Walk(gymnasium.Env):
        """As sleepy_env.Sleepy, which workers of a Ray that runs already cannot import."""

        observation_space = gymnasium.spaces.Box(-1.0, 1.0, (3,), np.float32)
        action_space = gymnasium.spaces.Discrete(2)

        def reset(self, *, seed=None, options=None):
            super().reset(seed=seed)
            self.limit, self.at = int(self.np_random.integers(20, 61)), 0
            return self.seen(), {}

        def step(self, action):
            time.sleep(0.0005)
            self.at += 1
            return self.seen(), float(action), self.at >= self.limit, False, {}

        def seen(self):
            return np.array([self.at / 60, self.limit / 60, self.np_random.uniform(-1, 1)], np.float32)

    return Walk()


def trained(cluster, actors, on_chunk=lambda pool: None, steps=800):
    """Train with that many actors; return the trainer and its rows without times."""
    env = as_environment(make, vectorization="actors")
    trainer = Trainer(config_for(env, "paper", **SETTINGS), env, [3])
    with EpisodePool(cluster, actors) as env.pool:
        found = trainer.run(steps, lambda rows: on_chunk(env.pool))
        most = len(env.pool._requests)
    times = ("steps_per_second", "wall_seconds")
    return trainer, [{k: v for k, v in row.items() if k not in times} for row in found], most


@pytest.fixture(scope="module")
def with_one(cluster):
    return trained(cluster, 1)


def test_the_number_of_actors_and_their_deaths_change_nothing(cluster, with_one):
    killed = []

    def kill_one(pool):
        if len(killed) < 2:
            killed.append(next(iter(pool._actors)))
            cluster.ray.kill(killed[-1])

    trainer, found, _ = trained(cluster, 2, kill_one)
    assert len(killed) == 2
    assert found == with_one[1]
    mine, theirs = (jax.tree.leaves(one.state.lanes.replay) for one in (trainer, with_one[0]))
    for one, other in zip(mine, theirs, strict=True):
        np.testing.assert_array_equal(one, other)


class SlowRay:
    """Stands for Ray, with a clock of its own: an actor starts within `starts_in` seconds, and all actors may die."""

    class DiedError(Exception):
        pass

    exceptions = SimpleNamespace(RayTaskError=KeyError, RayError=DiedError)

    def __init__(self):
        self.now, self.starts_in, self.alive = 0.0, 5.0, 0

    def remote(self, **how):
        return lambda kind: SimpleNamespace(remote=self._start)

    def _start(self):
        self.alive += 1
        ready, play = (SimpleNamespace(remote=partial(self._do, self.alive, t)) for t in (self.starts_in, 1.0))
        return Actor(self.alive, ready, play)

    def _do(self, actor, seconds):
        return actor, self.now + seconds

    def _is_done(self, reference):
        return reference[0] != self.alive or reference[1] <= self.now

    def wait(self, references, num_returns, timeout):
        done = list(filter(self._is_done, references))
        self.now += 0 if done else timeout
        return done[:1], []

    def get(self, reference):
        if reference[0] != self.alive:
            raise self.DiedError
        return "episode"

    def kill(self, actor):
        pass


class Actor(NamedTuple):
    number: int
    ready: Any
    play: Any

    def __hash__(self):
        return self.number


def test_an_only_actor_that_dies_late_is_replaced_if_another_starts_in_time(monkeypatch):
    ray: Any = SlowRay()
    monkeypatch.setattr(actors, "time", SimpleNamespace(monotonic=lambda: ray.now))
    cluster: Any = SimpleNamespace(ray=ray, check=lambda: None)
    with EpisodePool(cluster, 1) as pool:
        pool.open()
        pool.request((0, 1))
        assert pool.take((0, 1)) == "episode"
        for number, starts_in in ((2, 5.0), (3, 2 * START_WITHIN)):
            ray.now, ray.starts_in = ray.now + 2 * START_WITHIN, starts_in
            pool.request((0, number))
            ray.alive += 1  # the one that was is no more
            if starts_in < START_WITHIN:
                assert pool.take((0, number)) == "episode"
            else:
                with pytest.raises(ClusterError, match="actors: none could start within 60 s"):
                    pool.take((0, number))


def test_staleness_and_requests_are_bounded(with_one):
    trainer, _, requests = with_one
    envs = trainer.loop.envs
    assert LONGEST / 2 < envs.oldest <= (AHEAD + 1) * LONGEST
    assert requests <= SETTINGS["num_envs"] * (AHEAD + 1)


def test_it_learns_what_the_rewards_say(cluster):
    """Action 1 gives a reward of 1 per step, action 0 none."""
    _, found, _ = trained(cluster, 2, steps=3000)
    first, last = found[0], found[-1]
    assert last["episode_return"] / last["episode_length"] > 0.8 > first["episode_return"] / first["episode_length"]


@pytest.mark.parametrize("name", ["MLP", "other networks"])
def test_an_episode_is_that_of_the_networks(name):
    """Greedy play, beside a loop over the environment and the learner's own Q-values."""
    env = HostEnvironment(make)
    settings = SETTINGS if name == "MLP" else SETTINGS | {"returns": "greedy-step", "n": None, "ensemble": 2}
    config = config_for(env, "paper", **settings)
    learner = Learner(config, env.observation, 2)
    params = learner.init(jax.random.key(1)).params
    player = Player(make, config, env.observation, 2)
    if name != "MLP":
        player._is_mlp = False  # the way of all other networks
    networks = [np.asarray(x) for x in jax.tree.leaves(params)]
    episode = player.play(networks, 0.0, 7)
    game, steps = make(), len(episode.actions)
    seen, _ = game.reset(seed=7)
    for t in range(steps):
        q = np.asarray(learner.acting_q(params, seen[None])[0])
        assert episode.actions[t] == q.argmax()
        np.testing.assert_allclose(episode.q[t], q.max(), rtol=1e-5)
        np.testing.assert_array_equal(episode.observations[t], seen)
        seen, reward, terminated, _, _ = game.step(int(q.argmax()))
        assert episode.rewards[t] == reward
    assert terminated
    assert episode.terminated
    assert not episode.truncated
    np.testing.assert_array_equal(episode.probabilities, np.ones(steps, np.float32))
    explored = player.play(networks, 0.5, 7)
    assert set(np.unique(explored.probabilities)) == {0.25, 0.75}
    np.testing.assert_array_equal(player.play(networks, 0.5, 7).actions, explored.actions)


REFUSED = {
    ("CartPole-v1", "--actors", "2", "--seeds", "2"): "seeds: actors play for one, got 2",
    ("CartPole-v1", "--actors", "2", "--returns", "auto"): 'returns: "auto" acts with heads',
    ("CartPole-v1", "--actors", "2", "--on", "ray"): "actors: they play for one learner in this process",
    ("CartPole-v1", "--actors", "2", "--vectorization", "async"): "vectorization: with --actors the environments are",
    ("CartPole-v1", "--actors", "0"): "actors: expected",
    ("classic/cartpole", "--actors", "2"): "vectorization: only environments of Gymnasium have one",
}


@pytest.mark.parametrize("arguments", REFUSED)
def test_what_is_refused(arguments, tmp_path, capsys):
    assert main(["train", *arguments, "--out", str(tmp_path / "run")]) == 2
    assert REFUSED[arguments] in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("actors", [1, 3, 16])
def test_any_number_of_actors_has_settings_that_fit(actors):
    from greedystep.cli.train import NetworkOptions, Train
    from greedystep.cli.train_network import _config

    agent = _config(Train("CartPole-v1", network=NetworkOptions(actors=actors))).agent
    assert (agent.num_envs, agent.updates) == (actors, actors)


def test_the_command(cluster, tmp_path, capsys):
    out = tmp_path / "run"
    words = ["train", "CartPole-v1", *WORDS, "--steps", "200", "--out", str(out)]
    assert main([*words, "--actors", "1"]) == 0
    assert [row["step"] for row in rows(out)] == [100, 200]
    assert main(["train", "--resume", str(out), "--steps", "300"]) == 2
    assert f"actors: {out} was begun with actors and goes on so" in capsys.readouterr().err
    assert main(["train", "--resume", str(out), "--steps", "300", "--actors", "2"]) == 0
    assert "or is played by actors): training goes on with new episodes" in capsys.readouterr().err
    assert [row["step"] for row in rows(out)] == [100, 200, 300]


@pytest.mark.long
def test_two_actors_are_almost_twice_as_fast(tmp_path):
    """On a simulator that sleeps 2 ms per step; each run has its own Ray, and its first chunk compiles."""
    speeds = []
    for more in ((), ("--actors", "2")):
        out = tmp_path / f"run{len(more)}"
        words = ["train", "sleepy_env:Sleepy-v0", *WORDS, "--log-every", "1000", "--steps", "5000"]
        assert main([*words, "--out", str(out), *more]) == 0
        begin, end = (row["wall_seconds"] for row in (timed(out)[0], timed(out)[-1]))
        speeds.append(4000 / (end - begin))
    assert speeds[1] > 1.8 * speeds[0], speeds


def timed(folder):
    import json

    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
