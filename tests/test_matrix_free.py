"""Models without a matrix, and value iteration in blocks: against the explicit model, and against exact values."""

import time

import numpy as np
import oracles
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import greedystep as gs
from greedystep import checks, mdp_checks, models, provenance
from greedystep.planning import backups, block_kernels, blocked_value_iteration, kernels, policy_iteration

ACTIONS = 3  # of all models made of arrays, which then share compiled loops
SIDE = 12


def grid_row(s, a, side, slip):
    """A slippery grid: four moves, an episode that ends in the last cell, no way up in the first column."""
    if s == side * side - 1:
        return (-1, -1, -1), (1.0, 0.0, 0.0), 0.0
    row, column = s // side, s % side
    up, right = max(row - 1, 0) * side + column, row * side + min(column + 1, side - 1)
    down, left = min(row + 1, side - 1) * side + column, row * side + max(column - 1, 0)
    to = (up, right, left) if a == 0 else (right, down, up) if a == 1 else (down, left, right)
    return to, (1 - slip, slip / 2, slip / 2), -1.0 if a > 0 or column > 0 else -np.inf


@pytest.fixture(scope="module")
def grid():
    return gs.MatrixFreeMDP(grid_row, SIDE * SIDE, ACTIONS, 0.97, args=(SIDE, 0.2))


@pytest.fixture
def small_blocks(monkeypatch):
    """Blocks of a few states, on two threads, so that small models have many of them."""
    monkeypatch.setattr(blocked_value_iteration, "BLOCK", 16)
    monkeypatch.setattr(blocked_value_iteration, "BLOCKS_PER_PIECE", 1)
    monkeypatch.setattr(provenance, "available_cores", lambda: 2)
    monkeypatch.setattr(kernels, "_pool", None)


def random_arrays(seed, states=40, endless=False):
    """Rows with ends, self-loops, successors that repeat, probabilities of zero and missing actions."""
    random = np.random.default_rng(seed)
    to = random.integers(0 if endless else -1, states, (states, ACTIONS, 4))
    to[:: 1 + seed % 5, 0, 0] = np.arange(states)[:: 1 + seed % 5]
    p = random.dirichlet(np.ones(4), (states, ACTIONS))
    p[random.random((states, ACTIONS)) < 0.2] = (0.0, 0.5, 0.5, 0.0)
    rewards = random.normal(size=(states, ACTIONS))
    rewards[random.random((states, ACTIONS)) < 0.2] = -np.inf
    rewards[:, seed % ACTIONS] = random.normal(size=states)
    return to, p, rewards


def from_arrays(to, p, rewards, discount):
    rows = lambda begin, end: (to[begin:end], p[begin:end], rewards[begin:end])  # noqa: E731
    return gs.MatrixFreeMDP.from_blocks(rows, *rewards.shape, discount)


# -- the model --------------------------------------------------------------------------------------------------------


def test_rows_of_a_function_make_the_same_mdp(grid):
    explicit = grid.to_mdp()
    row_of = explicit.transitions.toarray().reshape(SIDE * SIDE, ACTIONS, -1)  # pyright: ignore
    for s in (0, 5, SIDE, 77, SIDE * SIDE - 1):
        for a in range(ACTIONS):
            to, p, reward = grid_row(s, a, SIDE, 0.2)
            expected = np.zeros(SIDE * SIDE + 1)
            np.add.at(expected, list(to), p)  # the successor -1 counts in the last place
            assert explicit.rewards[s, a] == reward
            if reward > -np.inf:
                np.testing.assert_allclose(row_of[s, a], expected[:-1])
                assert explicit.termination[s, a] == expected[-1]  # pyright: ignore[reportOptionalSubscript]
    assert grid.row_sums == explicit.row_sums == (0.0, 1.0)
    assert (grid.largest_reward, grid.widest_row) == (1.0, 3)
    v = np.random.default_rng(0).normal(size=SIDE * SIDE)
    np.testing.assert_allclose(grid.backup(v), explicit.backup(v))


