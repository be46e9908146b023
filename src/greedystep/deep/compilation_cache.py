"""Where compiled programs are kept between processes."""

from __future__ import annotations

import os
from pathlib import Path

import jax


def keep_compiled_programs() -> None:
    """Keep compiled programs in the user's cache folder, so that a second process need not compile them.

    Does nothing if JAX has a cache configured already.
    """
    if jax.config.values["jax_compilation_cache_dir"] is None:
        home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
        jax.config.update("jax_compilation_cache_dir", str(Path(home) / "greedystep" / "xla"))
