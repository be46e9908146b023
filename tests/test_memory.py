"""What would not fit in memory is refused with the number, before it is allocated."""

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from greedystep import checks, envs, models
from greedystep.cli import main
from greedystep.deep.agent import DQN
from greedystep.deep.config import DQNConfig
from greedystep.deep.device_memory import largest_intermediate, tree_bytes
from greedystep.deep.evaluator import Evaluator
from greedystep.deep.trainer import Trainer
from greedystep.envs import toy
from greedystep.mdp import MDP
from greedystep.tabular import TabularAgent, learn

GB = 10**9


@pytest.fixture
def four_gigabytes(monkeypatch):
    """A machine with that much free, whatever this one has."""
    monkeypatch.setattr(checks, "free_memory", lambda: 4 * GB)


# -- how much there is ------------------------------------------------------------------------------------------------


def test_small_arrays_are_not_worth_a_look(monkeypatch):
    monkeypatch.setattr(checks, "free_memory", lambda: pytest.fail("looked up"))
    checks.check_memory("episodes=10", checks.NEVER_REFUSED)


def test_the_sentence_has_both_numbers(four_gigabytes):
    checks.check_memory("delay=200", 4 * GB)
    with pytest.raises(MemoryError, match=r"^delay=200: needs about 41 GB of memory, this machine has 4 GB free$"):
        checks.check_memory("delay=200", 41 * GB)


@pytest.mark.parametrize(
    ("size", "text"), {870: "870 bytes", 4.24e9: "4.2 GB", 41e9: "41 GB", 9.96e9: "10 GB", 8e24: "8e+06 EB"}.items()
)
def test_sizes_are_short(size, text):
    assert checks.format_bytes(size) == text


def write(folder, files):
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(str(text))


@pytest.mark.parametrize(
    ("line", "files"),
    [
        ("0::/jobs/mine", {"jobs/mine/memory.max": 3 * GB, "jobs/mine/memory.current": GB, "jobs/memory.max": "max"}),
        ("0::/jobs/mine", {"jobs/memory.max": 3 * GB, "jobs/memory.current": GB}),  # the parent's limit
        ("0::/of/the/host", {"memory.max": 3 * GB, "memory.current": GB}),  # within a container
        ("4:memory:/mine", {"memory/mine/memory.limit_in_bytes": 3 * GB, "memory/mine/memory.usage_in_bytes": GB}),
        (
            "0::/",
            {"memory.max": 3 * GB, "memory.current": 2 * GB, "memory.stat": f"anon 5\ninactive_file {GB}\nfile 7"},
        ),
    ],
)
def test_limits_of_control_groups_count(line, files, tmp_path, monkeypatch):
    write(
        tmp_path,
        {"proc/meminfo": "MemTotal: 9\nMemAvailable:   9000000 kB\n", "proc/self/cgroup": f"1:cpu:/\n{line}\n"},
    )
    write(tmp_path / "cgroup", files)
    monkeypatch.setattr(checks, "PROCESSES", tmp_path / "proc")
    monkeypatch.setattr(checks, "CGROUPS", tmp_path / "cgroup")
    assert checks.free_memory() == 2 * GB


def test_without_a_limit_it_is_the_machines(tmp_path, monkeypatch):
    write(tmp_path, {"meminfo": "MemAvailable:   9000000 kB\n", "self/cgroup": "0::/\n", "memory.max": "max\n"})
    monkeypatch.setattr(checks, "PROCESSES", tmp_path)
    monkeypatch.setattr(checks, "CGROUPS", tmp_path)
    assert checks.free_memory() == 9_000_000 * 1024


# -- tables of toy tasks and models -----------------------------------------------------------------------------------

TASKS = [
    ("toy/choice", {"delay": 7}),
    ("toy/trace-back", {"delay": 9}),
    ("toy/grid-world", {"size": 4}),
    ("toy/bomb", {"delay": 3, "side": 5}),
    ("toy/watch-repair", {"length": 4}),
    ("toy/n-horizon", {"length": 6}),
]


@pytest.mark.parametrize(("name", "options"), TASKS)
def test_the_size_of_a_task_is_known_before_it_is_made(name, options, monkeypatch):
    told = []
    monkeypatch.setattr(toy, "check_size", lambda _, **sizes: told.append(sizes))
    task = envs.make_task(name, **options)
    assert told == [{"states": task.num_states, "actions": task.num_actions, "outcomes": len(task.outcomes.successor)}]


MODELS = [
    (models.chain, (7,), {}),
    (models.grid, (3, 4), {}),
    (models.grid, (3, 4), {"slip": 0.2}),
    (models.maze, (5, 4), {}),
    (models.garnet, (6, 3, 2), {}),
]


@pytest.mark.parametrize(("make", "sizes", "options"), MODELS)
def test_the_size_of_a_model_is_known_before_it_is_made(make, sizes, options, monkeypatch):
    told = []
    monkeypatch.setattr(models, "_check_size", lambda _, **sizes: told.append(sizes))
    made = make(*sizes, **options)
    for one in told:
        assert one["pairs"] == made.rewards.size
        assert made.transitions.nnz <= one["entries"] <= 3 * made.rewards.size  # equal successors are added up
    assert told


