"""Cached loops: they are reused, and never after an edit of anything they were compiled from."""

import os
import subprocess
import sys
import time

from greedystep import numba_cache

PACKAGE = {
    "__init__.py": """
        from greedystep.numba_cache import cached_by_sources
        import other
        with cached_by_sources(__file__, other.__file__):
            from loops.caller import total
        """,
    "caller.py": """
        from numba import njit
        from loops.callee import part
        import other
        outside = other.outside
        @njit(cache=True)
        def total(x):
            return part(x) + outside(x)
        """,
    "callee.py": """
        from numba import njit
        @njit(cache=True)
        def part(x):
            return x + 1
        """,
    "../other.py": """
        from numba import njit
        @njit(cache=True)
        def outside(x):
            return 100 * x
        """,
}
ASK = """
import numba
from loops import total
print(total(1), sum(total.stats.cache_hits.values()), numba.config.CACHE_DIR)
"""


def write(folder, changes):
    (folder / "loops").mkdir(exist_ok=True)
    for name, text in (PACKAGE | changes).items():
        lines = text.strip("\n").splitlines()
        path, new = folder / "loops" / name, "\n".join(line[8:] for line in lines) + "\n"
        if not path.exists() or path.read_text() != new:
            path.write_text(new)


def ask(folder, **environment):
    """(what the loop answers, whether it came from the cache, numba's setting afterwards)."""
    done = subprocess.run(
        [sys.executable, "-c", ASK],
        cwd=folder,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=True,
    )
    answer, hits, *setting = done.stdout.split()
    return int(answer), int(hits) > 0, "".join(setting)


def test_an_edit_of_any_file_is_noticed_and_going_back_compiles_nothing(tmp_path):
    write(tmp_path, {})
    assert ask(tmp_path) == (102, False, "")
    assert ask(tmp_path) == (102, True, "")
    write(tmp_path, {"callee.py": PACKAGE["callee.py"].replace("x + 1", "x + 2")})
    assert ask(tmp_path)[:2] == (103, False)
    write(tmp_path, {"../other.py": PACKAGE["../other.py"].replace("100", "200")})
    assert ask(tmp_path)[:2] == (202, False)
    write(tmp_path, {})
    assert ask(tmp_path)[:2] == (102, True)


def test_a_folder_that_was_asked_for_is_used(tmp_path):
    write(tmp_path, {})
    place = str(tmp_path / "elsewhere")
    assert ask(tmp_path, NUMBA_CACHE_DIR=place) == (102, False, place)
    assert ask(tmp_path, NUMBA_CACHE_DIR=place) == (102, True, place)
    assert list((tmp_path / "elsewhere").glob("greedystep-loops-*"))


def test_only_old_folders_go(tmp_path):
    long_ago = time.time() - 2 * numba_cache.OLD
    folders = [tmp_path / f"greedystep-x-{number:02}" for number in range(numba_cache.KEPT + 3)]
    for number, folder in enumerate(folders):
        folder.mkdir()
        (folder / "file").touch()
        os.utime(folder, (long_ago + number,) * 2)
    now = time.time()
    os.utime(folders[0], (now, now))
    numba_cache._delete_old(tmp_path, "greedystep-x")
    assert not any(folder.exists() for folder in folders[1:4])
    assert all(folder.exists() for folder in [folders[0], *folders[4:]])
