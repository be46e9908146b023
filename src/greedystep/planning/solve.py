"""`solve`: one door to all planning methods, one loop that watches them, one kind of answer."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from greedystep.mdp import MDP, Policy
from greedystep.planning import methods
from greedystep.planning.auto import solve_fast
from greedystep.planning.backups import Dense, Sparse
from greedystep.planning.certificate import Certificate, longest_walk
from greedystep.planning.deadline import Deadline, TimeIsUpError
from greedystep.planning.evaluation import Evaluator
from greedystep.planning.iterate import Backup, Iterate
from greedystep.planning.kernels import Rows
from greedystep.planning.layout import as_rows

METHODS = (
    "auto",
    "greedy-step",
    "value-iteration",
    "policy-iteration",
    "modified-policy-iteration",
    "multi-step",
)
DEFAULT_HORIZON = 20
WARM_UP_ROUNDS = 100
"""Rounds of BiCGSTAB spent on the value of a policy that was given to start from."""
NEAR_ROUNDING = 4.0
"""A bound within this factor of what rounding alone costs cannot be brought down by more iterations."""
PROVE_EVERY = 200
"""Iterations without a proof after which the watch makes one itself."""
IDLE_PROOFS = 1000
"""Proofs in a row, none better than the best before them, after which a discounted solve has come to its end."""
UNBOUNDED_ITERATIONS = 100_000
"""Where no bound can be proved values may grow for ever (a loop that pays, with discount 1): somebody has to stop."""

STOPS = (KeyboardInterrupt, TimeIsUpError)
"""What a deadline raises when it is time to stop."""


class Progress(NamedTuple):
    """What a callback is told after each iteration."""

    iteration: int
    sweeps: float
    seconds: float
    residual: float
    """The largest change of a value in this iteration."""
    error_bound: float
    """The best bound proved so far; infinite before the first."""


@dataclass(frozen=True)
class Solution:
    """Values and a policy, with a proof of how far they can be from optimal."""

    v: np.ndarray
    """[S], within `error_bound` of v* in every state."""
    policy: np.ndarray
    """int [S], greedy: the first action with q(s, a) = v(s)."""
    error_bound: float
    """v - error_bound <= v* <= v + error_bound; infinite where nothing can be proved (see `message`)."""
    policy_loss_bound: float
    """The policy's own value is at most this much below v*."""
    converged: bool
    """Whether error_bound <= tolerance."""
    iterations: int
    sweeps: float
    """Work in backups of the whole model; a backup of one policy counts for its share."""
    trace: np.ndarray
    """[iterations], the largest change of a value in each iteration (for multi-step: its own residual)."""
    seconds: float
    method: str
    message: str
    """One sentence when there is something to say: stopped early, no bound, float64 too coarse. Else empty."""
    _evidence: tuple[MDP, np.ndarray, float] = field(repr=False)

    @cached_property
    def q(self) -> np.ndarray:
        """[S, A], within error_bound of q* up to rounding; -inf where an action is not available.

        Computed when first asked for: many users want the policy only, and q is A times as large as v.
        """
        mdp, before, shift = self._evidence
        q = mdp.backup(before) + shift
        # v and policy came from the same backup, summed in another order: make the last bit agree, so that the policy
        # is the first action with q = v.
        earlier = np.arange(mdp.num_actions) < self.policy[:, None]
        q = np.minimum(q, np.where(earlier, np.nextafter(self.v, -np.inf)[:, None], self.v[:, None]))
        q[np.arange(self.v.size), self.policy] = self.v
        return q

    def __str__(self) -> str:
        state = "converged" if self.converged else "not converged"
        return (
            f"{self.method}: {state} after {self.iterations} iterations ({self.sweeps:.1f} sweeps, "
            f"{self.seconds:.3g} s); v is within {self.error_bound:.3g} of v*"
        )