def test_solutions_agree_and_carry_true_bounds(grid):
    exact = oracles.exact_optimum(grid.to_mdp())
    solution = gs.solve(grid)
    assert solution.converged
    assert np.abs(solution.v - exact).max() <= solution.error_bound <= 1e-6
    assert solution.policy.dtype == np.int8
    value = oracles.exact_policy_value(grid.to_mdp(), solution.policy.astype(int))
    assert (exact - value).max() <= solution.policy_loss_bound + 1e-12
    np.testing.assert_allclose(solution.q, oracles.optimal_q(grid.to_mdp()), atol=1e-6)
    assert (solution.q.argmax(axis=1) == solution.policy).all()


@given(st.integers(0, 2**32 - 1), st.sampled_from([0.5, 0.9, 0.99]), st.booleans())
@settings(max_examples=25, deadline=None)
def test_random_models_are_solved_within_their_bounds(seed, discount, endless):
    mdp = from_arrays(*random_arrays(seed, endless=endless), discount)
    exact = oracles.exact_optimum(mdp.to_mdp())
    for tolerance in (1e-2, 1e-8):
        solution = gs.solve(mdp, tolerance=tolerance)
        assert np.abs(solution.v - exact).max() <= solution.error_bound + 1e-11
        assert solution.converged
    assert np.abs(gs.solve(mdp, initial=exact + 3.0).v - exact).max() <= 1e-6


def test_a_bound_includes_rounding():
    """Values of 1e10 are known to about 1e-4 only: the bound says so, and it is true."""
    to, p, rewards = random_arrays(3)
    solution = gs.solve(mdp := from_arrays(to, p, 1e9 * rewards, 0.9))
    exact = oracles.exact_optimum(mdp.to_mdp())
    assert not solution.converged
    assert "float64 cannot prove more" in solution.message
    assert 1e-6 < solution.error_bound < 1e-3
    assert np.abs(solution.v - exact).max() <= solution.error_bound


# -- blocks -----------------------------------------------------------------------------------------------------------


def test_blocks_on_two_threads_give_the_same_values_every_time(grid, small_blocks):
    first, again = gs.solve(grid), gs.solve(grid)
    np.testing.assert_array_equal(first.v, again.v)
    assert np.abs(first.v - oracles.exact_optimum(grid.to_mdp())).max() <= first.error_bound <= 1e-6


LARGE = {
    "grid": lambda: models.grid(15, 17, slip=0.3, discount=0.98),
    "maze": lambda: models.maze(15, 15, slip=0.1, discount=0.99),
    "chain": lambda: models.chain(500, 0.999),
    "no end": lambda: models.grid(14, 14, slip=0.6, goal_reward=5.0, discount=0.95).with_rewards(
        np.random.default_rng(0).normal(size=(196, 4))
    ),
}


@pytest.mark.parametrize("name", LARGE)
def test_a_large_model_is_solved_in_blocks_without_a_copy(name, small_blocks, monkeypatch):
    mdp = LARGE[name]()
    usual = gs.solve(mdp, tolerance=1e-9)
    monkeypatch.setattr(policy_iteration, "reordered_table", lambda *_: pytest.fail("made a copy"))
    monkeypatch.setattr(policy_iteration, "LARGE", 1)
    solution = gs.solve(mdp)
    assert solution.converged
    assert np.abs(solution.v - usual.v).max() <= solution.error_bound + usual.error_bound


def test_a_large_model_that_mixes_is_solved_without_a_copy_of_its_policies(monkeypatch):
    mdp = models.garnet(300, 4, 3, discount=0.99)
    usual = gs.solve(mdp, tolerance=1e-9)
    monkeypatch.setattr(backups, "LARGE", 1)
    monkeypatch.setattr(backups, "PolicyEvaluator", lambda *_: pytest.fail("made a copy"))
    monkeypatch.setattr(kernels, "PARALLEL_FROM", 1)
    solution = gs.solve(mdp, tolerance=1e-9)
    assert solution.converged
    assert solution.iterations == usual.iterations
    np.testing.assert_allclose(solution.v, usual.v, rtol=1e-12)


def test_a_large_model_with_a_useless_numbering_is_reordered(monkeypatch):
    monkeypatch.setattr(policy_iteration, "LARGE", 1)
    monkeypatch.setattr(blocked_value_iteration, "BLOCK", 4)
    monkeypatch.setattr(blocked_value_iteration, "MOST_READS", 2)
    mdp = models.renumbered(models.grid(12, 12, slip=0.2))
    solution = gs.solve(mdp)
    assert np.abs(solution.v - oracles.optimal_q(mdp).max(axis=1)).max() <= solution.error_bound + 1e-9


