"""`solve`: one door to all planning methods, one loop that watches them, one kind of answer."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from greedystep.checks import check_float, check_int
from greedystep.mdp import MDP, Policy
from greedystep.planning import methods
from greedystep.planning.auto import solve_fast
from greedystep.planning.backups import Dense, Sparse
from greedystep.planning.certificate import Certificate
from greedystep.planning.deadline import Deadline, TimeIsUpError
from greedystep.planning.evaluation import Evaluator
from greedystep.planning.iterate import Backup, Iterate
from greedystep.planning.kernels import Rows
from greedystep.planning.layout import as_rows, widest_row
from greedystep.planning.rational import solve_exactly
from greedystep.planning.undiscounted import Undiscounted, with_rows_of_one
from greedystep.planning.walk import UNKNOWN, longest_walk

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
COARSE = "float64 cannot prove more for values of this size"
HUGE = 1e150
"""Rewards below this cannot overflow with a discount below 1, for 1 / (1 - discount) is at most 2^53."""
OVERFLOW = "the values, or the bounds on them, are too large for float64"


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
        with np.errstate(over="ignore", invalid="ignore"):
            q = (with_rows_of_one(mdp) if mdp.discount == 1.0 else mdp).backup(before) + shift
            if not np.isfinite(self.error_bound):
                q = np.where(mdp.available, np.nan_to_num(q, nan=0.0), -np.inf)
            # v and policy came from the same backup, summed in another order: make the last bit agree, so that the
            # policy is the first action with q = v.
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
        return _solve(mdp, method, policies, horizon, tolerance, initial, max_iterations, deadline, callback, progress)


def _solve(
    given, method, policies, horizon, tolerance, initial, max_iterations, deadline, callback, progress
) -> Solution:
    mdp, model, start = given, None, None
    horizon = DEFAULT_HORIZON if horizon is None else horizon
    checked = None if policies is None else mdp.check_policies(policies)
    certificate = Certificate(mdp, widest_row(mdp))
    rows = None if isinstance(mdp.transitions, np.ndarray) else as_rows(mdp)
    if certificate.discounted:
        model = Dense(mdp) if rows is None else Sparse(mdp, rows)
    else:
        certificate.set_longest_walk(UNKNOWN)

    def prepared() -> Iterator[Iterate]:
        """What takes long before the first iteration, and then the method: both can be stopped."""
        nonlocal mdp, model, start
        deadline.check()
        if not certificate.discounted:
            mdp, model = with_rows_of_one(given), Undiscounted(given, deadline)
            certificate.set_longest_walk(longest_walk(given, model, deadline))
        start = _initial_values(mdp, rows, initial, deadline)
        deadline.check()
        yield from iterates(start)

    def iterates(v: np.ndarray | None) -> Iterator[Iterate]:
        if method == "auto":
            assert model is not None
            return solve_fast(mdp, model, v, tolerance, deadline)
        v = np.zeros(mdp.num_states) if v is None else v
        if method == "value-iteration":
            return methods.value_iteration(mdp, v)
        if method == "policy-iteration":
            return methods.policy_iteration(mdp, v, deadline)
        if method == "modified-policy-iteration":
            return methods.modified_policy_iteration(mdp, v, horizon, deadline)
        q = np.where(mdp.available, v[:, None], -np.inf)
        if method == "greedy-step":
            return methods.greedy_step(mdp, q, checked, horizon, tolerance, deadline)
        assert checked is not None
        return methods.multi_step(mdp, q, checked, horizon, tolerance, deadline)

    # The fast solver chooses rows of its table, the others actions. With discount 1 all proofs are made on the table.
    on_table = method == "auto" or not certificate.discounted

    def prove(v: np.ndarray) -> Backup:
        return model.backup(v) if on_table and model is not None else methods.backup_of(mdp, v)

    watch = _Watch(certificate, prove, tolerance, deadline, max_iterations, callback)
    watch.proves_again = on_table and method != "auto"
    # Of an overflow the answer speaks in words. (To ask NumPy for silence takes as long as to solve a small model.)
    safe = certificate.discounted and initial is None and certificate.largest_reward < HUGE
    with nullcontext() if safe else np.errstate(over="ignore", invalid="ignore"):
        with _progress_line(progress) as show:
            last, reason = watch.run(prepared(), show)
            while reason == COARSE and watch.best_is_much_smaller():
                # The values carry a constant that hides their differences, from a start far off: go on without it.
                last, reason = watch.run(iterates(watch.best_values()), show)
        best = watch.best
        if best is None or (last is not None and last.backup is None):
            # Stopped between two proofs: make one of the values as they are, and keep the better.
            if last is not None:
                start = last.values()
            best = watch.better(prove(np.zeros(mdp.num_states) if start is None else start))
            watch.sweeps += 1
        if on_table and model is not None:
            best = best._replace(backup=best.backup._replace(choice=model.actions_of(best.backup.choice)))
            exhausted = reason in ("", COARSE) and not watch.error_bound <= tolerance
            if isinstance(model, Undiscounted) and model.endless is None and method == "auto" and exhausted:
                best = _exact_proof(given, best) or best
        return _solution(given, certificate, best, watch, tolerance, method, reason)


def _why(stop: BaseException) -> str:
    """The reason that a message gives."""
    return "interrupted" if isinstance(stop, KeyboardInterrupt) else str(stop)


class _Proof(NamedTuple):
    backup: Backup
    lower: float
    upper: float

    def answer(self, shift_is_free: bool) -> tuple[float, float]:
        """(shift, bound): v = Bv + shift lies within bound of v*."""
        shift = 0.5 * self.lower + 0.5 * self.upper if shift_is_free and np.isfinite(self.upper - self.lower) else 0.0
        return shift, max(self.upper - shift, shift - self.lower, 0.0)


def _exact_proof(mdp: MDP, proof: _Proof) -> _Proof | None:
    """What rational arithmetic proves of a small model with discount 1; None if it is too large or does not fit."""
    exact = solve_exactly(mdp, np.asarray(proof.backup.choice, np.int64))
    rounded = None if exact is None else exact.rounded()
    if exact is None or rounded is None:
        return None
    v, lower, upper = rounded
    return _Proof(Backup(v, v, exact.policy, 0.0, 0.0), lower, upper)


class _Watch:
    """Follows a method: proves, records, reports and stops."""

    def __init__(self, certificate, prove, tolerance, deadline, max_iterations, callback):
        self._certificate, self._prove, self._tolerance, self._deadline = certificate, prove, tolerance, deadline
        self._max_iterations, self._callback = max_iterations, callback
        self.best: _Proof | None = None
        self.trace: list[float] = []
        self.sweeps = 0.0
        self.error_bound = np.inf
        self._unproved = self._idle_proofs = 0
        self.proves_again = False
        """Whether the backups of the method itself are no proof."""

    def better(self, backup: Backup) -> _Proof:
        """The better of the best proof so far and the one from this backup."""
        lower, upper = self._certificate.bounds(backup.low, backup.high, backup.v, backup.error)
        if not (math.isfinite(lower) and math.isfinite(upper)):  # half of a bound is none, and so is inf - inf
            lower, upper = -np.inf, np.inf
        proof = _Proof(backup, lower, upper)
        bound = proof.answer(self._certificate.shift_is_free)[1]
        self._idle_proofs = 0 if bound < self.error_bound else self._idle_proofs + 1
        finite = math.isfinite(backup.low) and math.isfinite(backup.high)
        if self.best is None or (bound <= self.error_bound and finite):
            # The answer must not change when the method goes on in the array that it handed out.
            self.best, self.error_bound = proof._replace(backup=backup._replace(out=backup.out.copy())), bound
        return self.best

    def best_values(self) -> np.ndarray:
        """The values that the best proof is about."""
        assert self.best is not None
        return self.best.backup.out + self.best.answer(self._certificate.shift_is_free)[0]

    def best_is_much_smaller(self) -> bool:
        """Whether the answer is much smaller than the values it was proved from, whose rounding limits the bound."""
        assert self.best is not None
        return 2.0 * np.abs(self.best_values()).max() < np.abs(self.best.backup.v).max()

    def run(self, iterates: Iterator[Iterate], show: Callable[[Progress], None]) -> tuple[Iterate | None, str]:
        """Iterate until there is a reason to stop; (last iterate, the reason, empty when solved)."""
        last, before = None, self.sweeps
        try:
            for last in iterates:
                self.trace.append(last.residual)
                self.sweeps = before + last.sweeps
                residual = last.residual
                self._unproved = self._unproved + 1 if last.backup is None else 0
                if self._unproved >= PROVE_EVERY:
                    # A method that waits for a small change may wait for ever where float64 is too coarse for it.
                    last, self._unproved = last._replace(backup=self._prove(last.values())), 0
                if last.backup is not None:
                    self.better(self._prove(last.values()) if self.proves_again else last.backup)
                reason = self._reason_to_stop(last, residual)
                news = Progress(len(self.trace), self.sweeps, self.seconds, residual, self.error_bound)
                show(news)
                if self._callback is not None and self._callback(news) and reason is None:
                    reason = "stopped by the callback"
                if reason is not None:
                    return last, reason
                self._deadline.check()
        except STOPS as stop:
            # Perhaps within an iteration: its values may have moved on since they were proved.
            return (None if last is None else last._replace(backup=None)), _why(stop)
        return last, ""

    def _reason_to_stop(self, last: Iterate, residual: float) -> str | None:
        if self.error_bound <= self._tolerance and last.own_residual is None:
            return ""
        if not math.isfinite(residual) and last.has_residual:
            return OVERFLOW
        if last.backup is not None and np.isfinite(self.error_bound):
            floor = self._certificate.floor(last.backup.v)
            at_floor = floor * NEAR_ROUNDING >= self._tolerance and self.error_bound <= floor * NEAR_ROUNDING
            only_rounding = self._certificate.discounted or residual <= self._certificate.rounding(last.backup.v)
            if at_floor or (self._idle_proofs >= IDLE_PROOFS and only_rounding):
                return COARSE
        if self._max_iterations is not None and len(self.trace) >= self._max_iterations:
            return f"stopped after {len(self.trace)} iterations"
        if not np.isfinite(self.error_bound) and last.backup is not None and residual <= 1e-3 * self._tolerance:
            return ""  # no bound can ever be proved: a small residual has to do
        if not np.isfinite(self.error_bound) and last.backup is not None and len(self.trace) >= UNBOUNDED_ITERATIONS:
            return f"stopped after {len(self.trace)} iterations, with values that may have no limit"
        return None

    @property
    def seconds(self) -> float:
        return self._deadline.elapsed


def _solution(mdp, certificate, proof, watch, tolerance, method, reason) -> Solution:
    shift, bound = proof.answer(certificate.shift_is_free)
    v = proof.backup.out + shift
    largest = float(np.abs(v).max())
    bound += 2.0**-52 * largest
    loss = proof.upper - proof.lower + 2.0**-52 * largest
    if not np.isfinite(largest):
        v, bound, loss = np.nan_to_num(v, nan=0.0), np.inf, np.inf
    converged = bool(bound <= tolerance)
    message = ""
    if not np.isfinite(bound):
        message = certificate.obstacle() or OVERFLOW
        if reason and reason != message:
            message = f"{reason}; {message}"
    elif not converged:
        if method == "multi-step" and not reason:
            reason = "the multi-step operator has converged to its own fixed point"
        message = f"{reason or 'nothing changes any more'}: v is only known to be within {bound:.3g} of v*"
    return Solution(
        v=v,
        policy=np.asarray(proof.backup.choice, np.int64),
        error_bound=float(bound),
        policy_loss_bound=float(loss),
        converged=converged,
        iterations=len(watch.trace),
        sweeps=float(watch.sweeps),
        trace=np.array(watch.trace),
        seconds=watch.seconds,
        method=method,
        message=message,
        # A jump is more than a step: with discount 1, q is the step before v.
        _evidence=(mdp, proof.backup.v, shift) if certificate.discounted else (mdp, v, 0.0),
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
        check_int("horizon", horizon)
    check_float("tolerance", tolerance, 0, above=True)
    if max_iterations is not None:
        check_int("max_iterations", max_iterations)
    if time_limit is not None:
        check_float("time_limit", time_limit, 0, above=True)


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