def solve(
    mdp: MDP,
    method: str = "auto",
    policies: list[Policy] | None = None,
    horizon: int | None = None,
    tolerance: float = 1e-6,
    *,
    initial: Any = None,
    max_iterations: int | None = None,
    time_limit: float | None = None,
    callback: Callable[[Progress], Any] | None = None,
    progress: bool = False,
) -> Solution:
    """Solve a finite MDP.

    Args:
        mdp: the model.
        method: "auto", the fast general solver; or "greedy-step" (the paper's Algorithm 1), "value-iteration",
            "policy-iteration", "modified-policy-iteration", "multi-step".
        policies: behaviour policies for greedy-step (None: the greedy policy of the moment) and multi-step.
        horizon: N, the longest look-ahead of greedy-step, multi-step and modified-policy-iteration (20 by default).
        tolerance: stop when v is proved to be within this distance of v* in every state.
        initial: warm start: values float [S], action values float [S, A], or a policy int [S].
        max_iterations, time_limit: stop after so many iterations or seconds; so does Ctrl-C. The answer then says so
            and carries the bound it has.
        callback: called with a `Progress` after each iteration; a true answer stops the solve.
        progress: show a line on the terminal while solving.

    Returns:
        A `Solution`. With a discount below 1 its `error_bound` is always a proved one. With discount 1 there is a bound
        where every policy reaches an end.
    """
    _check_arguments(mdp, method, policies, horizon, tolerance, max_iterations, time_limit)
    with Deadline(time_limit) as deadline:
        horizon = DEFAULT_HORIZON if horizon is None else horizon
        checked = None if policies is None else mdp.check_policies(policies)
        rows = None if isinstance(mdp.transitions, np.ndarray) else as_rows(mdp)
        model = Dense(mdp) if rows is None else Sparse(mdp, rows)
        certificate = Certificate(mdp, _widest_row(mdp))
        certificate.set_longest_walk(np.inf)  # until it is known
        start = np.zeros(mdp.num_states)

        def iterates() -> Iterator[Iterate]:
            """What takes long before the first iteration, and then the method: both can be stopped."""
            nonlocal start
            deadline.check()
            given = _initial_values(mdp, rows, initial, deadline)
            start = start if given is None else given
            if not certificate.discounted:
                table = as_rows(_with_sparse_rows(mdp, deadline)) if rows is None else rows
                certificate.set_longest_walk(longest_walk(table, deadline))
            if method == "auto":
                yield from solve_fast(mdp, model, given, tolerance, deadline)
            elif method == "value-iteration":
                yield from methods.value_iteration(mdp, start)
            elif method == "policy-iteration":
                yield from methods.policy_iteration(mdp, start, deadline)
            elif method == "modified-policy-iteration":
                yield from methods.modified_policy_iteration(mdp, start, horizon, deadline)
            else:
                q = np.where(mdp.available, start[:, None], -np.inf)
                if method == "greedy-step":
                    yield from methods.greedy_step(mdp, q, checked, horizon, tolerance, deadline)
                else:
                    assert checked is not None
                    yield from methods.multi_step(mdp, q, checked, horizon, tolerance, deadline)

        # The fast solver chooses rows of its table, the others actions.
        prove = model.backup if method == "auto" else (lambda v: methods.backup_of(mdp, v))
        watch = _Watch(certificate, prove, tolerance, deadline, max_iterations, callback)
        with _progress_line(progress) as show:
            last, reason = watch.run(iterates(), show)
        best = watch.best
        if best is None or (last is not None and last.backup is None):
            # Stopped between two proofs: make one of the values as they are, and keep the better.
            best = watch.better(prove(start if last is None else last.values()))
            watch.sweeps += 1
        if method == "auto":
            best = best._replace(backup=best.backup._replace(choice=model.actions_of(best.backup.choice)))
        return _solution(mdp, certificate, best, watch, tolerance, method, reason)


def _why(stop: BaseException) -> str:
    """The reason that a message gives."""
    return "interrupted" if isinstance(stop, KeyboardInterrupt) else str(stop)


class _Proof(NamedTuple):
    backup: Backup
    lower: float
    upper: float

    def answer(self, shift_is_free: bool) -> tuple[float, float]:
        """(shift, bound): v = Bv + shift lies within bound of v*."""
        shift = 0.5 * (self.lower + self.upper) if shift_is_free and np.isfinite(self.upper - self.lower) else 0.0
        return shift, max(self.upper - shift, shift - self.lower, 0.0)


