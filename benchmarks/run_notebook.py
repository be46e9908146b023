"""Run a notebook and store what it prints and draws: `python -m benchmarks.run_notebook examples/tour.ipynb`.

A plain loop over the cells, so that neither tests nor readers of the code need Jupyter. What a cell prints is stored as
text; figures that are open when it ends are stored as PNG images and closed.
"""

from __future__ import annotations

import ast
import base64
import io
import json
import sys
from collections.abc import Sequence
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

from greedystep.io import atomic_write


def code_cells(notebook: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the cells that hold code."""
    return [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]


def run_cell(source: str, names: dict[str, Any]) -> list[dict[str, Any]]:
    """Run one cell with the names of those before it, and return its outputs in the notebook format."""
    import matplotlib

    matplotlib.use("agg")
    import matplotlib.pyplot as plt

    printed = io.StringIO()
    with redirect_stdout(printed):
        exec(compile(ast.parse(source), "<cell>", "exec"), names)
    text = printed.getvalue()
    outputs = [{"output_type": "stream", "name": "stdout", "text": text.splitlines(keepends=True)}] if text else []
    for number in plt.get_fignums():
        image = io.BytesIO()
        plt.figure(number).savefig(image, format="png", dpi=80, metadata={"Software": None})
        data = {"image/png": base64.b64encode(image.getvalue()).decode()}
        outputs.append({"output_type": "display_data", "metadata": {}, "data": data})
    plt.close("all")
    return outputs


def run(notebook: dict[str, Any]) -> list[list[dict[str, Any]]]:
    """Run the code cells in order and return the outputs of each."""
    names: dict[str, Any] = {"__name__": "__main__"}
    return [run_cell("".join(cell["source"]), names) for cell in code_cells(notebook)]


def main(words: Sequence[str]) -> int:
    """Run the given notebook and store its outputs in it."""
    if len(words) != 1 or not words[0].endswith(".ipynb"):
        print("run_notebook: give one notebook, which ends in .ipynb", file=sys.stderr)
        return 2
    path = Path(words[0])
    notebook = json.loads(path.read_text(encoding="utf-8"))
    for number, (cell, outputs) in enumerate(zip(code_cells(notebook), run(notebook), strict=True), start=1):
        cell["outputs"], cell["execution_count"] = outputs, number
    with atomic_write(path) as file:
        file.write((json.dumps(notebook, indent=1, ensure_ascii=False) + "\n").encode())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
