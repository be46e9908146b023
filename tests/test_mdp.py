"""The MDP container: every way in, every check, other rewards and policies."""

from typing import Any

import numpy as np
import oracles
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from greedystep.mdp import MDP

seeds = st.integers(0, 2**32 - 1)
thorough = settings(max_examples=40, deadline=None)

P = np.array([[[0.0, 1.0], [0.5, 0.5]], [[1.0, 0.0], [0.0, 1.0]]])  # [S, A, S]
R = np.array([[1.0, 2.0], [3.0, 4.0]])


def sparse(p: np.ndarray = P, kind=sp.csr_array):
    S, A, _ = p.shape
    return kind(np.asarray(p).reshape(S * A, S))


def assert_same_model(one: MDP, other: MDP) -> None:
    np.testing.assert_array_equal(oracles.dense(one), oracles.dense(other))
    np.testing.assert_array_equal(one.rewards, other.rewards)
    np.testing.assert_array_equal(one.terminal, other.terminal)
    ends = [np.zeros(one.rewards.shape) if m.termination is None else m.termination for m in (one, other)]
    np.testing.assert_array_equal(*ends)
    assert one.discount == other.discount
    assert one.row_sums == other.row_sums


def refuse(match: str, *arguments, **options) -> None:
    with pytest.raises(ValueError, match=match):
        MDP(*arguments, **options)


# -- every way in -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "kind", [sp.csr_array, sp.csc_array, sp.coo_array, sp.csr_matrix, sp.csc_matrix, sp.coo_matrix, sp.lil_array]
)
def test_every_kind_of_transitions_is_the_same_model(kind):
    mdp = MDP(sparse(kind=kind), R, 0.9)
    assert isinstance(mdp.transitions, sp.csr_array)
    assert_same_model(mdp, MDP(P, R, 0.9))
    assert (mdp.num_states, mdp.num_actions) == (2, 2)


@pytest.mark.parametrize("convert", [np.asarray, np.ndarray.tolist, lambda p: p.astype(np.float32), np.asfortranarray])
def test_dense_transitions_of_any_form(convert):
    assert_same_model(MDP(convert(P), R.tolist(), 0.9), MDP(P, R, 0.9))


def test_a_csr_matrix_of_float64_is_not_copied():
    for kind in (sp.csr_array, sp.csr_matrix):
        matrix = sparse(kind=kind)
        mdp = MDP(matrix, R, 0.9)
        for name in ("data", "indices", "indptr"):
            assert np.shares_memory(getattr(mdp.transitions, name), getattr(matrix, name)), name


def test_other_sparse_types_become_float64_with_int32_indices():
    matrix: Any = sparse().astype(np.float32)
    matrix.indices, matrix.indptr = matrix.indices.astype(np.int64), matrix.indptr.astype(np.int64)
    transitions: Any = MDP(matrix, R, 0.9).transitions
    assert transitions.dtype == np.float64
    assert transitions.indices.dtype == transitions.indptr.dtype == np.int32


def by_action(p):
    """[S, A, S] -> [A, S, S]"""
    return np.swapaxes(p, 0, 1)


def per_action_forms(p):
    """Every form of one matrix [S, S] per action that the constructor takes; dense ones need A != S."""
    forms = {
        "sparse": [sp.csr_matrix(one) for one in by_action(p)],
        "sparse arrays": tuple(sp.coo_array(one) for one in by_action(p)),
        "mixed": [sp.csr_array(by_action(p)[0]), *by_action(p)[1:]],
        "objects": np.array([sp.csr_matrix(one) for one in by_action(p)] + [None], object)[:-1],
    }
    if p.shape[0] != p.shape[1]:
        forms |= {"array": by_action(p), "arrays": list(by_action(p)), "lists": by_action(p).tolist()}
    return forms


@given(seeds)
@thorough
def test_one_matrix_per_action_is_the_same_model(seed):
    random = np.random.default_rng(seed)
    S, A = random.integers(1, 5), random.integers(1, 4)
    p, r = random.dirichlet(np.ones(S), (S, A)), random.normal(size=(S, A, S))
    states, actions = random.normal(size=S), random.normal(size=(S, A))
    some = np.where(np.arange(A) == A - 1, actions, -np.inf)
    same = [
        *((form, np.repeat(states[:, None], A, axis=1)) for form in (states, states.tolist())),
        *((form, np.asarray(form)) for form in (actions, actions.tolist(), some)),
        (sparse(r), r),
        *((form, r) for form in (by_action(r), list(by_action(r)), [sp.csr_matrix(one) for one in by_action(r)])),
    ]
    for transitions in per_action_forms(p).values():
        for rewards, by_state in same:
            mdp, expected = MDP(transitions, rewards, 0.9), MDP(p, by_state, 0.9)
            np.testing.assert_array_equal(oracles.dense(mdp), oracles.dense(expected))
            np.testing.assert_allclose(mdp.rewards, expected.rewards, rtol=1e-12, atol=1e-12)