class _Watch:
    """Follows a method: proves, records, reports and stops."""

    def __init__(self, certificate, prove, tolerance, deadline, max_iterations, callback):
        self._certificate, self._prove, self._tolerance, self._deadline = certificate, prove, tolerance, deadline
        self._max_iterations, self._callback = max_iterations, callback
        self.best: _Proof | None = None
        self.trace: list[float] = []
        self.sweeps = 0.0
        self._bound = np.inf
        self._unproved = self._idle_proofs = 0

    def better(self, backup: Backup) -> _Proof:
        """The better of the best proof so far and the one from this backup."""
        lower, upper = self._certificate.bounds(backup.low, backup.high, backup.v)
        proof = _Proof(backup, lower, upper)
        bound = proof.answer(self._certificate.shift_is_free)[1]
        self._idle_proofs = 0 if bound < self._bound else self._idle_proofs + 1
        if self.best is None or bound <= self._bound:
            # The answer must not change when the method goes on in the array that it handed out.
            self.best, self._bound = proof._replace(backup=backup._replace(out=backup.out.copy())), bound
        return self.best

    def run(self, iterates: Iterator[Iterate], show: Callable[[Progress], None]) -> tuple[Iterate | None, str]:
        """Iterate until there is a reason to stop; (last iterate, the reason, empty when solved)."""
        last = None
        try:
            for last in iterates:
                self.trace.append(last.residual)
                self.sweeps = last.sweeps
                residual = last.residual
                self._unproved = self._unproved + 1 if last.backup is None else 0
                if self._unproved >= PROVE_EVERY:
                    # A method that waits for a small change may wait for ever where float64 is too coarse for it.
                    last, self._unproved = last._replace(backup=self._prove(last.values())), 0
                if last.backup is not None:
                    self.better(last.backup)
                reason = self._reason_to_stop(last)
                news = Progress(len(self.trace), last.sweeps, self._deadline.elapsed, residual, self._bound)
                show(news)
                if self._callback is not None and self._callback(news) and reason is None:
                    reason = "stopped by the callback"
                reason = self._asked_to_stop() if reason is None else reason
                if reason is not None:
                    return last, reason
        except STOPS as stop:
            # Within an iteration: its values may have moved on since they were proved.
            return (None if last is None else last._replace(backup=None)), _why(stop)
        return last, ""

    def _asked_to_stop(self) -> str | None:
        try:
            self._deadline.check()
        except STOPS as stop:
            return _why(stop)
        return None

    def _reason_to_stop(self, last: Iterate) -> str | None:
        if self._bound <= self._tolerance and last.own_residual is None:
            return ""
        if last.backup is not None and np.isfinite(self._bound):
            floor = self._certificate.bounds(0.0, 0.0, last.backup.v)[1]
            at_floor = floor * NEAR_ROUNDING >= self._tolerance and self._bound <= floor * NEAR_ROUNDING
            if at_floor or (self._idle_proofs >= IDLE_PROOFS and self._certificate.discounted):
                return "float64 cannot prove more for values of this size"
        if self._max_iterations is not None and len(self.trace) >= self._max_iterations:
            return f"stopped after {len(self.trace)} iterations"
        if not np.isfinite(self._bound) and last.backup is not None and last.residual <= 1e-3 * self._tolerance:
            return ""  # no bound can ever be proved: a small residual has to do
        if not np.isfinite(self._bound) and last.backup is not None and len(self.trace) >= UNBOUNDED_ITERATIONS:
            return f"stopped after {len(self.trace)} iterations, with values that may have no limit"
        return None

    @property
    def seconds(self) -> float:
        return self._deadline.elapsed


def _solution(mdp, certificate, proof, watch, tolerance, method, reason) -> Solution:
    shift, bound = proof.answer(certificate.shift_is_free)
    v = proof.backup.out + shift
    bound += 2.0**-52 * float(np.abs(v).max())
    converged = bool(bound <= tolerance)
    message = ""
    if not np.isfinite(bound):
        message = "with discount 1 and policies that never end there is no bound on the error"
        if certificate.discounted:
            message = "rows that sum to more than 1 / discount leave no bound on the error"
        if reason:
            message = f"{reason}; {message}"
    elif not converged:
        if method == "multi-step" and not reason:
            reason = "the multi-step operator has converged to its own fixed point"
        message = f"{reason or 'nothing changes any more'}: v is only known to be within {bound:.3g} of v*"
    return Solution(
        v=v,
        policy=np.asarray(proof.backup.choice, np.int64),
        error_bound=float(bound),
        policy_loss_bound=float(proof.upper - proof.lower + 2.0**-52 * np.abs(v).max()),
        converged=converged,
        iterations=len(watch.trace),
        sweeps=float(watch.sweeps),
        trace=np.array(watch.trace),
        seconds=watch.seconds,
        method=method,
        message=message,
        _evidence=(mdp, proof.backup.v, shift),
    )


