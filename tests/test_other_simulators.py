"""The example with other people's simulators, at a small size; each is skipped where its package is not installed."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest

from greedystep.envs.host import HostEnvironment

spec = importlib.util.spec_from_file_location(
    "other_simulators", Path(__file__).parents[1] / "examples" / "other_simulators.py"
)
example = importlib.util.module_from_spec(spec)
spec.loader.exec_module(example)

TINY = {
    "returns": "one-step",
    "hidden": (8,),
    "replay_size": 400,
    "batch_size": 4,
    "warmup": 20,
    "target_period": 20,
    "log_every": 40,
}
PACKAGES = {"minatar": "minatar", "atari": "ale_py", "lunar-lander": "Box2D"}
OBSERVATIONS = {"minatar": ((10, 10, 4), "bool"), "atari": ((4, 84, 84), "uint8"), "lunar-lander": ((8,), "float32")}

pytestmark = pytest.mark.filterwarnings("ignore:builtin type:DeprecationWarning")  # of Box2D, when it is imported


@pytest.mark.parametrize("name", example.SIMULATORS)
def test_an_agent_learns_in_it(name):
    pytest.importorskip(PACKAGES[name])
    agent = example.SIMULATORS[name](**TINY | ({"num_envs": 2, "warmup": 36} if name == "atari" else {}))
    shape, dtype = OBSERVATIONS[name]
    assert (agent.env.observation.shape, str(agent.env.observation.dtype)) == (shape, dtype)
    assert np.isfinite(agent.learn(40)[-1]["loss"])


def test_ataris_episodes_begin_with_the_seeds_that_they_are_given():
    """ale_py takes seeds in a way of its own; the same ones give the same game."""
    vector = pytest.importorskip("ale_py.vector_env").AtariVectorEnv("breakout", 2)
    running = HostEnvironment(vector).open(2)
    games = []
    for _ in range(2):
        running.reset([(0, 0), (0, 1)])
        games.append([running.step(np.array([t % 4, 2])).last.copy() for t in range(20)])
    running.close()
    assert np.array_equal(*games)
    assert not np.array_equal(games[0][-1][0], games[0][-1][1])
