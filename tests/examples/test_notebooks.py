"""The notebooks run from top to bottom, as scripts: their cells in a row."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

NOTEBOOKS = sorted((Path(__file__).parents[2] / "examples" / "notebooks").glob("*.ipynb"))


def code_of(notebook: Path) -> str:
    """The code of a notebook; the value of a cell's last line is shown as IPython would."""
    cells = [
        "".join(cell["source"]) for cell in json.loads(notebook.read_text())["cells"] if cell["cell_type"] == "code"
    ]
    return f"""
import ast
def show(cell, names):
    tree = ast.parse(cell)
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, "cell", "exec"), names)
    if last is not None:
        value = eval(compile(ast.Expression(last.value), "cell", "eval"), names)
        if value is not None:
            print(value)
            if hasattr(value, "_repr_html_"):
                value._repr_html_()
if __name__ == "__main__":
    names = {{"__name__": "__main__"}}
    for cell in {cells!r}:
        show(cell, names)
"""


def test_there_are_three() -> None:
    assert len(NOTEBOOKS) == 3


@pytest.mark.slow
@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda file: file.stem)
def test_it_runs(notebook: Path, tmp_path: Path) -> None:
    script = tmp_path / "notebook.py"
    script.write_text(code_of(notebook))
    environment = {**os.environ, "PYTHONWARNINGS": "ignore"}
    command = [sys.executable, str(script)]
    done = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=100, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout
