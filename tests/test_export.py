"""What agents write for other programs: their policy for NumPy, and what they do as a dataset."""

import itertools
import subprocess
import sys

import equinox as eqx
import minari
import numpy as np
import onnxruntime
import pytest

import greedystep as gs
from greedystep import io
from greedystep.cli import main
from greedystep.deep.collect import collect
from greedystep.numpy_policy import NumpyPolicy

TINY = {"hidden": (8, 5), "replay_size": 300, "batch_size": 4, "warmup": 40, "target_period": 20, "log_every": 100}


@pytest.mark.parametrize(
    ("env", "settings"),
    [
        ("classic/cartpole", {}),
        ("classic/cartpole", {"hidden": ()}),
        ("minatar/breakout", {}),
        ("toy/choice", {"returns": "one-step"}),
        ("toy/choice", {"returns": "one-step", "hidden": ()}),
    ],
)
def test_a_policy_in_numpy_has_the_values_of_the_agent(env, settings, tmp_path):
    agent = gs.DQN(env, **TINY | settings)
    agent.export_policy(tmp_path / "policy.npz")
    policy = NumpyPolicy.load(tmp_path / "policy.npz")
    spec = agent.env.observation
    random = np.random.default_rng(0)
    seen = random.integers(0, 2, (7, *spec.shape)) if spec.dtype.kind in "bi" else random.normal(size=(7, *spec.shape))
    np.testing.assert_allclose(policy.values(seen), agent.values(seen), rtol=1e-4, atol=1e-5)
    assert policy.predict(seen).tolist() == agent.predict(seen).tolist()
    assert policy.predict(seen[0]) == agent.predict(seen[0])
    assert policy.predict(seen[:0]).tolist() == agent.predict(seen[:0]).tolist() == []
    assert policy.num_actions == agent.env.num_actions
    assert (tmp_path / "policy.npz").stat().st_size < 300_000
    agent.export_policy(tmp_path / "policy.onnx")
    assert_same_in_onnx(tmp_path / "policy.onnx", policy, seen.astype(spec.dtype))
    about = onnxruntime.InferenceSession(tmp_path / "policy.onnx").get_modelmeta()
    assert about.custom_metadata_map == {"env": env, "greedystep": gs.__version__}


def assert_same_in_onnx(path, policy, seen):
    """ONNX Runtime gives the policy's values and actions, for batches of any size."""
    session = onnxruntime.InferenceSession(path)
    for batch in (seen, seen[:1]):
        q, actions = session.run(["q_values", "action"], {"observation": batch})
        np.testing.assert_allclose(q, policy.values(batch), rtol=1e-5, atol=1e-5)
        assert actions.tolist() == policy.predict(batch).tolist()


def random_policy(kind, shape, sizes, networks=3, **settings):
    random = np.random.default_rng(1)
    pairs = itertools.pairwise(sizes)
    layers = [(random.normal(size=(networks, a, b)), random.normal(size=(networks, b))) for a, b in pairs]
    return NumpyPolicy(kind, shape, layers, **settings)


def test_states_are_counted_as_the_environment_counts_them(tmp_path):
    policy = random_policy("one-hot", (), (4, 5, 2), dtype="int32")
    shifted = NumpyPolicy("one-hot", (), policy.layers, dtype="int32", first_state=2)
    shifted.save(tmp_path / "policy.npz")
    states = np.arange(4, dtype=np.int32)
    for same in (shifted, NumpyPolicy.load(tmp_path / "policy.npz")):
        np.testing.assert_array_equal(same.values(states + 2), policy.values(states))
        assert same.predict(2) == policy.predict(0)
        with pytest.raises(ValueError, match=r"observations: expected states in 2\.\.5, got 1"):
            same.predict(1)
    shifted.save(tmp_path / "policy.onnx")
    assert_same_in_onnx(tmp_path / "policy.onnx", shifted, states + 2)
    with pytest.raises(ValueError, match="first_state: only a one-hot policy has states, got 2"):
        random_policy("mlp", (2,), (2, 3), first_state=2)


