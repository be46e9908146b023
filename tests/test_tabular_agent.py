"""The face of the tabular methods: learning on, answering, files."""

import numpy as np
import pytest

import greedystep as gs
from greedystep import envs, models, tabular
from greedystep.envs import toy
from greedystep.tabular import methods


def test_learning_in_parts_is_learning_at_once():
    task = envs.make_task("toy/choice", delay=6, noise=1.0)
    agent = gs.TabularAgent(task, "watkins", seed=3, alpha=0.2)
    parts = [agent.learn(20), agent.learn(30)]
    whole = tabular.learn(task, "watkins", episodes=50, seed=3, alpha=0.2)
    np.testing.assert_array_equal(agent.q, whole.q)
    np.testing.assert_array_equal(np.concatenate([part.returns for part in parts]), whole.returns)
    assert agent.episodes == 50


def test_it_solves_trace_back_and_says_so():
    agent = gs.TabularAgent("toy/trace-back", form="expected", seed=0, epsilon=1.0)
    agent.learn(300)
    assert agent.expected_return() == pytest.approx(100)
    assert agent.predict(0) == models.UP
    np.testing.assert_array_equal(agent.predict([0, 1 + models.UP]), [models.UP, models.RIGHT])


@pytest.mark.filterwarnings("ignore::greedystep.tabular.StochasticityWarning")
@pytest.mark.parametrize(
    ("method", "options"),
    [*((method, {}) for method in tabular.METHODS), *(("greedy-step", {"form": form}) for form in methods.FORMS)],
)
def test_a_saved_agent_goes_on_as_if_it_had_not_been_stopped(method, options, tmp_path):
    agent = gs.TabularAgent(envs.make_task("toy/bomb", delay=2, side=5), method, seed=7, epsilon=0.3, **options)
    agent.learn(10)
    agent.save(tmp_path / "agent.npz")
    again = gs.TabularAgent.load(tmp_path / "agent.npz")
    assert (again.task.num_states, again.episodes, again.method) == (agent.task.num_states, 10, method)
    for one, other in zip(agent.learn(20)[:3], again.learn(20)[:3], strict=True):
        np.testing.assert_array_equal(one, other)


def test_options_and_missing_actions_survive_a_file(tmp_path):
    agent = gs.TabularAgent(envs.make_task("toy/watch-repair", length=3), "n-step-q", n=np.int64(2), alpha=0.5)
    agent.learn(5)
    agent.save(tmp_path / "agent.npz")
    again = gs.TabularAgent.load(tmp_path / "agent.npz")
    assert again.options == {"n": 2, "alpha": 0.5}
    np.testing.assert_array_equal(again.q, agent.q)


def test_it_fits_logs():
    task = envs.make_task("toy/grid-world", size=4)
    agent = gs.TabularAgent(task, q=task.lowest_return)
    agent.fit(tabular.collect(task, episodes=50), sweeps=5)
    assert agent.expected_return() == pytest.approx(task.optimal_return)
    chain = gs.TabularAgent("toy/n-horizon").fit([(np.arange(11) % 10, np.ones(10, int), np.eye(10)[-1], True)])
    assert chain.expected_return() == pytest.approx(0.99**9)


@pytest.mark.parametrize("form", methods.FORMS)
def test_greedy_step_begins_low_enough_by_itself(form):
    agent = gs.TabularAgent("toy/grid-world", form=form, epsilon=0.5)
    agent.learn(300)
    assert agent.expected_return() == pytest.approx(agent.task.optimal_return)


def test_a_task_that_was_not_made_by_name_is_given_to_load(tmp_path):
    task = toy.from_mdp("mine", models.chain(4), 0, 30)
    agent = gs.TabularAgent(task)
    agent.learn(5)
    agent.save(tmp_path / "agent.npz")
    with pytest.raises(ValueError, match=r"env: .* was learned on 'mine', which has to be given"):
        gs.TabularAgent.load(tmp_path / "agent.npz")
    np.testing.assert_array_equal(gs.TabularAgent.load(tmp_path / "agent.npz", task).q, agent.q)
    with pytest.raises(ValueError, match=r"q: expected one number or \[9, 4\]"):
        gs.TabularAgent.load(tmp_path / "agent.npz", envs.make_task("toy/grid-world", size=3))


