"""The greedy policy of a learner's networks as a `NumpyPolicy`, which acts without JAX."""

from __future__ import annotations

from typing import Any

import numpy as np

from greedystep.deep.config import AUTO_OUTPUTS
from greedystep.deep.heads import split_policy
from greedystep.deep.learner import Learner
from greedystep.deep.networks import numpy_layers
from greedystep.numpy_policy import NumpyPolicy


def numpy_policy(learner: Learner, policy: Any, **about: Any) -> NumpyPolicy:
    """Return the greedy policy of these networks, with "auto" of its best head, for use without JAX.

    Args:
        policy: as for `Learner.acting_q`.
        about: what `NumpyPolicy` keeps of the environment: `env`, `first_action`.
    """
    config, actions, spec = learner.config, learner.num_actions, learner.observation
    params, head = split_policy(policy)
    kind, layers = numpy_layers(learner.networks_of(params))
    pessimism = 1.0
    if config.returns == "auto":
        rate, output = divmod(int(head), config.outputs)
        pessimism = AUTO_OUTPUTS[output].pessimism
        own = slice(rate * config.ensemble, (rate + 1) * config.ensemble)
        ours, first = (slice(i * actions, (i + 1) * actions) for i in (output, 0))
        *hidden, last = layers
        # Behind the networks of the head stands that of the behaviour, if there is one, with its first output.
        rest = slice(config.num_q_networks, None)
        layers = [(np.concatenate([w[own], w[rest]]), np.concatenate([b[own], b[rest]])) for w, b in hidden]
        w, b = (np.concatenate([x[own][..., ours], x[rest][..., first]]) for x in last)
        layers.append((w, b))
    scale = 255.0 if spec.dtype == np.uint8 else 1.0
    about["dtype"] = str(spec.dtype)
    return NumpyPolicy(kind, spec.shape, layers, scale, config.bcq_threshold, pessimism, **about)