@pytest.mark.parametrize(
    "line",
    [
        "train toy/trace-back --options delay=200",
        "train toy/trace-back --options delay=1e18",
        "train toy/grid-world --options horizon=1e15",
        "train toy/choice --episodes 1e18",
        "plan garnet-99999999999x4x3",
        "plan grid-1000000x1000000",
        "plan grid-3x3 --method multi-step --policies random-999999999999",
    ],
)
def test_tables_that_do_not_fit_are_refused(line, four_gigabytes, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(line.split()) == 2
    said = capsys.readouterr().err
    assert "of memory, this machine has 4 GB free" in said
    assert said.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_other_tables_that_do_not_fit_are_refused(four_gigabytes):
    with pytest.raises(MemoryError, match=r"^episodes=10000000000: needs about 160 GB"):
        learn(envs.make_task("toy/choice"), episodes=10**10)
    with pytest.raises(MemoryError, match=r"^table: 1 states x 1000000000001 actions: needs about 16 TB"):
        MDP.from_table({0: {10**12: [(1.0, 0, 0.0, True)]}}, 0.9)
    with pytest.raises(MemoryError, match=r"^horizon=1000000000: needs about 40 GB"):
        TabularAgent(envs.make_task("toy/grid-world", horizon=10**9))


# -- networks ---------------------------------------------------------------------------------------------------------

CARTPOLE = {
    "returns": "greedy-step",
    "hidden": (8,),
    "replay_size": 300,
    "warmup": 50,
    "target_period": 50,
    "batch_size": 8,
    "log_every": 200,
}


def make_trainer(seeds=(0,), **changes):
    return Trainer(DQNConfig(**CARTPOLE | changes), envs.make("classic/cartpole"), seeds)


def test_the_size_of_a_training_is_exact():
    trainer = make_trainer()
    begin = jax.jit(jax.vmap(trainer.loop.init)).trace(jnp.zeros(1, jnp.uint32))
    assert tree_bytes(begin.out_info) == tree_bytes(trainer.state.lanes)


def test_the_largest_array_on_the_way_is_found():
    def program(x):
        def body(i, y):
            return y + jax.lax.cond(i > 1, lambda: (x[:, None] @ x[None, :]).sum(), lambda: 0.0)

        return jax.lax.fori_loop(0, 3, body, 0.0)

    assert largest_intermediate(jax.jit(program).trace(jnp.ones(1000))) == 4 * 1000**2


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"hidden": (10**9,)}, "ensemble=1, hidden=(1000000000,)"),
        ({"hidden": (10**6, 10**6)}, "ensemble=1, hidden=(1000000, 1000000)"),
        ({"ensemble": 10**9}, "ensemble=1000000000, hidden=(8,)"),
        ({"replay_size": 2 * 10**8}, "replay_size=200000000"),
        ({"seeds": range(10**6)}, "replay_size=300, 1000000 seeds"),
    ],
)
def test_a_training_that_does_not_fit_is_refused(changes, named, four_gigabytes):
    with pytest.raises(MemoryError) as problem:
        make_trainer(**changes)
    assert str(problem.value).startswith(f"{named}: needs about ")
    assert str(problem.value).endswith("B of memory, this machine has 4 GB free")


@pytest.mark.parametrize("returns", ["greedy-step", "n-step"])
def test_a_batch_that_does_not_fit_is_refused(returns, four_gigabytes):
    trainer = make_trainer(returns=returns, batch_size=10**9)
    with pytest.raises(MemoryError, match=r"^batch_size=1000000000, num_envs=1, ensemble=1"):
        trainer.run(1)


def log_with_action(action, steps=20):
    return np.zeros((steps, 1)), np.arange(steps) % 2 * action, np.ones(steps), np.arange(steps) % 20 == 19


def test_one_large_action_in_a_log_is_refused_where_its_network_does_not_fit(four_gigabytes):
    with pytest.raises(MemoryError, match=r"^ensemble=1, hidden=\(128, 128\), 16777216 actions: needs about 86 GB"):
        DQN.from_dataset(log_with_action(2**24 - 1))
    agent = DQN.from_dataset(log_with_action(10**5, 50_000), hidden=(4,))
    with pytest.raises(MemoryError, match=r"^batch_size=64, hidden=\(4,\), 100001 actions: needs about 11 GB"):
        agent.fit(updates=1)  # which actions are in the data at every step


def test_more_actions_than_a_replay_buffer_holds_are_refused():
    class Many(gymnasium.Env):
        observation_space, action_space = gymnasium.spaces.Discrete(2), gymnasium.spaces.Discrete(2**40)

    with pytest.raises(ValueError, match=r"env: expected at most 16777216 actions, .* got 1099511627776"):
        DQN(Many())


def test_episodes_that_do_not_fit_are_refused(four_gigabytes):
    trainer = make_trainer()
    evaluate = Evaluator(trainer.learner, trainer.env)
    with pytest.raises(MemoryError, match=r"^episodes=2147483647: needs about .* GB of memory, this machine has 4 GB"):
        evaluate(trainer.params, episodes=2**31 - 1)


@pytest.mark.parametrize("option", [("--hidden", "1e9"), ("--batch-size", "1e9")])
def test_the_command_writes_nothing_then(option, four_gigabytes, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["train", "classic/cartpole", *option]) == 2
    said = capsys.readouterr().err
    assert "of memory, this machine has 4 GB free" in said
    assert said.count("\n") == 1
    assert not list(tmp_path.iterdir())
