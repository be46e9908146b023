"""Where compiled programs are kept between processes."""

from __future__ import annotations

import os
from pathlib import Path

import jax

LEAST_SECONDS = 0.1
"""Programs that compile faster are not kept. JAX's default, 1 s, leaves out most of a training with small networks."""


def keep_compiled_programs() -> None:
    """Keep compiled programs in the user's cache folder, so that a second process need not compile them.

    Does nothing if JAX has a cache configured already.
    """
    if jax.config.values["jax_compilation_cache_dir"] is None:
        home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
        jax.config.update("jax_compilation_cache_dir", str(Path(home) / "greedystep" / "xla"))
        jax.config.update("jax_persistent_cache_min_compile_time_secs", LEAST_SECONDS)