@pytest.mark.parametrize(
    "settings",
    [
        {"pessimism": 0.4},
        {"pessimism": 0.0, "bcq_threshold": 0.5},
        {"bcq_threshold": 1.0},
        {"scale": 255.0, "first_action": 3},
    ],
    ids=str,
)
def test_onnx_has_every_way_of_acting(settings, tmp_path):
    policy = random_policy("mlp", (2, 3), (6, 5, 4), dtype="uint8", **settings)
    policy.save(tmp_path / "policy.onnx")
    seen = np.random.default_rng(0).integers(0, 4, (20, 2, 3)).astype(np.uint8)
    if "bcq_threshold" in settings:
        assert np.isinf(policy.values(seen)).any()
    assert_same_in_onnx(tmp_path / "policy.onnx", policy, seen)


def test_without_the_package_onnx_a_sentence_says_what_to_install(tmp_path, capsys, monkeypatch):
    gs.DQN("classic/cartpole", **TINY).save(tmp_path / "x.agent")
    monkeypatch.setitem(sys.modules, "onnx", None)
    assert main(["export", str(tmp_path / "x.agent"), "--policy", str(tmp_path / "p.onnx")]) == 2
    sentence = 'greedystep: ONNX files need onnx, which is not installed: pip install "greedystep[onnx]"\n'
    assert capsys.readouterr().err == sentence
    assert not (tmp_path / "p.onnx").exists()


def test_a_file_is_made_as_small_as_asked(tmp_path):
    policy, file = random_policy("mlp", (50,), (50, 40, 2)), tmp_path / "policy.npz"
    seen = np.random.default_rng(0).normal(size=(30, 50))
    stored = []
    for max_bytes in (None, 15_000, 10_000, 9_000):
        policy.save(file, max_bytes=max_bytes)
        assert file.stat().st_size <= (max_bytes or 30_000)
        loaded = NumpyPolicy.load(file)
        stored.append(str(io.read_npz(file)["weight0"].dtype))
        error = (loaded.values(seen) - policy.values(seen)).std() / policy.values(seen).std()
        assert error <= {"float32": 0, "float16": 0.001, "int8": 0.05}[stored[-1]]
    assert stored == ["float32", "float16", "int8", "int8"]
    assert np.abs(io.read_npz(file)["weight0"]).max() == 63
    arrays = io.read_npz(file)
    np.savez_compressed(tmp_path / "wrong.npz", **arrays | {"unit0": arrays["unit1"]})
    with pytest.raises(ValueError, match=r"wrong.npz is damaged: unit0 has shape \(3, 1, 2\) for weights of"):
        NumpyPolicy.load(tmp_path / "wrong.npz")
    with pytest.raises(ValueError, match=r"^max_bytes: this policy needs at least \d+ bytes, got 100$"):
        policy.save(file, max_bytes=100)
    with pytest.raises(ValueError, match=r"^max_bytes: only an \.npz file is made smaller$"):
        policy.save(tmp_path / "policy.onnx", max_bytes=9_000)


@pytest.mark.parametrize("name", ["policy.pt", "policy"])
def test_a_policy_is_written_to_npz_and_onnx_only(name, tmp_path):
    policy = random_policy("mlp", (2,), (2, 2))
    with pytest.raises(ValueError, match=rf"^path: expected a file that ends in .npz or .onnx, got '.*{name}'$"):
        policy.save(tmp_path / name)
    assert not list(tmp_path.iterdir())
    policy.save(tmp_path / "policy.npz")
    with pytest.raises(ValueError, match=r"is an exported policy, not an agent: gs\.NumpyPolicy\.load reads it"):
        gs.load(tmp_path / "policy.npz")


def test_a_policy_of_bytes_is_scaled_as_the_agent_does(tmp_path):
    log = {"observations": np.arange(60, dtype=np.uint8).reshape(20, 3), "actions": np.arange(20) % 2}
    log |= {"rewards": np.ones(20), "terminals": np.arange(20) == 19}
    agent = gs.DQN.from_dataset(log, hidden=(4,))
    policy = agent.export_policy(tmp_path / "policy.npz")
    np.testing.assert_allclose(
        policy.values(log["observations"]), agent.values(log["observations"]), rtol=1e-4, atol=1e-5
    )


def test_acting_needs_neither_jax_nor_gymnasium(tmp_path):
    gs.DQN("classic/cartpole", **TINY).export_policy(tmp_path / "policy.npz")
    script = (
        "import sys, greedystep as gs; p = gs.NumpyPolicy.load(sys.argv[1]); print(p.predict([0, 0, 0, 0]) in (0, 1),"
        "sorted({'jax', 'gymnasium', 'numba'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", script, tmp_path / "policy.npz"], capture_output=True, text=True)
    assert done.stdout == "True []\n", done.stderr


