"""returns="auto": heads that learn side by side, and the choice of the one that acts."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import greedystep as gs
from greedystep import envs
from greedystep.cli import main
from greedystep.datasets import Dataset
from greedystep.deep import heads, target_pool
from greedystep.deep.config import AUTO_OUTPUTS, AUTO_RATES, DQNConfig
from greedystep.deep.heads import FORGETTING, HEADS, HeadPolicy, HeadScores, head_q
from greedystep.deep.learner import Learner
from greedystep.deep.target_pool import Batch
from greedystep.deep.trainer import Trainer
from greedystep.returns import lambda_return

SMALL = {
    "returns": "auto",
    "ensemble": 2,
    "hidden": (8,),
    "replay_size": 64,
    "batch_size": 9,
    "warmup": 40,
    "target_period": 30,
    "epsilon_steps": 100,
    "optimiser": "adam",
    "learning_rate": 1e-3,
    "log_every": 100,
}


def trainer(seeds=(0,), **settings):
    return Trainer(DQNConfig(**SMALL | settings), envs.make("classic/mountaincar", limit=23), seeds)


def same(a, b):
    def bits(x):
        x = jax.random.key_data(x) if jnp.issubdtype(x.dtype, jax.dtypes.prng_key) else x
        return np.asarray(x).tobytes()

    return [bits(x) for x in jax.tree.leaves(a)] == [bits(x) for x in jax.tree.leaves(b)]


def oracle_head_q(q, actions):
    """Q-values [H, B, A] of the heads, one number at a time, from those of the networks, [K, B, O A]."""
    each = len(q) // len(AUTO_RATES)
    result = np.zeros((HEADS, q.shape[1], actions))
    for h in range(HEADS):
        rate, output = divmod(h, len(AUTO_OUTPUTS))
        for b in range(q.shape[1]):
            for a in range(actions):
                own = [q[rate * each + m, b, output * actions + a] for m in range(each)]
                c = AUTO_OUTPUTS[output].pessimism
                result[h, b, a] = (1 - c) * sum(own) / each + c * min(own)
    return result


def test_a_head_mixes_mean_and_minimum_of_the_networks_of_its_rate():
    q = np.random.default_rng(0).normal(size=(len(AUTO_RATES) * 3, 5, len(AUTO_OUTPUTS) * 4)).astype(np.float32)
    np.testing.assert_allclose(head_q(jnp.asarray(q)), oracle_head_q(q, 4), rtol=1e-5, atol=1e-6)


# -- which head plays --------------------------------------------------------------------------------------------------


def test_scores_are_weighted_means_of_the_episodes_with_polynomial_forgetting():
    random = np.random.default_rng(1)
    scores = HeadScores.init(jax.random.key(0), 3)
    played = []  # (round, head, return)
    for t in range(30):
        result, over = random.normal(size=3).astype(np.float32), random.random(3) < 0.4
        played += [(t, int(scores.playing[i]), float(result[i])) for i in range(3) if over[i]]
        before = scores
        scores = scores.after_round(jax.random.key(t), jnp.asarray(result), jnp.asarray(over))
        assert (np.asarray(scores.playing)[~over] == np.asarray(before.playing)[~over]).all()  # an episode has one head
    weights = np.array([((t + 1) / 30) ** FORGETTING for t, _, _ in played])
    for h in range(HEADS):
        own = np.array([head == h for _, head, _ in played])
        returns = np.array([x for _, _, x in played])
        np.testing.assert_allclose(scores.count[h], weights[own].sum(), rtol=1e-4)
        np.testing.assert_allclose(scores.total[h], (weights * returns)[own].sum(), rtol=1e-3, atol=1e-4)
        np.testing.assert_allclose(scores.squares[h], (weights * returns**2)[own].sum(), rtol=1e-3)
    mean, deviation = scores.posterior()
    x = np.asarray(scores.total).sum() / np.asarray(scores.count).sum()
    inside = np.asarray(scores.squares).sum() - (np.asarray(scores.total) ** 2 / np.asarray(scores.count)).sum()
    variance = inside / np.asarray(scores.count).sum()
    np.testing.assert_allclose(mean, (scores.total + x) / (scores.count + 1), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(deviation, np.sqrt(variance / (scores.count + 1)), rtol=1e-3)


def simulate(true_means, rounds, key=0, switch=None):
    """Play single-round episodes with noise of deviation 1, and return which head played in each round, [rounds, 4]."""

    def one(scores, t):
        noise_key, choice_key = jax.random.split(jax.random.fold_in(jax.random.key(key), t))
        means = jnp.where((switch is None) | (t < (switch or 0)), jnp.array(true_means), jnp.array(true_means)[::-1])
        result = means[scores.playing] + jax.random.normal(noise_key, (4,))
        return scores.after_round(choice_key, result, jnp.ones(4, bool)), scores.playing

    return np.asarray(jax.lax.scan(one, HeadScores.init(jax.random.key(key), 4), jnp.arange(rounds))[1])


def test_the_best_head_plays_nearly_all_episodes():
    played = simulate([0.0, 0.5, 1.5, 0.2, 0.0, 0.5], 2000)
    assert (played[1000:] == 2).mean() > 0.95


def test_a_head_that_becomes_better_later_is_found():
    played = simulate([2.0] + [0.0] * (HEADS - 1), 6000, switch=1500)
    assert (played[1000:1500] == 0).mean() > 0.9
    assert (played[-1000:] == HEADS - 1).mean() > 0.9


def test_before_any_episode_every_head_may_play():
    scores = HeadScores.init(jax.random.key(0), 4)
    assert set(np.asarray(scores.sample(jax.random.key(1), (400,)))) == set(range(HEADS))
    assert int(scores.best()) == 0


def test_equal_returns_do_not_break_the_choice():
    scores = HeadScores.init(jax.random.key(0), 4)
    for t in range(50):
        scores = scores.after_round(jax.random.key(t), jnp.full(4, -1000.0), jnp.ones(4, bool))
    mean, deviation = scores.posterior()
    assert np.isfinite(mean).all()
    assert (np.asarray(deviation) > 0).all()


def test_all_networks_may_learn_from_every_batch():
    """ensemble_update="all": all networks of each rate change."""
    env = envs.make("classic/mountaincar")
    learner = Learner(DQNConfig(**SMALL | {"ensemble_update": "all"}), env.observation, env.num_actions)
    state = learner.init(jax.random.key(0))
    zeros, targets = jnp.zeros(9, jnp.int32), jnp.ones((HEADS, 9))
    after, _ = learner.update(state, Batch(jnp.ones((9, 2)), zeros, targets, zeros), jnp.int32(1), jnp.float32(1e-3))
    first, then = state.params.layers[-1].bias, after.params.layers[-1].bias
    assert (np.asarray(first) != np.asarray(then)).any(axis=1).all()


# -- learning ----------------------------------------------------------------------------------------------------------


def test_an_update_changes_one_network_of_each_rate_with_its_own_part_of_the_batch():
    config = DQNConfig(**SMALL)
    env = envs.make("classic/mountaincar")
    learner = Learner(config, env.observation, env.num_actions)
    state = learner.init(jax.random.key(0))
    random = np.random.default_rng(2)
    batch = Batch(
        jnp.asarray(random.normal(size=(9, 2)), jnp.float32),
        jnp.asarray(random.integers(0, 3, 9), jnp.int32),
        jnp.asarray(random.normal(size=(HEADS, 9)), jnp.float32),
        jnp.zeros(9, jnp.int32),
    )
    after, info = learner.update(state, batch, jnp.int32(1), jnp.float32(1e-3))
    changed = np.array(
        [
            [
                not np.array_equal(a[k], b[k])
                for a, b in zip(*map(jax.tree.leaves, (state.params, after.params)), strict=True)
            ]
            for k in range(4)
        ]
    ).all(axis=1)
    assert changed[:2].sum() == changed[2:].sum() == 1

    losses = []
    for rate, k in enumerate(np.flatnonzero(changed)):
        part = slice(rate * 4, rate * 4 + 4)  # nine samples, two rates: the ninth is left out

        def loss(params, part=part, rate=rate, k=k):
            q = learner.q_and_support(jax.tree.map(lambda x: x[None], params), batch.observations[part])[0][0]
            total = 0.0
            for output in range(len(AUTO_OUTPUTS)):
                for i in range(4):
                    error = q[i, output * 3 + int(batch.action[part][i])]
                    error -= batch.targets[rate * len(AUTO_OUTPUTS) + output, part][i]
                    total += jnp.where(jnp.abs(error) < 1, error**2 / 2, jnp.abs(error) - 0.5)
            return total / (4 * len(AUTO_OUTPUTS))

        own = jax.tree.map(lambda x, k=k: x[k], state.params)
        value, gradient = jax.value_and_grad(loss)(own)
        losses.append(float(value))
        for before, now, slope in zip(
            *map(jax.tree.leaves, (own, jax.tree.map(lambda x, k=k: x[k], after.params), gradient)), strict=True
        ):
            # Adam's first step: both averages are those of this one gradient.
            step = slope / (jnp.abs(slope) + config.optimiser_epsilon)
            np.testing.assert_allclose(now - before, -1e-3 * AUTO_RATES[rate] * step, rtol=1e-2, atol=1e-6)
    assert float(info.loss) == pytest.approx(np.mean(losses), rel=1e-5)


def test_each_head_has_the_lambda_return_of_its_own_values_as_target():
    one = trainer()
    one.run(100)
    lane = jax.tree.map(lambda x: x[0], one.state.lanes)
    hyperparams = jax.tree.map(lambda x: x[0], one.hyperparams)
    bootstrap_q = partial(one.learner.bootstrap_q, lane.learner)
    pool = target_pool.make(one.config, one.loop.buffer, hyperparams, jax.random.key(0), lane.replay, bootstrap_q)
    assert pool.targets.shape[0] == HEADS
    buffer = one.loop.buffer
    index = jax.tree.map(jnp.ravel, buffer.chronological(lane.replay)[0])
    rows = buffer.read(lane.replay, index)
    seen = buffer.unpack(buffer.packed_observations(lane.replay, index))
    q = oracle_head_q(np.asarray(one.learner.q_and_support(lane.learner.target_params, seen)[0]), 3)
    is_step = np.asarray(rows.is_step)
    for h in range(HEADS):
        value = np.roll(q[h].max(axis=1), -1)
        discounts = np.where(np.asarray(rows.terminated) | ~is_step, 0, one.config.discount)
        cuts = np.asarray(rows.truncated) | ~np.roll(is_step, -1)
        trace = AUTO_OUTPUTS[h % len(AUTO_OUTPUTS)].lambda_
        expected = lambda_return(np.where(is_step, rows.reward, 0.0), discounts, value, trace, cuts=cuts)
        np.testing.assert_allclose(np.asarray(pool.targets[h])[is_step], expected[is_step], rtol=1e-4, atol=1e-4)


def test_it_resumes_bit_for_bit_and_each_lane_is_as_if_alone(tmp_path):
    straight = trainer(seeds=(0, 1), num_envs=2, target_period=40)
    rows = straight.run(400)
    assert {"head", "head_return", "head_episodes"} <= set(rows[-1])
    assert len(rows[-1]["head_return"]) == HEADS
    first = trainer(seeds=(0, 1), num_envs=2, target_period=40)
    first.run(214)
    second = trainer(seeds=(0, 1), num_envs=2, target_period=40)
    second.restore(first.save(tmp_path))
    second.run(186)
    assert same(straight.state, second.state)
    alone = trainer(seeds=(1,), num_envs=2, target_period=40)
    alone.run(400)
    assert same(jax.tree.map(lambda x: x[1:], straight.state.lanes), alone.state.lanes)


def test_the_agent_acts_and_exports_with_its_best_head(tmp_path):
    agent = gs.DQN("classic/mountaincar", **SMALL)
    agent.learn(200)
    rate, output = 1, 1
    scores = agent.trainer.state.lanes.heads
    head = rate * len(AUTO_OUTPUTS) + output
    better = scores._replace(total=scores.total.at[0, head].add(1e4), count=scores.count.at[0, head].add(1))
    agent.trainer.state = agent.trainer.state._replace(lanes=agent.trainer.state.lanes._replace(heads=better))
    seen = np.random.default_rng(3).normal(size=(6, 2)).astype(np.float32)
    params = jax.tree.map(lambda x: x[0], agent.trainer.state.lanes.learner.params)
    expected = oracle_head_q(np.asarray(agent.trainer.learner.q_and_support(params, seen)[0]), 3)[head]
    np.testing.assert_allclose(agent.values(seen), expected, rtol=1e-5, atol=1e-5)
    assert isinstance(agent.networks, HeadPolicy)
    assert int(agent.networks.head) == head
    agent.export_policy(tmp_path / "policy.npz")
    np.testing.assert_allclose(
        gs.NumpyPolicy.load(tmp_path / "policy.npz").values(seen), expected, rtol=1e-4, atol=1e-5
    )
    agent.save(tmp_path / "agent.ckpt")
    np.testing.assert_array_equal(gs.load(tmp_path / "agent.ckpt").values(seen), agent.values(seen))


def test_it_learns_from_a_log_and_in_environments_on_the_host():
    agent = gs.DQN("CartPole-v1", **SMALL | {"warmup": 20})
    agent.learn(120)
    assert agent.trainer.state.lanes.heads is not None
    log = {
        "observations": np.random.default_rng(4).normal(size=(50, 4)).astype(np.float32),
        "actions": np.random.default_rng(5).integers(0, 2, 50),
        "rewards": np.ones(50, np.float32),
        "terminals": np.arange(50) % 10 == 9,
    }
    fitted = gs.DQN.from_dataset(log, **SMALL).fit(updates=20)
    assert fitted.predict(np.zeros(4, np.float32)) in (0, 1)


def random_log(episodes=20, steps=12):
    """Episodes of random observations, the last steps with a reward."""
    random, ends = np.random.default_rng(4), np.arange(episodes * steps) % steps == steps - 1
    return {
        "observations": random.normal(size=(len(ends), 2)).astype(np.float32),
        "actions": random.integers(0, 3, len(ends)),
        "rewards": ends * random.normal(size=len(ends)).astype(np.float32),
        "terminals": ends & (np.arange(len(ends)) % (20 * steps) < 15 * steps),
        "timeouts": ends & (np.arange(len(ends)) % (20 * steps) >= 15 * steps),
    }


@pytest.mark.parametrize(
    ("conservatism", "time_limits"), [("none", "bootstrap"), ("bcq", "bootstrap"), ("none", "terminal")]
)
def test_after_a_log_the_head_with_the_largest_r_squared_on_held_out_episodes_acts(conservatism, time_limits):
    log = random_log()
    agent = gs.DQN.from_dataset(log, **SMALL | {"conservatism": conservatism, "time_limits": time_limits})
    agent.fit(updates=30)
    scores, learner = agent.trainer.head_scores(0), agent.trainer.learner
    assert scores.best() == scores.r_squared.argmax()
    assert "R² of the heads on held-out episodes" in scores.explain()

    # The oracle values every held-out step, the agent a sample of them.
    params = jax.tree.map(lambda x: x[0], agent.trainer.state.lanes.learner.params)
    held = [one for number, one in enumerate(Dataset.of(log)) if number % 10 == 9]
    q, targets = [], []
    for one in held:
        (now, _), (after, support) = (
            learner.q_and_support(params, jnp.asarray(x)) for x in (one.observations[:-1], one.observations[1:])
        )
        now, after = oracle_head_q(np.asarray(now), 3), oracle_head_q(np.asarray(after), 3)
        allowed = np.ones(after.shape[1:], bool) if support is None else np.asarray(support)
        for t in range(len(one)):
            best = np.array([max(head[t][allowed[t]]) for head in after])
            q.append(now[:, t, one.actions[t]])
            ends = one.terminated[t] or (time_limits == "terminal" and one.truncated[t])
            targets.append(one.rewards[t] + agent.config.discount * (1 - ends) * best)
    expected = 1 - np.mean((np.array(targets) - np.array(q)) ** 2, axis=0) / np.var(targets, axis=0)
    np.testing.assert_allclose(scores.r_squared, expected, atol=0.1)


def test_episodes_played_later_overrule_the_log():
    scores = HeadScores.init(jax.random.key(0), 1)._replace(r_squared=jnp.arange(HEADS) * 1.0)
    assert scores.best() == HEADS - 1
    assert scores._replace(count=jnp.ones(HEADS), total=jnp.arange(HEADS, 0, -1) * 5.0).best() == 0


@pytest.mark.parametrize("count", [3, 10, 25])
def test_every_tenth_episode_is_held_out(count):
    def episode(number):
        last = np.arange(number + 1) == number
        steps = np.zeros(number + 1, int), np.full(number + 1, float(number)), last, np.zeros(number + 1, bool)
        return gs.Trajectory(np.zeros((number + 2, 2)), *steps)

    log = Dataset.of([episode(number) for number in range(count)])
    learned, held_out = log.split(10)
    numbers = [[int(one.rewards[0]) for one in part] for part in (learned, held_out)]
    if count < 10:
        assert numbers == [list(range(count))] * 2
    else:
        assert numbers[1] == list(range(9, count, 10))
        assert sorted(numbers[0] + numbers[1]) == list(range(count))
    for part in (learned, held_out):
        assert part.steps == sum(map(len, part))
        assert len(part) == len(list(part))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"double": True}, "double: returns='auto'"),
        ({"batch_size": 1}, "batch_size: expected at least one sample per learning rate"),
        ({"lambda_": 0.5}, "lambda_: returns='auto' has no such option"),
    ],
)
def test_settings_that_contradict_it_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        DQNConfig(**SMALL | settings)


def test_a_head_is_described_in_words():
    assert heads.describe(0) == "learning rate x 1, λ = 0.5, mean of the networks"
    assert heads.describe(HEADS - 1) == "learning rate x 3.33, λ = 0.3, minimum of the networks"


def test_watch_says_which_head_plays_and_why(tmp_path, capsys):
    agent = gs.DQN("classic/cartpole", **SMALL)
    agent.learn(100)
    agent.save(tmp_path / "agent.ckpt")
    assert main(["watch", str(tmp_path / "agent.ckpt"), "--steps", "3"]) == 0
    said = capsys.readouterr()
    assert "plays (learning rate x" in said.err
    assert "expected returns of the heads" in said.err
    assert "Q" in said.out or "step" in said.out


def test_a_checkpoint_of_a_version_with_other_heads_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(Trainer, "about", lambda self, about=Trainer.about: about(self) | {"heads": ["another head"]})
    path = trainer().save(tmp_path)
    monkeypatch.undo()
    with pytest.raises(ValueError, match="another version of greedystep, whose 'auto' has other heads"):
        Trainer.load(path)