def test_dense_matrices_per_action_stay_dense():
    p = np.full((3, 2, 3), 1 / 3)
    for mdp in (MDP(by_action(p), np.zeros(3), 0.9), MDP.from_action_matrices(by_action(p), np.zeros(3), 0.9)):
        assert isinstance(mdp.transitions, np.ndarray)


def test_masks_and_terminations_go_with_one_matrix_per_action():
    p = np.full((3, 2, 3), 1 / 6)
    ends, over = np.full((3, 2), 0.5), [False, False, True]
    assert_same_model(
        MDP([sp.csr_array(one) for one in by_action(p)], np.ones((3, 2)), 0.9, termination=ends, terminal=over),
        MDP(sparse(p), np.ones((3, 2)), 0.9, termination=ends, terminal=over),
    )


def test_a_square_array_is_read_by_state_and_a_list_of_as_many_matrices_is_refused():
    assert_same_model(MDP(P.tolist(), R, 0.9), MDP(P, R, 0.9))
    assert_same_model(MDP.from_action_matrices(list(P), R, 0.9), MDP(by_action(P), R, 0.9))
    refuse(r"transitions: a list of 2 matrices \[2, 2\] can be one per state or one per action; .* "
           r"MDP\.from_action_matrices", list(P), R, 0.9)  # fmt: skip


def test_an_error_says_when_only_the_other_reading_of_a_square_array_sums_to_one():
    p, over = np.full((3, 3, 3), 1 / 3), [False, False, True]
    p[:, 2] = 0.0  # [A, S, S]: state 2 is the end
    hint = r"sums to 0, not to 1; with the first two axes exchanged all rows do: .*MDP\.from_action_matrices"
    refuse(hint, p, np.zeros((3, 3)), 0.9, terminal=over)
    assert MDP.from_action_matrices(p, np.zeros(3), 0.9, terminal=over).terminal[2]
    with pytest.raises(ValueError, match="with the first two axes exchanged all rows do: MDP takes"):
        MDP.from_action_matrices(by_action(p), np.zeros(3), 0.9, terminal=over)
    with pytest.raises(ValueError, match=r"sums to 0, not to 1$"):
        MDP(p, np.zeros((3, 3)), 0.9)


def test_matrices_per_action_that_do_not_fit_are_refused():
    one = sp.eye_array(3).tocsr()
    refuse("transitions: expected one square matrix .* per action, got shapes", [one, sp.eye_array(2)], R, 0.9)
    refuse(
        r"transitions: expected a dense .*MDP\.from_action_matrices.* different shapes", [np.eye(2), np.eye(3)], R, 0.9
    )
    refuse(r"rewards: expected 2 matrices \[3, 3\], one per action, got 1 of shapes", [one, one], [one], 0.9)
    refuse(r"rewards: expected 2 matrices \[3, 3\], one per action, got 2 of", [one, one], [one, sp.eye_array(2)], 0.9)
    refuse(r"rewards: expected \[S, A\] = \[3, 2\] .* got shape \[2, 3\]", [one, one], np.zeros((2, 3)), 0.9)
    refuse(r"got shape \[2\]; MDP\.from_action_matrices takes \[S\]", P, [1.0, 2.0], 0.9)
    refuse(r"got \[5, 2\]; MDP\.from_action_matrices takes one \[S, S\] per action", sp.csr_array((5, 2)), R, 0.9)


def test_dense_input_stays_dense_only_where_it_is_smaller():
    assert isinstance(MDP(P, R, 0.9).transitions, np.ndarray)
    assert sp.issparse(MDP(np.eye(8)[:, None], np.zeros((8, 1)), 0.9).transitions)


def test_the_given_arrays_are_left_alone():
    matrix, rewards = sparse(), R.copy()
    before = matrix.toarray()
    MDP(matrix, rewards, 0.9, terminal=np.array([False, True]))
    np.testing.assert_array_equal(matrix.toarray(), before)
    np.testing.assert_array_equal(rewards, R)


