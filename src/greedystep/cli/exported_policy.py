"""A policy that `export --policy` wrote, and the environment to play it in; without JAX for those of Gymnasium."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from greedystep import envs
from greedystep.envs.observation_spec import check_spaces
from greedystep.numpy_policy import NumpyPolicy

if TYPE_CHECKING:
    from greedystep.deep.env_spec import AnyEnvironment


def read_policy(path: Path, env: str | None, **options: Any) -> tuple[NumpyPolicy, AnyEnvironment]:
    """Return the policy of a file and the environment `env`, or else the one that the file names.

    ValueError if the file names none, or if its policy is for other observations or actions.
    """
    policy = NumpyPolicy.load(path)
    name = policy.env if env is None else env
    if env is None and not name:
        raise ValueError(f"env: {path} does not say which environment it is for; give --env")
    if envs.is_own_name(name):
        from greedystep.deep.env_spec import as_environment

        made = as_environment(name, **options)
    else:
        from greedystep.envs.gymnasium_ids import check_registered
        from greedystep.envs.host import HostEnvironment

        if env is None:
            check_registered(name, path)
        made = HostEnvironment(name, **options)
    check_spaces(made, policy.shape, policy.num_actions)
    return policy, made