def test_repr_says_what_goes_in_and_out():
    def layers(networks, inputs):
        return [(np.zeros((networks, inputs, 2)), np.zeros((networks, 2)))]

    assert repr(NumpyPolicy("mlp", (4,), layers(1, 4), env="CartPole-v1")) == (
        "NumpyPolicy('mlp', 'CartPole-v1', [4] -> 2 actions)"
    )
    assert repr(NumpyPolicy("one-hot", (), layers(3, 7))) == "NumpyPolicy('one-hot', 7 states -> 2 actions, 3 networks)"


def test_policies_that_make_no_sense_are_refused(tmp_path):
    weight, bias = np.zeros((1, 4, 2)), np.zeros((1, 2))
    with pytest.raises(ValueError, match="kind: expected one of mlp"):
        NumpyPolicy("tree", (4,), [(weight, bias)])
    with pytest.raises(ValueError, match="does not fit the others"):
        NumpyPolicy("mlp", (3,), [(weight, bias)])
    with pytest.raises(ValueError, match="expected finite numbers"):
        NumpyPolicy("mlp", (4,), [(weight * np.nan, bias)])
    with pytest.raises(ValueError, match="layers: expected at least one"):
        NumpyPolicy("mlp", (4,), [])
    good = NumpyPolicy("mlp", (4,), [(weight, bias)])
    with pytest.raises(ValueError, match=r"observations: expected numbers of shape \(4,\), or many, got shape \(3,\)"):
        good.predict(np.zeros(3))
    for bad in (np.nan, np.inf):
        with pytest.raises(ValueError, match=f"observations: expected finite numbers, got {bad}"):
            good.predict([[0, 0, 0, 0], [0, 0, bad, 0]])
    assert good.predict(np.full(4, np.float16(6e4))) == 0  # whose squares overflow
    good.save(tmp_path / "policy.npz")
    (tmp_path / "half.npz").write_bytes((tmp_path / "policy.npz").read_bytes()[:200])
    with pytest.raises(ValueError, match=r"half.npz is no policy file of greedystep"):
        NumpyPolicy.load(tmp_path / "half.npz")
    own = gs.DQN("classic/cartpole", network=lambda key, spec, actions: eqx.nn.Linear(4, actions, key=key), **TINY)
    with pytest.raises(ValueError, match="network: only MLP, OneHotMLP, ConvNet can be exported to NumPy"):
        own.export_policy(tmp_path / "own.npz")


@pytest.mark.parametrize("env", ["classic/cartpole", "CartPole-v1"])
def test_collected_episodes_are_those_that_the_agent_plays(env):
    agent = gs.DQN(env, **TINY)
    found = collect(agent.trainer, 20, 0.3, limit=12)
    assert len(found) == 20
    for one in found:
        greedy = agent.predict(one.observations[:-1]) == one.actions
        np.testing.assert_allclose(one.behaviour_prob, np.where(greedy, 0.85, 0.15), rtol=1e-6)
        assert one.terminated[-1] != one.truncated[-1]
        assert one.truncated[-1] == (len(one) == 12 and not one.terminated[-1])
    again = collect(agent.trainer, 20, 0.3, limit=12)
    assert all(np.array_equal(a.observations, b.observations) for a, b in zip(found, again, strict=True))


def test_the_command_writes_episodes_and_the_policy(tmp_path, capsys):
    agent = gs.DQN("classic/cartpole", **TINY)
    agent.save(tmp_path / "x.agent")
    words = ["export", str(tmp_path / "x.agent"), "--episodes", "3"]
    assert main([*words, "--out", str(tmp_path / "log.npz"), "--policy", str(tmp_path / "p.npz")]) == 0
    assert "log.npz (3 episodes, " in capsys.readouterr().out
    assert len(gs.trajectory.load(tmp_path / "log.npz")) == 3
    assert NumpyPolicy.load(tmp_path / "p.npz").num_actions == 2
    for more, sentence in {
        (): "out: say what to write",
        ("--out", "log.txt"): "out: expected a file that ends in .npz, got 'log.txt'",
        ("--policy", "p.txt"): "policy: expected a file that ends in .npz or .onnx, got 'p.txt'",
        ("--policy", "p.npz", "--lane", "3"): "lane: expected an integer",
    }.items():
        assert main([*words, *more]) == 2
        assert sentence in capsys.readouterr().err