@given(seeds)
@thorough
def test_rewards_on_arrival_are_averaged(seed):
    random = np.random.default_rng(seed)
    S, A = random.integers(1, 5), random.integers(1, 4)
    p = random.dirichlet(np.ones(S), (S, A)) * (random.random((S, A, S)) < 0.7) + 1e-3
    p /= p.sum(axis=2, keepdims=True)
    r = random.normal(size=(S, A, S))
    expected = [[sum(p[s, a, t] * r[s, a, t] for t in range(S)) for a in range(A)] for s in range(S)]
    for transitions in (p, sparse(p)):
        for rewards in (r, sparse(r), sparse(r, sp.coo_matrix)):
            np.testing.assert_allclose(MDP(transitions, rewards, 0.9).rewards, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("transitions", [P, sparse()])
def test_terminal_states_have_value_zero_whatever_their_rows_say(transitions):
    mdp = MDP(transitions, R, 0.9, terminal=[False, True])
    np.testing.assert_array_equal(mdp.terminal, [False, True])
    np.testing.assert_array_equal(mdp.rewards[1], 0)
    np.testing.assert_array_equal(mdp.termination, [[0, 0], [1, 1]])
    np.testing.assert_array_equal(mdp.backup(np.array([5.0, 7.0]))[1], 0)
    assert mdp.row_sums == (0.0, 1.0)


def test_rows_of_terminal_states_and_missing_actions_may_hold_anything():
    p, r = P.copy(), R.copy()
    p[1], p[0, 1] = np.nan, -3.0
    for transitions in (p, sparse(p)):
        mdp = MDP(transitions, r, 0.9, terminal=[False, True], available=[[True, False], [True, True]])
        np.testing.assert_array_equal(oracles.dense(mdp)[1], 0)
        np.testing.assert_array_equal(mdp.backup(np.array([1.0, 2.0])), [[1.0 + 0.9 * 2.0, -np.inf], [0, 0]])


def test_unavailable_actions_by_mask_or_by_reward():
    mask = np.array([[True, False], [True, True]])
    by_mask = MDP(P, R, 0.9, available=mask)
    by_reward = MDP(P, np.where(mask, R, -np.inf), 0.9)
    assert_same_model(by_mask, by_reward)
    np.testing.assert_array_equal(by_mask.available, mask)
    assert by_mask.rewards[0, 1] == -np.inf


def test_a_terminal_state_needs_no_available_action():
    mdp = MDP(P, R, 0.9, terminal=[False, True], available=[[True, True], [False, False]])
    np.testing.assert_array_equal(mdp.terminal, [False, True])


def test_the_termination_of_an_unavailable_action_is_ignored():
    p, r = [[[1.0, 0.0], [0.5, 0.0]], [[0.0, 0.5], [0.0, 1.0]]], [[1.0, -np.inf], [1.0, 1.0]]
    ends = np.array([[0.0, 0.5], [0.5, 0.0]])
    np.testing.assert_array_equal(MDP(p, r, 0.9, termination=ends).termination, [[0, 0], [0.5, 0]])
    refuse("discount: 1 needs a terminal state within reach of every state, and state 0", p, r, 1.0, termination=ends)
    silent = MDP([[[0.0, 1.0], [1.0, 0.0]], [[0.0, 1.0], [0.0, 1.0]]], [[1.0, -np.inf], [0.0, -np.inf]], 1.0)
    np.testing.assert_array_equal(silent.termination, [[0, 0], [1, 0]])


def test_termination_is_what_the_row_lacks():
    p = P.copy()
    p[0, 1] *= 0.25
    ends = np.array([[0, 0.75], [0, 0]])
    for transitions in (p, sparse(p)):
        mdp = MDP(transitions, R, 0.9, termination=ends)
        np.testing.assert_array_equal(mdp.termination, ends)
        assert mdp.row_sums == (0.25, 1.0)
        assert mdp.backup(np.ones(2))[0, 1] == 2.0 + 0.9 * 0.25
        assert not mdp.terminal.any()


def test_deterministic_means_one_outcome_a_step():
    one = np.array([[[0.0, 1.0]], [[1.0, 0.0]]])
    r = np.zeros((2, 1))
    assert MDP(one, r, 0.9).deterministic
    assert MDP(sparse(one), r, 0.9).deterministic
    assert not MDP(P, R, 0.9).deterministic
    assert not MDP(sparse(), R, 0.9).deterministic
    assert not MDP(one * [[[0.5]], [[1.0]]], r, 0.9, termination=[[0.5], [0.0]]).deterministic
    assert MDP(one * [[[0.0]], [[1.0]]], r, 0.9, termination=[[1.0], [0.0]]).deterministic
    stored_zero = sp.csr_array((np.array([1.0, 0.0, 1.0]), np.array([1, 0, 0]), np.array([0, 2, 3])), shape=(2, 2))
    assert MDP(stored_zero, r, 0.9).deterministic


def test_rows_may_miss_one_by_what_float32_tables_do():
    mdp = MDP(P * (1 + 5e-7), R, 0.9)
    assert mdp.row_sums == (pytest.approx(1 + 5e-7, abs=1e-12), pytest.approx(1 + 5e-7, abs=1e-12))


def test_repr_says_the_size():
    assert repr(MDP(P, R, 0.9)) == "MDP(2 states, 2 actions, dense, discount 0.9)"
    assert repr(MDP(sparse(), R, 0.9)) == "MDP(2 states, 2 actions, 5 transitions, discount 0.9)"


@given(seeds)
@thorough
def test_backup_is_the_sum_over_successors(seed):
    random = np.random.default_rng(seed)
    mdp = oracles.random_mdp(random)
    v = random.normal(size=mdp.num_states)
    p = oracles.dense(mdp)
    for s in range(mdp.num_states):
        for a in range(mdp.num_actions):
            expected = mdp.rewards[s, a] + mdp.discount * sum(p[s, a, t] * v[t] for t in range(mdp.num_states))
            assert mdp.backup(v)[s, a] == pytest.approx(expected, rel=1e-12, abs=1e-12)


# -- bad input --------------------------------------------------------------------------------------------------------


def changed(array, place, value):
    array = array.copy()
    array[place] = value
    return array


@pytest.mark.parametrize("form", [np.asarray, sparse])
def test_a_row_that_does_not_sum_to_one_is_named(form):
    refuse(r"state 1, action 0 \(row 2\) sums to 0.9, not to 1", form(changed(P, (1, 0, 0), 0.9)), R, 0.9)
    refuse(r"state 0, action 1 \(row 1\) sums to 1.00001,", form(changed(P, (0, 1, 1), 0.50001)), R, 0.9)
    refuse(r"the row and its termination of state 0, action 0 \(row 0\) sums to 1.5,", form(P), R, 0.9,
           termination=[[0.5, 0], [0, 0]])  # fmt: skip


@pytest.mark.parametrize("form", [np.asarray, sparse])
def test_a_bad_probability_is_named(form):
    bad = changed(changed(P, (0, 1, 0), 1.5), (0, 1, 1), -0.5)
    refuse(r"p\(s'=1 \| s=0, a=1\) is -0.5; probabilities must be >= 0", form(bad), R, 0.9)
    refuse(r"p\(s'=0 \| s=1, a=0\) is nan", form(changed(P, (1, 0, 0), np.nan)), R, 0.9)
    refuse(r"state 1, action 0 .* sums to inf", form(changed(P, (1, 0, 0), np.inf)), R, 0.9)


@pytest.mark.parametrize("form", [np.asarray, sparse])
def test_a_nan_probability_is_found_under_rewards_on_arrival(form):
    refuse(r"p\(s'=0 \| s=1, a=0\) is nan", form(changed(P, (1, 0, 0), np.nan)), np.ones((2, 2, 2)), 0.9)


@pytest.mark.parametrize("shape", [(2, 2), (2, 2, 3), (2,), (0, 0, 0), (2, 0, 2), (1, 2, 2, 2)])
def test_dense_transitions_of_the_wrong_shape(shape):
    refuse(r"transitions: expected a dense \[S, A, S\] .* got shape \[", np.zeros(shape), R, 0.9)


@pytest.mark.parametrize("shape", [(5, 2), (0, 2), (1, 2)])
def test_sparse_transitions_of_the_wrong_shape(shape):
    refuse(rf"\[S\*A, S\] with row s\*A \+ a, got \[{shape[0]}, {shape[1]}\]", sp.csr_array(shape), R, 0.9)


def test_transitions_that_are_no_numbers():
    refuse("transitions: expected numbers, got bool", P > 0, R, 0.9)
    refuse("transitions: expected numbers, got <U", np.full((2, 2, 2), "x"), R, 0.9)
    refuse("transitions: expected a dense", None, R, 0.9)


def test_bad_rewards():
    refuse(r"rewards: expected \[S, A\] = \[2, 2\] or \[S, A, S\], got shape \[2\]", P, [1.0, 2.0], 0.9)
    refuse(
        r"got shape \[3, 2\]; these may be \[A, S\]: give the transpose", np.full((2, 3, 2), 0.5), np.ones((3, 2)), 0.9
    )
    refuse(r"rewards: r\[0, 1\] is nan", P, changed(R, (0, 1), np.nan), 0.9)
    refuse(r"rewards: r\[1, 1\] is inf", P, changed(R, (1, 1), np.inf), 0.9)
    refuse("rewards: expected an array of real numbers", P, [["a", "b"], ["c", "d"]], 0.9)
    refuse("rewards: expected an array of real numbers", P, [[1.0], [1.0, 2.0]], 0.9)
    refuse(r"sparse rewards must be \[S\*A, S\] = \[4, 2\], got \[2, 2\]", P, sp.csr_array(R), 0.9)
    for bad in (np.nan, np.inf, -np.inf):
        r = changed(np.ones((2, 2, 2)), (0, 0, 1), bad)
        refuse(r"rewards: every entry of \[S, A, S\] rewards must be finite", P, r, 0.9)
        refuse(r"rewards: every entry of \[S, A, S\] rewards must be finite", P, sparse(r), 0.9)


@pytest.mark.parametrize("discount", [0, -0.5, 1.0001, np.nan, np.inf, "high", None, [0.9, 0.9]])
def test_bad_discounts(discount):
    refuse(r"discount: expected a number in \(0, 1\], got", P, R, discount)


def test_complex_numbers_are_refused():
    refuse("rewards: expected real numbers, got complex128", P, R + 1j, 0.9)
    refuse("rewards: expected real numbers, got complex128", P, np.ones((2, 2, 2)) * 1j, 0.9)
    refuse("rewards: expected real numbers, got complex128", P, sparse(P * 1j), 0.9)
    refuse("transitions: expected numbers, got complex128", P * 1j, R, 0.9)
    refuse("transitions: expected real numbers, got complex128", sparse(P * 1j), R, 0.9)
    refuse("termination: expected real numbers, got complex128", P, R, 0.9, termination=np.zeros((2, 2)) * 1j)
    refuse(r"discount: expected a number in \(0, 1\], got 0.9j", P, R, 0.9j)
    with pytest.raises(ValueError, match="rewards: expected real numbers, got complex128"):
        MDP(P, R, 0.9).with_rewards(R * 1j)


def test_bad_masks_and_terminations():
    refuse(r"terminal: expected bool \[2\], got bool \[3\]", P, R, 0.9, terminal=[True] * 3)
    refuse(r"terminal: expected bool \[2\], got int64 \[2\]", P, R, 0.9, terminal=[0, 1])
    refuse(r"available: expected bool \[2, 2\], got bool \[2\]", P, R, 0.9, available=[True, True])
    refuse("available: state 1 has no available action", P, R, 0.9, available=[[True, True], [False, False]])
    refuse("available: state 0 has no available action", P, changed(R, 0, -np.inf), 0.9)
    refuse(r"termination: expected \[S, A\] = \[2, 2\], got shape \[2\]", P, R, 0.9, termination=[0.0, 1.0])
    for bad in (-0.1, 1.1, np.nan):
        refuse(rf"termination: the entry for state 1, action 0 is {bad}", P, R, 0.9, termination=[[0, 0], [bad, 0]])


def test_discount_one_needs_an_end_within_reach():
    for transitions in (P, sparse()):
        refuse("discount: 1 needs a terminal state .* state 0 reaches none; mark", transitions, R, 1.0)
        assert MDP(transitions, R, 1.0, terminal=[False, True]).discount == 1.0
    islands = np.eye(3)[[1, 1, 2]][:, None]
    refuse("state 2 reaches none", islands, [[-1.0], [0.0], [-1.0]], 1.0)  # state 1 is silent: an end


@pytest.mark.parametrize("form", [np.asarray, sparse])
def test_discount_one_ends_in_silent_loops(form):
    p = np.zeros((3, 2, 3))
    p[0, :, 1] = p[1, 0, 2] = p[1, 1, 0] = p[2, :, 2] = 1.0
    rewards = np.array([[-1.0, -1.0], [-1.0, -1.0], [0.0, 0.0]])
    mdp = MDP(form(p), rewards, 1.0)
    np.testing.assert_array_equal(mdp.terminal, [False, False, True])
    np.testing.assert_array_equal(oracles.dense(mdp)[2], 0)
    assert mdp.row_sums == (0.0, 1.0)
    refuse("discount: 1 needs", form(p), changed(rewards, (2, 1), -0.5), 1.0)  # a loop that costs is no end
    assert not MDP(form(p), rewards, 0.9).terminal.any()


# -- other rewards ----------------------------------------------------------------------------------------------------


def test_with_rewards_shares_the_transitions():
    mdp = MDP(P, R, 0.9, terminal=[False, True], available=[[True, False], [True, True]])
    other = mdp.with_rewards([[7.0, 7.0], [7.0, 7.0]])
    assert other.transitions is mdp.transitions
    np.testing.assert_array_equal(other.rewards, [[7.0, -np.inf], [0, 0]])
    assert_same_model(other, MDP(P, np.full((2, 2), 7.0), 0.9, terminal=[False, True], available=mdp.available))
    on_arrival = np.arange(8.0).reshape(2, 2, 2)
    np.testing.assert_array_equal(MDP(P, R, 0.9).with_rewards(on_arrival).rewards, MDP(P, on_arrival, 0.9).rewards)
    with pytest.raises(ValueError, match="rewards: -inf where the action is available"):
        mdp.with_rewards([[-np.inf, 1.0], [1.0, 1.0]])
    with pytest.raises(ValueError, match=r"rewards: expected \[S, A\]"):
        mdp.with_rewards([1.0, 2.0])


# -- policies ---------------------------------------------------------------------------------------------------------


@given(seeds)
@thorough
def test_the_chain_of_a_policy_is_its_average(seed):
    random = np.random.default_rng(seed)
    mdp = oracles.random_mdp(random)
    p = oracles.dense(mdp)
    for policy in oracles.random_policies(random, mdp, 3):
        chain, reward = mdp.under(policy)
        chain = chain if isinstance(chain, np.ndarray) else chain.toarray()
        for s in range(mdp.num_states):
            actions = [a for a in range(mdp.num_actions) if oracles.probability(policy, s, a) > 0]
            expected = sum(oracles.probability(policy, s, a) * p[s, a] for a in actions)
            np.testing.assert_allclose(chain[s], expected, rtol=1e-12, atol=1e-14)
            gain = sum(oracles.probability(policy, s, a) * mdp.rewards[s, a] for a in actions)
            assert reward[s] == pytest.approx(gain, rel=1e-12, abs=1e-12)


def test_bad_policies_are_answered_in_one_sentence():
    mdp = MDP(P, R, 0.9, available=[[True, False], [True, True]])
    cases = {
        r"policy: action 2 of state 1 is not in 0\.\.1": np.array([0, 2]),
        r"policy: action -1 of state 0 is not in 0\.\.1": np.array([-1, 0]),
        "policy: action 1 is not available in state 0": np.array([1, 0]),
        r"the probabilities of state 1, \[0.5 0.6\], are not a distribution": np.array([[1.0, 0.0], [0.5, 0.6]]),
        r"the probabilities of state 0, \[ 2. -1.\], are not": np.array([[2.0, -1.0], [1.0, 0.0]]),
        r"the probabilities of state 0, \[nan nan\], are not": np.array([[np.nan, np.nan], [1.0, 0.0]]),
        "action 1 of state 0 has probability 0.5 but is not available": np.array([[0.5, 0.5], [1.0, 0.0]]),
        r"expected int \[2\] or float \[2, 2\], got int64 \[3\]": np.array([0, 0, 0]),
        r"expected int \[2\] or float \[2, 2\], got float64 \[2\]": np.array([0.0, 1.0]),
        r"expected int \[2\] or float \[2, 2\], got int64 \[2, 2\]": np.array([[1, 0], [1, 0]]),
        r"expected int \[2\] or float \[2, 2\], got bool \[2\]": np.array([False, True]),
    }
    for message, policy in cases.items():
        with pytest.raises(ValueError, match=message):
            mdp.check_policy(policy)
        with pytest.raises(ValueError, match=r"policies\[1\]"):
            mdp.check_policies([np.array([0, 0]), policy])


def test_policies_come_as_a_list():
    mdp = MDP(P, R, 0.9)
    with pytest.raises(ValueError, match="policies: the set is empty"):
        mdp.check_policies([])
    with pytest.raises(ValueError, match=r"policies: expected a list of policies, got one array; write \[policy\]"):
        mdp.check_policies(np.array([0, 1]))
    checked = mdp.check_policies([[0, 1], [[0.5, 0.5], [1.0, 0.0]]])
    assert [c.shape for c in checked] == [(2,), (2, 2)]