def test_a_value_that_flows_through_many_blocks_visits_each_about_once(small_blocks, monkeypatch):
    """On a chain whose reward is at its end, one pass from there solves everything."""
    monkeypatch.setattr(policy_iteration, "LARGE", 1)
    assert gs.solve(models.chain(2000, 0.99)).sweeps < 12


def test_readers_are_the_blocks_that_lead_to_a_block(small_blocks):
    mdp = models.grid(20, 8, slip=0.2)
    model = blocked_value_iteration.TableBlocks(
        policy_iteration.SparseModel(mdp, policy_iteration_table(mdp)), mdp.row_sums
    )
    found = blocked_value_iteration.block_readers(model, mdp.num_states, policy_iteration.Deadline())
    assert found is not None
    start, block = found
    matrix = (np.abs(mdp.transitions.toarray()) > 0).reshape(160, 4, 160).any(axis=1)  # pyright: ignore
    for target in range(10):
        own = slice(16 * target, 16 * target + 16)
        expected = {s // 16 for s in np.flatnonzero(matrix[:, own].any(axis=1))} - {target}
        assert set(block[start[target] : start[target + 1]].tolist()) == expected


def policy_iteration_table(mdp):
    from greedystep.planning.transition_tables import as_table

    return as_table(mdp)


# -- stopping early ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stop", [{"max_iterations": 2}, {"callback": lambda progress: progress.iteration == 2}])
def test_a_stopped_solve_has_a_true_bound(grid, stop):
    solution = gs.solve(grid, **stop)
    assert not solution.converged
    assert solution.message.startswith("stopped")
    assert solution.error_bound < np.inf
    assert np.abs(solution.v - oracles.exact_optimum(grid.to_mdp())).max() <= solution.error_bound


def test_the_time_limit_holds_within_a_pass():
    def slow(begin, end):
        time.sleep(0.01)
        return tuple(one[begin:end] for one in arrays)

    arrays = random_arrays(5, states=20_000, endless=True)
    mdp = gs.MatrixFreeMDP.from_blocks(slow, 20_000, ACTIONS, 0.999)
    gs.solve(from_arrays(*random_arrays(5), 0.9))  # everything is compiled
    began = time.perf_counter()
    solution = gs.solve(mdp, tolerance=1e-12, time_limit=0.3)
    assert time.perf_counter() - began < 5.0
    assert "time limit" in solution.message
    assert solution.error_bound < np.inf


def test_ctrl_c_keeps_what_was_reached(grid):
    def interrupt(progress):
        raise KeyboardInterrupt

    solution = gs.solve(grid, callback=interrupt)
    assert solution.message.startswith("interrupted")
    assert np.abs(solution.v - oracles.exact_optimum(grid.to_mdp())).max() <= solution.error_bound < np.inf


# -- bad input --------------------------------------------------------------------------------------------------------


def wrong_arrays(change):
    to, p, rewards = random_arrays(1)
    rewards[:] = 0.0
    change(to, p, rewards)
    return to, p, rewards


def set_entry(which, index, value):
    def change(*arrays):
        arrays[which][index] = value

    return change


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (set_entry(0, (7, 1, 2), 40), r"rows: state 7, action 1 leads to state 40; expected 0..39, or -1 for the end"),
        (set_entry(0, (7, 1, 2), -2), r"rows: state 7, action 1 leads to state -2"),
        (set_entry(1, (7, 1), -0.5), r"rows: state 7, action 1 has the probability -0.5; probabilities must be >= 0"),
        (set_entry(1, (7, 1, 0), np.nan), r"rows: state 7, action 1 has the probability nan"),
        (set_entry(1, (7, 1), 0.5), r"rows: state 7, action 1 has probabilities that sum to 2, not to 1"),
        (set_entry(2, (7, 1), np.nan), r"rows: state 7, action 1 has the reward nan; rewards must be finite"),
        (set_entry(2, 7, -np.inf), r"rows: state 7 has no available action"),
    ],
)
def test_a_wrong_row_is_named(change, message):
    with pytest.raises(ValueError, match=message):
        from_arrays(*wrong_arrays(change), 0.9)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: gs.MatrixFreeMDP(3, 4, 2, 0.9), "row: expected a function"),  # pyright: ignore[reportArgumentType]
        (lambda: gs.MatrixFreeMDP(grid_row, 4, 3, 0.9, args=[2]), "args: expected a tuple"),  # pyright: ignore
        (lambda: gs.MatrixFreeMDP(grid_row, 4, 3, 0.9), "row: it cannot be called with a state, an action and `args`"),
        (lambda: gs.MatrixFreeMDP(lambda s, a: undefined, 4, 3, 0.9), "row: numba cannot compile the function"),  # noqa: F821 # pyright: ignore
        (
            lambda: gs.MatrixFreeMDP(lambda s, a: s, 4, 3, 0.9),
            "row: expected .successors, probabilities, reward., got 0",
        ),
        (lambda: gs.MatrixFreeMDP(grid_row, 0, 3, 0.9), "num_states: expected an integer >= 1"),
        (
            lambda: gs.MatrixFreeMDP(grid_row, 4, 3, 1.0, args=(2, 0.2)),
            "discount: a matrix-free model needs a discount",
        ),
        (lambda: gs.MatrixFreeMDP.from_blocks(4, 4, 3, 0.9), "rows: expected a function"),  # pyright: ignore
        (lambda: gs.MatrixFreeMDP.from_blocks(lambda b, e: 0, 4, 3, 0.9), "rows: expected .successors"),
        (
            lambda: gs.MatrixFreeMDP.from_blocks(lambda b, e: (np.zeros((4, 3, 1)),) * 3, 4, 3, 0.9),
            r"rows: for states 0 to 4 expected successors int \[4, 3, b\]",
        ),
    ],
)
def test_wrong_arguments_get_one_sentence(make, message):
    with pytest.raises(ValueError, match=message) as raised:
        make()
    assert "\n" not in str(raised.value)


