"""What the README shows of the demo is what came out."""

from __future__ import annotations

from pathlib import Path

from benchmarks.demo.page import BEGIN, END, put_into_readme, table

COMPARED = """\
strategy  iteration  nodes  planned in
hybrid       500 ms  phone      1.2 s
upload       700 ms  phone      3 ms
"""


def test_what_is_between_the_marks_is_replaced(tmp_path: Path) -> None:
    page = tmp_path / "README.md"
    page.write_text(f"before\n{BEGIN}\nold\n{END}\nafter\n")
    runs = {name: {"measured_s": each, "predicted_s": 0.4} for name, each in (("auto", 0.5), ("pipeline", 0.75))}
    put_into_readme(page, {"table": table(COMPARED), **runs, "times_as_fast": 1.5})
    text = page.read_text()
    assert text.startswith(f"before\n{BEGIN}\n```\nstrategy  iteration  nodes\nhybrid       500 ms  phone\n")
    assert "500 ms (predicted 400 ms) against\n750 ms (predicted 400 ms), 1.50 times as fast." in text
    assert text.endswith(f"{END}\nafter\n")