def _check_arguments(mdp, method, policies, horizon, tolerance, max_iterations, time_limit) -> None:
    if not isinstance(mdp, MDP):
        raise TypeError(f"mdp: expected a greedystep MDP, got {type(mdp).__name__}")
    if method not in METHODS:
        raise ValueError(f"method: {method!r} is not one of {', '.join(METHODS)}")
    if policies is not None and method not in ("greedy-step", "multi-step"):
        raise ValueError(f"policies: only greedy-step and multi-step use behaviour policies, not {method!r}")
    if method == "multi-step" and policies is None:
        raise ValueError("policies: multi-step needs at least one behaviour policy")
    if horizon is not None:
        if method not in ("greedy-step", "multi-step", "modified-policy-iteration"):
            raise ValueError(f"horizon: {method!r} has no horizon")
        if not (_is_whole(horizon) and horizon >= 1):
            raise ValueError(f"horizon: expected a whole number >= 1, got {horizon!r}")
    if not (_is_number(tolerance) and tolerance > 0):
        raise ValueError(f"tolerance: expected a number > 0, got {tolerance!r}")
    if max_iterations is not None and not (_is_whole(max_iterations) and max_iterations >= 1):
        raise ValueError(f"max_iterations: expected a whole number >= 1, got {max_iterations!r}")
    if time_limit is not None and not (_is_number(time_limit) and time_limit > 0):
        raise ValueError(f"time_limit: expected seconds > 0, got {time_limit!r}")


def _is_whole(value: Any) -> bool:
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)


def _is_number(value: Any) -> bool:
    return _is_whole(value) or isinstance(value, (float, np.floating))


def _with_sparse_rows(mdp: MDP, deadline: Deadline) -> MDP:
    """A dense model as a table of rows can be made of it."""
    twin, matrix = copy.copy(mdp), np.asarray(mdp.transitions)
    pieces = deadline.pieces(len(matrix), matrix.size)
    twin.transitions = sp.csr_array(sp.vstack([sp.csr_array(matrix[begin:end]) for begin, end in pieces]))
    return twin


def _initial_values(mdp: MDP, rows: Rows | None, initial: Any, deadline: Deadline) -> np.ndarray | None:
    if initial is None:
        return None
    array = np.asarray(initial)
    if array.shape == (mdp.num_states,) and np.issubdtype(array.dtype, np.integer):
        return _rough_policy_value(mdp, rows, mdp.check_policy(array, "initial"), deadline)
    if not np.issubdtype(array.dtype, np.floating) or array.shape not in ((mdp.num_states,), mdp.rewards.shape):
        raise ValueError(
            f"initial: expected values float [{mdp.num_states}], action values float {list(mdp.rewards.shape)} "
            f"or a policy int [{mdp.num_states}], got {array.dtype} {list(array.shape)}"
        )
    values = array if array.ndim == 1 else np.where(mdp.available, array, -np.inf).max(axis=1)
    if not np.isfinite(values).all():
        raise ValueError("initial: values must be finite")
    return values.astype(np.float64)


def _rough_policy_value(mdp: MDP, rows: Rows | None, policy: np.ndarray, deadline: Deadline) -> np.ndarray:
    """v^π, near enough for a start."""
    v = np.zeros(mdp.num_states)
    if rows is None or mdp.discount == 1.0:
        return methods.policy_value(mdp, policy, v, deadline)
    choice = (rows.first[:-1] + policy).astype(np.uint32)
    Evaluator(rows, deadline).evaluate(choice, v, 0.0, WARM_UP_ROUNDS, mdp.discount)
    return v


def _widest_row(mdp: MDP) -> int:
    if isinstance(mdp.transitions, np.ndarray):
        return mdp.num_states
    return int(np.diff(mdp.transitions.indptr).max(initial=0))


class _progress_line:  # noqa: N801 - used like a function
    """A status line on the terminal, if wanted: `with _progress_line(True) as show: show(news)`."""

    def __init__(self, wanted: bool):
        self._status = None
        if wanted:
            from rich.console import Console

            self._status = Console(stderr=True).status("solving")

    def __enter__(self) -> Callable[[Progress], None]:
        if self._status is not None:
            self._status.start()
        return self._show

    def __exit__(self, *_: object) -> None:
        if self._status is not None:
            self._status.stop()

    def _show(self, news: Progress) -> None:
        if self._status is not None:
            bound = f", within {news.error_bound:.2g} of v*" if np.isfinite(news.error_bound) else ""
            self._status.update(
                f"iteration {news.iteration}, {news.sweeps:.0f} sweeps, {news.seconds:.1f} s, "
                f"last change {news.residual:.2g}{bound}"
            )
