"""`solve`: one entry point to all planning methods, and the `Solution` it returns."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike

from greedystep.checks import check_float, check_float_array, check_int, check_memory, short_repr
from greedystep.mdp import MDP, Policy
from greedystep.planning import dynamic_programming, policy_iteration
from greedystep.planning.backups import LARGE, BellmanBackup, DenseModel, Iteration, SparseModel
from greedystep.planning.blocked_value_iteration import FunctionBlocks, without_matrix
from greedystep.planning.certificate import Certificate, longest_episode
from greedystep.planning.convergence import (
    COARSE,
    OVERFLOW,
    STALLED,
    ConvergenceMonitor,
    Proof,
    SolveProgress,
    largest,
)
from greedystep.planning.matrix_free import MatrixFreeMDP
from greedystep.planning.policy_evaluation import PolicyEvaluator
from greedystep.planning.rational_arithmetic import rational_policy_iteration
from greedystep.planning.transition_tables import as_table, widest_row
from greedystep.planning.undiscounted import UndiscountedModel, normalised
from greedystep.signals import Deadline

SolveMethod = Literal[
    "auto", "greedy-step", "value-iteration", "policy-iteration", "modified-policy-iteration", "multi-step"
]
METHODS: tuple[str, ...] = get_args(SolveMethod)
DEFAULT_HORIZON = 20
WARM_START_ROUNDS = 100  # BiCGSTAB rounds spent on the value of a policy that was given to start from
ARRAYS_WITHOUT_MATRIX = 6  # arrays of values that solving a model without a matrix takes at most
HUGE = 1e150
"""Rewards below this cannot overflow with a discount below 1, since 1 / (1 - discount) is at most 2^53."""


@dataclass(frozen=True)
class Solution:
    """Result of `solve`: values and a policy of an MDP, with proved bounds on their distance from optimal."""

    v: np.ndarray
    """float64 [S], within `error_bound` of v* in every state."""
    policy: np.ndarray
    """int [S], greedy: the first action with q(s, a) = v(s)."""
    error_bound: float
    """v - error_bound <= v* <= v + error_bound; infinite where nothing can be proved (see `message`)."""
    policy_loss_bound: float
    """In every state the value of `policy` is at most this much below v*."""
    converged: bool
    """Whether error_bound <= tolerance."""
    iterations: int
    sweeps: float
    """Work, in backups of the whole model; a backup of one policy counts for its share of the rows."""
    trace: np.ndarray
    """[iterations], the largest change of a value in each iteration (for multi-step: its own residual)."""
    seconds: float
    method: str
    message: str
    """Why the solve stopped early, or why there is no bound, in one sentence; else empty."""
    _backed_up: tuple[MDP | MatrixFreeMDP, np.ndarray, float] = field(repr=False)
    """(mdp, values, shift), from which q = B values + shift is computed on first use."""

    @cached_property
    def q(self) -> np.ndarray:
        """float64 [S, A], within error_bound of q* up to rounding; -inf where an action is not available.

        Computed on first use: often only the policy is wanted, and q is A times as large as v.
        """
        mdp, before, shift = self._backed_up
        with np.errstate(over="ignore", invalid="ignore"):
            given = normalised(mdp) if isinstance(mdp, MDP) and mdp.discount == 1.0 else mdp
            q = given.backup(before) + shift
            if not np.isfinite(self.error_bound):
                q = np.where(q > -np.inf, np.nan_to_num(q, nan=0.0), -np.inf)
            # v and policy came from the same backup, summed in another order: make the last bit agree, so that the
            # policy is the first action with q = v.
            earlier = np.arange(mdp.num_actions) < self.policy[:, None]
            q = np.minimum(q, np.where(earlier, np.nextafter(self.v, -np.inf)[:, None], self.v[:, None]))
        q[np.arange(self.v.size), self.policy] = self.v
        return q

    def __repr__(self) -> str:
        state = "converged" if self.converged else "not converged"
        return f"Solution({self.v.size} states, {state}, method={self.method!r}, error_bound={self.error_bound:.3g})"

    def __str__(self) -> str:
        state = "converged" if self.converged else "not converged"
        return (
            f"{self.method}: {state} after {self.iterations} iterations ({self.sweeps:.1f} sweeps, "
            f"{self.seconds:.3g} s); v is within {self.error_bound:.3g} of v*"
        )


def solve(
    mdp: MDP | MatrixFreeMDP,
    method: SolveMethod = "auto",
    policies: Sequence[Policy] | None = None,
    horizon: int | None = None,
    tolerance: float = 1e-6,
    *,
    initial: ArrayLike | None = None,
    max_iterations: int | None = None,
    time_limit: float | None = None,
    callback: Callable[[SolveProgress], object] | None = None,
    progress: bool = False,
) -> Solution:
    """Solve a finite MDP: v*(s) = max_a r(s, a) + γ Σ_s' p(s' | s, a) v*(s'), [S], with a proved error bound.

    Args:
        mdp: the model; a `MatrixFreeMDP` is solved by "auto" only.
        method: "auto", the fast general solver; or "greedy-step" (the paper's Algorithm 1), "value-iteration",
            "policy-iteration", "modified-policy-iteration", "multi-step".
        policies: behaviour policies for greedy-step (None: the greedy policy of Q_k) and multi-step.
        horizon: N, the longest look-ahead of greedy-step, multi-step and modified-policy-iteration (20 by default).
        tolerance: stop when v is proved to be within this distance of v* in every state.
        initial: warm start: values float [S], action values float [S, A], or a policy int [S].
        max_iterations: stop after this many iterations, with the bound proved so far.
        time_limit: stop after this many seconds, with the bound proved so far; so does Ctrl-C.
        callback: called with a `SolveProgress` after each iteration; a true result stops the solve.
        progress: show a status line on the terminal while solving.

    Returns:
        A `Solution`. With a discount below 1 its `error_bound` is finite, unless float64 cannot hold it, or cannot tell
        the discount, times the sum of a row, from 1. With discount 1 it is finite where every policy terminates.
    """
    if not isinstance(mdp, MDP | MatrixFreeMDP):
        raise TypeError(f"mdp: expected a greedystep MDP, got {type(mdp).__name__}")
    if method not in METHODS:
        raise ValueError(f"method: {method!r} is not one of {', '.join(METHODS)}")
    if policies is not None and method not in ("greedy-step", "multi-step"):
        raise ValueError(f"policies: only greedy-step and multi-step use behaviour policies, not {method!r}")
    if method == "multi-step" and policies is None:
        raise ValueError("policies: multi-step needs at least one behaviour policy")
    if horizon is not None and method not in ("greedy-step", "multi-step", "modified-policy-iteration"):
        raise ValueError(f"horizon: {method!r} has no horizon")
    if method != "auto" and isinstance(mdp, MatrixFreeMDP):
        raise ValueError(f"method: {method!r} needs a matrix, which mdp.to_mdp() makes; 'auto' does not")
    for name, count in (("horizon", horizon), ("max_iterations", max_iterations)):
        if count is not None:
            check_int(name, count)
    check_float("tolerance", tolerance, 0, above=True)
    if time_limit is not None:
        check_float("time_limit", time_limit, 0, above=True)
    if callback is not None and not callable(callback):
        raise ValueError(f"callback: expected a function of a SolveProgress, got {short_repr(callback)}")
    with Deadline(time_limit) as deadline:
        if isinstance(mdp, MatrixFreeMDP):
            task = _MatrixFreeTask(mdp, tolerance, initial, deadline)
        else:
            task = _Task(mdp, method, policies, horizon, tolerance, initial, deadline)
        certificate = task.certificate
        # Overflow is reported in `message`. (To silence NumPy takes as long as to solve a small model.)
        safe = certificate.discounted and initial is None and certificate.largest_reward < HUGE
        with (
            nullcontext() if safe else np.errstate(over="ignore", invalid="ignore"),
            _status_line(callback) if progress else nullcontext(callback) as report,
        ):
            monitor = ConvergenceMonitor(
                *(certificate, task.backup, tolerance, deadline, max_iterations, report),
                backs_up_again=task.on_table and method != "auto",
            )
            last, reason = monitor.run(task.prepare_and_iterate())
            while reason in (COARSE, STALLED) and (best := monitor.best) and best.much_smaller_than_backed_up:
                # The values carry a constant that hides their differences, from a start far off: go on without it.
                last, reason = monitor.run(task.iterate(best.values))
            if reason == STALLED and monitor.best is not None:
                exact = task.iterate_exactly(monitor.best.values)
                if exact is not None:
                    last, reason = monitor.run(exact)
            if monitor.best is None or (last is not None and last.backup is None):
                # Stopped between two proofs: prove a bound for the values as they are, and keep the better.
                values = task.start if last is None else last.values()
                monitor.record(task.backup(np.zeros(mdp.num_states) if values is None else values))
                monitor.sweeps += 1
            del last  # it holds arrays of values
            return task.solution(monitor, reason)


class _Task:
    """One call of `solve`: the model in the form that the method needs, its iterations and its backups."""

    def __init__(
        self,
        mdp: MDP,
        method: SolveMethod,
        policies: Sequence[Policy] | None,
        horizon: int | None,
        tolerance: float,
        initial: ArrayLike | None,
        deadline: Deadline,
    ):
        self._given = self._mdp = mdp
        self._method, self._tolerance, self._initial, self._deadline = method, tolerance, initial, deadline
        self._horizon = DEFAULT_HORIZON if horizon is None else horizon
        self._policies = None if policies is None else mdp.check_policies(policies)
        self.certificate = Certificate(mdp, widest_row(mdp))
        self._table = None if isinstance(mdp.transitions, np.ndarray) else as_table(mdp)
        self._model: SparseModel | DenseModel | None = None
        if self.certificate.discounted:
            self._model = DenseModel(mdp) if self._table is None else SparseModel(mdp, self._table)
        self.start: np.ndarray | None = None
        """float64 [S]: values to begin with."""
        self.on_table = method == "auto" or not self.certificate.discounted
        """Whether the method works on a transition table, so that a policy is a list of its rows, not of actions."""

    def prepare_and_iterate(self) -> Iterator[Iteration]:
        """Prepare the model, which may take long, and then iterate: both within the generator, to be interruptible."""
        self._deadline.check()
        if not self.certificate.discounted:
            self._mdp, self._model = normalised(self._given), UndiscountedModel(self._given, self._deadline)
            self.certificate.episode_length = longest_episode(self._given, self._model, self._deadline)
        self.start = self._initial_values()
        self._deadline.check()
        yield from self.iterate(self.start)

    def iterate(self, v: np.ndarray | None) -> Iterator[Iteration]:
        """Return the iterations of the method from v, or from its own start."""
        mdp, method, deadline = self._mdp, self._method, self._deadline
        assert self._model is not None
        if method == "auto":
            return policy_iteration.auto(mdp, self._model, v, self._tolerance, deadline)
        v = np.zeros(mdp.num_states) if v is None else v
        if method == "value-iteration":
            return dynamic_programming.value_iteration(mdp, v)
        if method == "policy-iteration":
            return dynamic_programming.policy_iteration(mdp, self._model, v, deadline)
        if method == "modified-policy-iteration":
            return dynamic_programming.modified_policy_iteration(mdp, v, self._horizon, deadline)
        q = np.where(mdp.available, v[:, None], -np.inf)
        if method == "greedy-step":
            return dynamic_programming.greedy_step(mdp, q, self._policies, self._horizon, self._tolerance, deadline)
        assert self._policies is not None
        return dynamic_programming.multi_step(mdp, q, self._policies, self._horizon, self._tolerance, deadline)

    def iterate_exactly(self, v: np.ndarray) -> Iterator[Iteration] | None:
        """Return policy iteration that solves each policy, for "auto" where nothing else helps; None if it does not.

        It is for sparse models whose parts hardly lead to each other, with hardly any discount: every sweep, and every
        round of BiCGSTAB, moves the values of the parts against each other by next to nothing.
        """
        model = self._model
        if self._method != "auto" or not isinstance(model, SparseModel) or model.table.probability.size >= LARGE:
            return None
        return policy_iteration.direct_policy_iteration(model, v, 0.0, self._deadline)

    def backup(self, v: np.ndarray) -> BellmanBackup:
        """Return the Bellman backup of v, from which a bound is proved."""
        if self.on_table and self._model is not None:
            return self._model.backup(v)
        return dynamic_programming.backup_of(self._mdp, v)

    def solution(self, monitor: ConvergenceMonitor, reason: str) -> Solution:
        """Return the solution with the best bound proved; if float64 does not suffice, from rational arithmetic."""
        proof, certificate, tolerance = monitor.best, self.certificate, self._tolerance
        assert proof is not None
        if self.on_table and self._model is not None:
            proof = proof._replace(backup=proof.backup._replace(choice=self._model.actions_of(proof.backup.choice)))
            proper = isinstance(self._model, UndiscountedModel) and self._model.improper_start is None
            exhausted = reason in ("", COARSE, STALLED) and not monitor.error_bound <= tolerance
            if proper and self._method == "auto" and exhausted:
                exact = rational_policy_iteration(self._given, proof.backup.choice)
                if exact is not None and (rounded := exact.rounded()) is not None:
                    v, lower, upper = rounded
                    proof = Proof(BellmanBackup(v, v, exact.policy, 0.0, 0.0), lower, upper)
        # With discount 1 backups are made of jumps, which are more than a step: q is the step before v.
        before = None if not certificate.discounted else (proof.backup.v, proof.shift)
        policy = np.asarray(proof.backup.choice, np.int64)
        return _solution(self._given, self._method, proof, policy, before, monitor, reason)

    def _initial_values(self) -> np.ndarray | None:
        mdp = self._mdp
        if self._initial is None:
            return None
        array = np.asarray(self._initial)
        if array.shape == (mdp.num_states,) and np.issubdtype(array.dtype, np.integer):
            policy = mdp.check_policy(array, "initial")
            assert self._model is not None
            v = np.zeros(mdp.num_states)
            if self._table is None or mdp.discount == 1.0:
                return dynamic_programming.policy_value(self._model, policy, v, self._deadline)
            choice = (self._table.first[:-1] + policy).astype(np.uint32)
            PolicyEvaluator(self._table, self._deadline).evaluate(choice, v, 0.0, WARM_START_ROUNDS, mdp.discount)
            return v  # near enough for a start
        if not np.issubdtype(array.dtype, np.floating) or array.shape not in ((mdp.num_states,), mdp.rewards.shape):
            raise ValueError(
                f"initial: expected values float [{mdp.num_states}], action values float {list(mdp.rewards.shape)} "
                f"or a policy int [{mdp.num_states}], got {array.dtype} {list(array.shape)}"
            )
        values = array if array.ndim == 1 else np.where(mdp.available, array, -np.inf).max(axis=1)
        if not np.isfinite(values).all():
            raise ValueError("initial: values must be finite")
        return values.astype(np.float64)


class _MatrixFreeTask:
    """`_Task` for a model without a matrix."""

    on_table = False

    def __init__(self, mdp: MatrixFreeMDP, tolerance: float, initial: ArrayLike | None, deadline: Deadline):
        S = mdp.num_states
        self._mdp, self._model, self._tolerance, self._deadline = mdp, FunctionBlocks(mdp), tolerance, deadline
        self.certificate = Certificate(mdp, mdp.widest_row)
        check_memory(f"values of {S} states", ARRAYS_WITHOUT_MATRIX * 8 * S)
        self.start = np.zeros(S) if initial is None else check_float_array("initial", initial)
        if self.start.shape != (S,) or not np.isfinite(self.start).all():
            raise ValueError(f"initial: expected finite values float [{S}], got {short_repr(initial)}")

    def prepare_and_iterate(self) -> Iterator[Iteration]:
        self._deadline.check()
        return self.iterate(self.start)

    def iterate(self, v: np.ndarray) -> Iterator[Iteration]:
        return without_matrix(self._model, v, self._tolerance, self._deadline)

    def iterate_exactly(self, v: np.ndarray) -> None:
        """Return None: without a matrix no policy can be solved."""

    def backup(self, v: np.ndarray) -> BellmanBackup:
        return self._model.backup(v)

    def solution(self, monitor: ConvergenceMonitor, reason: str) -> Solution:
        proof = monitor.best
        assert proof is not None
        # q is the step before v: the values that were backed up would take as much memory again.
        return _solution(self._mdp, "auto", proof, proof.backup.choice, None, monitor, reason)


def _solution(
    mdp: MDP | MatrixFreeMDP,
    method: str,
    proof: Proof,
    policy: np.ndarray,
    before: tuple[np.ndarray, float] | None,
    monitor: ConvergenceMonitor,
    reason: str,
) -> Solution:
    """Return the solution with this proof; q is B values + shift with (values, shift) = before, or else B v."""
    v, bound, loss = proof.values, proof.bound, proof.upper - proof.lower
    size = largest(v)
    bound, loss = bound + 2.0**-52 * size, loss + 2.0**-52 * size
    if not np.isfinite(size):
        v, bound, loss = np.nan_to_num(v, nan=0.0), np.inf, np.inf
    converged, message = bool(bound <= monitor.tolerance), ""
    if not np.isfinite(bound):
        message = monitor.certificate.obstacle() or OVERFLOW
        if reason and reason != message:
            message = f"{reason}; {message}"
    elif not converged:
        if method == "multi-step" and not reason:
            reason = "the multi-step operator has converged to its own fixed point"
        message = f"{reason or 'nothing changes any more'}: v is only known to be within {bound:.3g} of v*"
    return Solution(
        v=v,
        policy=policy,
        error_bound=float(bound),
        policy_loss_bound=float(loss),
        converged=converged,
        iterations=len(monitor.trace),
        sweeps=float(monitor.sweeps),
        trace=np.array(monitor.trace),
        seconds=monitor.deadline.elapsed,
        method=method,
        message=message,
        _backed_up=(mdp, *((v, 0.0) if before is None else before)),
    )


@contextmanager
def _status_line(callback: Callable[[SolveProgress], object] | None) -> Iterator[Callable[[SolveProgress], object]]:
    """Show a status line on the terminal; yields a callback that updates it and calls `callback`."""
    from rich.console import Console

    with Console(stderr=True).status("solving") as status:

        def show(progress: SolveProgress) -> object:
            bound = f", within {progress.error_bound:.2g} of v*" if np.isfinite(progress.error_bound) else ""
            status.update(
                f"iteration {progress.iteration}, {progress.sweeps:.0f} sweeps, {progress.seconds:.1f} s, "
                f"last change {progress.residual:.2g}{bound}"
            )
            return callback is not None and callback(progress)

        yield show
