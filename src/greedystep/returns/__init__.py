"""Return estimators: pure functions on a segment of consecutive stored steps, in NumPy, JAX or PyTorch.

`greedy` lets the data choose the bootstrapping step; `traces` holds the estimators with a fixed rule. They share their
arguments, arrays `[T, ...]` whose index t is the step from s[t] to s[t+1]; axes after the first are independent:

    rewards          rewards[t] for the action taken in s[t]
    discounts        γ (1 - terminated[t]), not negative
    values           V(s[t+1]): max_a Q(s[t+1], a), or E_π Q(s[t+1], ·) for a policy π
    cuts             booleans, true where an episode, or what is stored of it, ends at step t without a termination
    taken            Q(s[t+1], a[t+1]) for the action that was taken
    target_prob      π(a[t+1] | s[t+1]); behaviour_prob is μ(a[t+1] | s[t+1])
    lambda_, sigma   in [0, 1]

A segment may hold several episodes back to back. Where a discount is 0 (a termination) the return is the reward: the
value there is not read and may be NaN. Where `cuts` is set and after the last step, the return bootstraps and goes no
further. There is no next action at these three places: whatever is stored there for one is not read. Arguments other
than rewards, discounts, values and cuts may also be single numbers.

NumPy arrays in give NumPy arrays out, JAX arrays give JAX arrays, in the same dtype. Neither library's compiler is
imported before it is needed.

PyTorch's tensors give tensors on the same device, and share their memory with the backend (DLPack): NumPy's on a CPU,
JAX's on a GPU. Like any function of PyTorch, an estimator is differentiable: a result has a gradient where an argument
requires one (computed by JAX), unless `torch.no_grad()` says otherwise, as it should around the targets of Q-learning.
Greedy-step returns are differentiated at the steps they chose (where two are equal, as the mean of both); the steps
have no gradient, and there are no second derivatives.
"""

from greedystep.returns.greedy import Greedy, greedy_step, greedy_step_twin, soft_greedy_step
from greedystep.returns.traces import (
    importance_sampled,
    lambda_return,
    monte_carlo,
    n_step,
    off_policy,
    q_lambda,
    q_sigma,
    retrace,
    sarsa,
    tree_backup,
    watkins,
    weighted,
)

__all__ = [
    "Greedy",
    "greedy_step",
    "greedy_step_twin",
    "importance_sampled",
    "lambda_return",
    "monte_carlo",
    "n_step",
    "off_policy",
    "q_lambda",
    "q_sigma",
    "retrace",
    "sarsa",
    "soft_greedy_step",
    "tree_backup",
    "watkins",
    "weighted",
]