def test_an_agent_that_was_fitted_without_an_environment_plays_where_env_says(tmp_path, capsys):
    log = {"observations": np.zeros((8, 4)), "actions": [0, 1] * 4, "rewards": [1.0] * 8, "terminals": [0, 1] * 4}
    gs.DQN.from_dataset(log, hidden=(8,)).save(tmp_path / "x.agent")
    words = ["export", str(tmp_path / "x.agent"), "--episodes", "3"]
    out = ["--out", str(tmp_path / "log.npz")]
    assert main([*words, *out]) == 2
    assert "greedystep eval, watch or export --env ID" in capsys.readouterr().err
    assert main([*words, *out, "--env", "CartPole-v1"]) == 0
    assert len(gs.trajectory.load(tmp_path / "log.npz")) == 3
    for more, sentence in {
        (*out, "--env", "Acrobot-v1"): "env: expected observations of shape (4,), got (6,) in Acrobot-v1",
        ("--policy", "p.npz", "--env", "CartPole-v1"): "env: no episodes are played for --policy alone",
    }.items():
        assert main([*words, *more]) == 2
        assert sentence in capsys.readouterr().err


@pytest.mark.parametrize("env", ["toy/choice", "FrozenLake-v1"])
def test_a_table_writes_the_episodes_that_it_plays(env, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "minari"))
    agent = gs.TabularAgent(env, "q-learning")
    agent.learn(50)
    agent.save(tmp_path / "table.npz")
    words = ["export", str(tmp_path / "table.npz"), "--episodes", "20", "--epsilon", "0.2", "--seed", "3"]
    assert main([*words, "--out", str(tmp_path / "log.npz"), "--minari", "played-v0"]) == 0
    played = gs.trajectory.load(tmp_path / "log.npz")
    assert [one.rewards.sum() for one in played] == agent.evaluate(20, 0.2, seed=3).returns.tolist()
    for one in played:
        greedy = agent.predict(one.observations[:-1]) == one.actions
        share = 0.2 / agent.task.num_actions
        np.testing.assert_allclose(one.behaviour_prob, np.where(greedy, 0.8 + share, share))
        assert one.terminated[-1] != one.truncated[-1]
    again = gs.trajectory.from_minari("played-v0")
    assert all(np.array_equal(a.observations, b.observations) for a, b in zip(played, again, strict=True))
    assert minari.load_dataset("played-v0").recover_environment().observation_space.n == agent.task.num_states
    gs.TabularAgent(env, "model").fit(tmp_path / "log.npz")
    for more, sentence in {
        ("--policy", "p.npz"): "is a table, which has no network to write",
        ("--out", "log.npz", "--lane", "1"): "is a table, which has one",
        ("--out", "log.npz", "--env", "CartPole-v1"): f"was learned on {env!r}, got 'CartPole-v1'",
    }.items():
        assert main([*words, *more]) == 2
        assert sentence in capsys.readouterr().err


def test_a_minari_dataset_knows_the_environment_that_it_comes_from(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "minari"))
    for env, made in (
        ("CartPole-v1", gs.DQN("CartPole-v1", **TINY)),
        ("classic/cartpole", gs.DQN("classic/cartpole", **TINY)),
    ):
        made.save(tmp_path / "x.agent")
        words = ["export", str(tmp_path / "x.agent"), "--episodes", "3", "--minari"]
        name = f"pole/{env.split('/')[0].lower()}-v1"
        assert main([*words, name]) == 0
        assert capsys.readouterr().err == ""
        again = minari.load_dataset(name).recover_environment()
        assert again.observation_space.shape == (4,)
        assert again.spec.id == {"CartPole-v1": "CartPole-v1"}.get(env, "greedystep/classic-cartpole-v1")
        assert sum(map(len, gs.trajectory.from_minari(name))) == minari.load_dataset(name).total_steps
        assert main([*words, name]) == 2
        assert f"minari: there is a dataset '{name}' already" in capsys.readouterr().err
        assert main([*words, "bad id"]) == 2
        assert "minari: expected an id such as cartpole/trained-v0" in capsys.readouterr().err
        assert not (tmp_path / "minari" / "bad id").exists()