def test_what_needs_a_matrix_says_so(grid):
    with pytest.raises(ValueError, match=r"method: 'policy-iteration' needs a matrix, which mdp.to_mdp\(\) makes"):
        gs.solve(grid, "policy-iteration")
    with pytest.raises(ValueError, match=r"initial: expected finite values float \[144\]"):
        gs.solve(grid, initial=np.zeros(3))


def test_too_many_states_are_refused_before_anything_is_allocated(grid, monkeypatch):
    monkeypatch.setattr(checks, "NEVER_REFUSED", 0)
    monkeypatch.setattr(checks, "free_memory", lambda: 1000)
    for work in (lambda: gs.solve(grid), grid.to_mdp, lambda: grid.backup(np.zeros(144))):
        with pytest.raises(MemoryError, match=r"144 states"):
            work()


# -- memory of explicit models ----------------------------------------------------------------------------------------


def test_rows_are_checked_in_parts_with_the_same_result(monkeypatch):
    whole = models.grid(9, 9, slip=0.2)
    monkeypatch.setattr(mdp_checks, "ROWS_AT_ONCE", 10)
    assert models.grid(9, 9, slip=0.2).row_sums == whole.row_sums
    broken = whole.transitions.copy()
    broken.data[broken.indptr[4 * 57 + 2]] += 0.1  # pyright: ignore[reportAttributeAccessIssue]
    with pytest.raises(ValueError, match=r"the row and its termination of state 57, action 2 \(row 230\) sums to"):
        gs.MDP(broken, whole.rewards, 0.9, termination=whole.termination)


def test_the_largest_reward_leaves_out_missing_actions():
    rewards = np.array([[1.0, -np.inf], [-3.0, 2.0]])
    assert gs.MDP(np.full((2, 2, 2), 0.5), rewards, 0.9).largest_reward == 3.0


def test_names_that_loops_are_bound_to_exist():
    """`specialised` binds global names of block_kernels; a loop that is not bound must not run on something else."""
    assert (block_kernels.row, block_kernels.sweep, block_kernels.list_reads, block_kernels.ACTIONS) == (None,) * 3 + (
        0,
    )