def test_broken_files_are_answered_by_one_sentence(tmp_path):
    with pytest.raises(FileNotFoundError, match="no such agent file"):
        gs.TabularAgent.load(tmp_path / "none.npz")
    (tmp_path / "text.npz").write_text("hello")
    with pytest.raises(ValueError, match=r"is no agent file of greedystep .it is not an archive of arrays"):
        gs.TabularAgent.load(tmp_path / "text.npz")
    np.save(tmp_path / "array.npy", np.zeros(3))
    with pytest.raises(ValueError, match="is no agent file of greedystep"):
        gs.TabularAgent.load(tmp_path / "array.npy")
    np.savez(tmp_path / "words.npz", format="greedystep-tabular-1", about="not JSON", q=np.zeros((39, 2)))
    with pytest.raises(ValueError, match=r"words\.npz is damaged"):
        gs.TabularAgent.load(tmp_path / "words.npz")
    with open(tmp_path / "half.npz", "wb") as file:
        np.savez(file, format="greedystep-tabular-1", about='{"task": "toy/choice"}', q=np.zeros((39, 2)))
    with pytest.raises(ValueError, match="is damaged: about has no 'made_with'"):
        gs.TabularAgent.load(tmp_path / "half.npz")
    for form, array in (("stored", "memory_actions"), ("expected", "memory_successor")):
        agent = gs.TabularAgent("toy/choice", form=form)
        agent.learn(3)
        agent.save(tmp_path / "whole.npz")
        with np.load(tmp_path / "whole.npz") as archive:
            arrays = dict(archive)
        for name, wrong in ((array, arrays[array] + 1000), (array, arrays[array][:-1]), (array, None)):
            broken = {k: v for k, v in (arrays | {name: wrong}).items() if v is not None}
            np.savez(tmp_path / "broken.npz", **broken)
            with pytest.raises(ValueError, match="is damaged"):
                gs.TabularAgent.load(tmp_path / "broken.npz")
    models.chain(3).save(tmp_path / "model.npz")
    with pytest.raises(ValueError, match="is no agent file of greedystep"):
        gs.TabularAgent.load(tmp_path / "model.npz")


def test_repr_says_what_learned_where_and_how_long():
    agent = gs.TabularAgent("toy/choice", "watkins")
    agent.learn(5)
    assert repr(agent) == "TabularAgent('toy/choice', method='watkins', 5 episodes)"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"env": "toy/nothing"}, "name: 'toy/nothing' is not one of"),
        ({"method": "magic"}, "method: 'magic' is not one of"),
        ({"n": 3}, "n: greedy-step has no such option"),
        ({"epsilon": 2}, r"epsilon: expected a number in \[0, 1\]"),
        ({"q": np.zeros(3)}, "q: expected one number or"),
    ],
)
def test_bad_arguments_are_answered_by_one_sentence(arguments, message):
    with pytest.raises(ValueError, match=message):
        gs.TabularAgent(**({"env": "toy/choice"} | arguments))


def test_bad_states_are_answered_by_one_sentence():
    agent = gs.TabularAgent("toy/choice")
    with pytest.raises(ValueError, match=r"states: expected numbers in 0\.\.38, got 39 to 39"):
        agent.predict(39)
    with pytest.raises(ValueError, match="states: expected integers, got float64"):
        agent.predict(0.5)
    with pytest.raises(ValueError, match="states: expected integers, got float64"):
        agent.predict([np.nan, 1])


def test_a_log_that_does_not_fit_leaves_the_table_as_it_was():
    agent = gs.TabularAgent("toy/choice")
    before = agent.q.copy()
    with pytest.raises(ValueError, match="state 99 is not in"):
        agent.fit([([0, 99], [0], [5.0], True)])
    np.testing.assert_array_equal(agent.q, before)


@pytest.mark.parametrize("method", ["greedy-step", "q-learning", "model"])
def test_a_log_of_actions_that_a_state_does_not_have_is_refused(method):
    agent = gs.TabularAgent(envs.make_task("toy/watch-repair", length=3), method)
    before = agent.q.copy()
    state, action = np.argwhere(~agent.task.mdp.available)[0]  # pyright: ignore[reportAttributeAccessIssue]
    with pytest.raises(ValueError, match=f"log, episode 1, step 0: state {state} does not have action {action}"):
        agent.fit([([0, 0], [0], [5.0], False), ([state, 0], [action], [5.0], True)])
    np.testing.assert_array_equal(agent.q, before)


def test_stored_episodes_keep_the_names_of_their_arrays_in_files(tmp_path):
    agent = gs.TabularAgent(envs.make("toy/choice", delay=3), form="stored")  # an environment is as good as its task
    agent.learn(3)
    agent.save(tmp_path / "agent.npz")
    with np.load(tmp_path / "agent.npz") as arrays:
        kept = {name for name in arrays if name.startswith("memory_")}
    assert kept == {f"memory_{name}" for name in ("first", "states", "actions", "rewards", "chances", "terminated")}
