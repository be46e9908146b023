"""Planning and tables in an installation without the extra `deep`; what needs it names the command that installs it."""

import subprocess
import sys

import numpy as np
import pytest

from greedystep import NumpyPolicy
from greedystep.extras import DEEP, MissingExtraError, deep_extra
from greedystep.io import CHECKPOINT_MAGIC

SENTENCE = 'this needs jax, which is not installed: pip install "greedystep[deep]"'
NAMES = ("DQN", "evaluate_policy")
"""Public names that need the extra."""


def run(code, cwd):
    """The finished process of Python code in which no module of the extra can be imported."""
    blocked = f"import sys\nsys.modules.update(dict.fromkeys({DEEP}))\n"
    return subprocess.run([sys.executable, "-c", blocked + code], cwd=cwd, capture_output=True, text=True, check=False)


def output_of(code, cwd):
    done = run(code, cwd)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_solving_tables_returns_and_files_work(tmp_path):
    code = """
import numpy as np, greedystep as gs
assert gs.solve(gs.models.by_name("frozenlake-4x4").mdp).converged
assert len(gs.simulate(gs.models.chain(4), [1, 1, 1, 1])[0]) == 4
assert gs.returns.greedy_step(np.ones(3), np.ones(3), np.zeros(3)).returns[0] == 3
assert "toy/choice" in gs.envs.names() and gs.envs.make_task("toy/choice").optimal_return == 1
agent = gs.TabularAgent("toy/choice", seed=0)
agent.learn(200)
agent.save("agent.npz")
print(gs.load("agent.npz").evaluate(5).mean, agent.expected_return())
needs = []
for name in gs.__all__:
    try:
        getattr(gs, name)
    except ImportError:
        needs.append(name)
print(*needs)
"""
    assert output_of(code, tmp_path) == f"1.0 1.0\n{' '.join(NAMES)}\n"


def test_commands_for_models_and_tables_work(tmp_path):
    code = """
from greedystep.cli import main
for words in ("plan frozenlake-4x4", "envs", "envs toy/choice", "train toy/choice --episodes 50 --out run",
              "train --resume run --episodes 60", "eval run --episodes 5", "report run --out page",
              "export run --episodes 5 --out log.npz"):
    assert main(words.split()) == 0, words
for words in ("export run --policy policy.npz", "watch run"):
    assert main(words.split()) == 2, words
"""
    done = run(code, tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    said = done.stderr.splitlines()[-2:]
    assert said == ["greedystep: policy: run is a table, which has no network to write", f"greedystep: {SENTENCE}"]
    assert "v is within" in done.stdout
    assert done.stderr.count(f"Note: {SENTENCE}") == 1  # the games in the list of environments


def test_gymnasium_environments_are_checked(tmp_path):
    code = """
import gymnasium, greedystep as gs
from greedystep.cli import main
gs.check_env(gymnasium.make("FrozenLake-v1"), 50)
gs.check_env(gymnasium.make_vec("CartPole-v1", 2, "sync"), 50)
assert main("check CartPole-v1 --steps 100".split()) == 0
for env in ("toy/choice", "greedystep/classic-cartpole-v1"):
    try:
        gs.check_env(env)
    except ImportError as problem:
        print(problem)
"""
    expected = f"CartPole-v1: nothing wrong in 100 random steps\n{SENTENCE}\n{SENTENCE}\n"
    assert output_of(code, tmp_path) == expected


def test_an_exported_policy_is_evaluated_in_gymnasium_s_environments(tmp_path):
    layer = np.array([[[0.0, 0.0], [0.0, 0.0], [0.0, 1.0], [0.0, 1.0]]]), np.zeros((1, 2))
    NumpyPolicy("mlp", (4,), [layer], env="CartPole-v1").save(tmp_path / "policy.npz")
    code = "from greedystep.cli import main; main(['eval', 'policy.npz', '--episodes', '20'])"
    assert "CartPole-v1, policy.npz: 20 episodes" in output_of(code, tmp_path)


def test_what_needs_the_extra_says_how_to_install_it(tmp_path):
    (tmp_path / "network.agent").write_bytes(CHECKPOINT_MAGIC)
    code = """
import greedystep as gs
for use in (lambda: gs.DQN("CartPole-v1"), lambda: gs.envs.make("toy/choice"), lambda: gs.envs.make("minatar/breakout"),
            lambda: gs.envs.Environment, lambda: gs.load("network.agent")):
    try:
        use()
    except ImportError as problem:
        print(problem)
"""
    assert output_of(code, tmp_path) == 5 * f"{SENTENCE}\n"


@pytest.mark.parametrize(
    "words",
    [
        "train minatar/breakout",
        "train CartPole-v1",
        "fit log.npz",
        "watch toy/choice",
        "check toy/choice",
        "eval classic/cartpole --pretrained",
        "watch classic/cartpole --pretrained",
        "reproduce fig1 fig3",
    ],
)
def test_commands_that_need_the_extra_are_bad_input(tmp_path, words):
    done = run(f"from greedystep.cli import main; sys.exit(main({words.split()}))", tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (2, "", f"greedystep: {SENTENCE}\n")
    assert list(tmp_path.iterdir()) == []


def test_other_missing_modules_keep_their_own_error():
    with pytest.raises(ModuleNotFoundError, match="No module named 'no_such_module'"), deep_extra():
        import no_such_module  # noqa: F401 # pyright: ignore[reportMissingImports]
    with pytest.raises(MissingExtraError, match="optax"), deep_extra():
        raise ModuleNotFoundError("No module named 'optax.losses'", name="optax.losses")
