"""Bandwidth over time: read from a file beside the cluster's, and what holds for how long."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

import palmette as pt
from palmette.errors import InputError
from palmette.spec.cluster import Cluster
from palmette.spec.files import validated
from palmette.spec.link import Link
from palmette.spec.link_csv import read_trace
from palmette.spec.link_trace import BandwidthTrace

CLUSTER = """
nodes:
  phone: {tier: device, source: {samples: 9}}
  server: {tier: edge}
links:
  - {between: [phone, server], bandwidth_trace: traces/lte.csv}
"""
ROWS = "time_s,down_bps,up_bps\n0,8000000,1000000\n1,2000000,500000\n3,0,0\n"


def written(folder: Path, rows: str = ROWS, cluster: str = CLUSTER) -> Path:
    (folder / "traces").mkdir(exist_ok=True)
    (folder / "traces" / "lte.csv").write_text(rows)
    (folder / "cluster.yaml").write_text(cluster)
    return folder / "cluster.yaml"


def test_a_trace_stands_beside_the_cluster_file(tmp_path: Path) -> None:
    (link,) = pt.load_cluster(written(tmp_path)).links
    assert link.bandwidth_trace is not None
    # 1 s, 2 s, and the last as long as the one before: 5 s in all.
    assert link.rates_bps == pytest.approx(((1e6 + 2 * 0.5e6) / 5, (8e6 + 2 * 2e6) / 5))
    assert link.from_bps("server") == pytest.approx(12e6 / 5)


def test_a_cluster_with_a_trace_reads_back_as_the_same(tmp_path: Path) -> None:
    cluster = pt.load_cluster(written(tmp_path))
    (tmp_path / "again.yaml").write_text(cluster.to_yaml())
    assert pt.load_cluster(tmp_path / "again.yaml") == cluster
    assert validated(Cluster, cluster.model_dump(mode="json")) == cluster


def test_one_direction_counts_for_both_where_there_is_no_other(tmp_path: Path) -> None:
    (link,) = pt.load_cluster(written(tmp_path, "time_s,down_bps\n0,3\n2,5\n")).links
    assert link.rates_bps == (4.0, 4.0)


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ("", "line 1"),
        ("seconds,down\n0,1\n", "line 1"),
        ("time_s,down_bps\n0,1\n1,fast\n", "line 3"),
        ("time_s,down_bps\n0,1\n1e-9,5\n", "time_s: rows of 1e-09 s"),
        ("time_s,down_bps\n0,1\n1\n", "line 3"),
        ("time_s,down_bps\n0,5\n0,6\n", "line 3: 0,6: expected time_s more than 0"),
        ("time_s,down_bps\n0,5\n2,6\n1,6\n", "line 4: 1,6: expected time_s more than 2"),
        ("time_s,down_bps\n0,0\n", "down_bps"),
        ("time_s,down_bps\n0,-4\n", "line 2: 0,-4: expected down_bps from 0"),
        ("time_s,down_bps\n0,1\n1,nan\n", "line 3: 1,nan: expected down_bps from 0"),
        ("time_s,down_bps\n0,1\n\n# a tunnel\n1,inf\n", "line 5: 1,inf: expected down_bps from 0"),
        ("time_s,down_bps\nnan,1\n", "line 2: nan,1: expected time_s to be a number"),
        ("time_s,down_bps,down_bps\n0,1,1\n", "line 1"),
        ("time_s,down_bps,rsrp\n0,1,-80\n", "line 1"),
        ("time_s,down_bps\n", "line 1: the last line: expected at least one row"),
        ('time_s,down_bps\n0,"' + "1" * 200_000, "line 2"),
    ],
)
def test_a_file_that_is_no_trace_is_refused_with_its_place(rows: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(InputError) as refused:
        pt.load_cluster(written(tmp_path, rows))
    assert said in str(refused.value)
    assert "lte.csv" in str(refused.value)


@pytest.mark.parametrize("more", ["bandwidth: 5 Mbit/s", "up: 1 Mbit/s, down: 2 Mbit/s", "duplex: half"])
def test_a_trace_stands_alone(more: str, tmp_path: Path) -> None:
    cluster = CLUSTER.replace("traces/lte.csv", f"traces/lte.csv, {more}")
    with pytest.raises(InputError, match="expected"):
        pt.load_cluster(written(tmp_path, cluster=cluster))


def test_a_missing_file_is_one_line(tmp_path: Path) -> None:
    path = written(tmp_path)
    (tmp_path / "traces" / "lte.csv").unlink()
    with pytest.raises(InputError, match="cannot be read"):
        pt.load_cluster(path)


def trace() -> BandwidthTrace:
    return BandwidthTrace(time_s=(0.0, 1.0, 3.0), down_bps=(8.0, 2.0, 4.0), up_bps=(3.0, 1.0, 0.0))


def test_what_holds_for_a_share_of_the_time() -> None:
    alone = trace().model_copy(update={"up_bps": None})
    assert [alone.robust_bps(share)[1] for share in (0.1, 0.2, 0.5, 0.6, 0.9)] == [8.0, 8.0, 4.0, 4.0, 2.0]
    assert [trace().robust_bps(share)[1] for share in (0.1, 0.2, 0.5, 0.9)] == [8.0, 8.0, 2.0, 2.0]
    assert trace().robust_bps(0.9)[0] == 1.0  # no link is slower than a bit a second


def test_changes_go_on_after_the_end() -> None:
    assert list(itertools.islice(trace().changes(2.0), 4)) == [
        (1.0, (0.0, 4.0)),
        (3.0, (3.0, 8.0)),
        (4.0, (1.0, 2.0)),
        (6.0, (0.0, 4.0)),
    ]
    assert [trace().at(moment)[1] for moment in (0.0, 0.99, 1.0, 4.9, 5.0, 11.5)] == [8.0, 8.0, 2.0, 4.0, 8.0, 2.0]


def test_changes_go_on_however_late_it_is() -> None:
    trace = BandwidthTrace(time_s=(0.0, 1.0), down_bps=(5.0, 7.0))
    assert next(trace.changes(2e17))[0] == 1.0


def test_what_is_measured_replaces_all_that_a_link_was_thought_to_do(tmp_path: Path) -> None:
    (link,) = pt.load_cluster(written(tmp_path)).links
    found = link.measured(2e6, 3e6, 0.1)
    assert Link.model_validate(found.model_dump()) == found
    assert (found.rates_bps, found.mean_latency_s) == ((2e6, 3e6), 0.1)


def test_a_steady_cluster_has_the_means_of_its_traces(tmp_path: Path) -> None:
    cluster = pt.load_cluster(written(tmp_path))
    steady = cluster.steady()
    assert not steady.varies
    assert steady.links[0].rates_bps == cluster.links[0].rates_bps


def test_how_long_a_link_stays_beyond_a_rate() -> None:
    assert trace().periods(0.0, 4.0, above=True) == (pytest.approx(3 / 5), pytest.approx(1.5))
    assert trace().periods(9.0, 2.0, above=False) == (pytest.approx(2 / 5), pytest.approx(2.0))
    assert trace().periods(9.0, 9.0, above=True) == (0.0, 0.0)


def test_a_long_trace_is_played_and_ranked_at_once() -> None:
    many = 100_000
    seconds, rates = tuple(map(float, range(many))), tuple(float(k % 20 + 1) for k in range(many))
    found = BandwidthTrace(time_s=seconds, down_bps=rates)
    assert found.robust_bps(0.9) == (3.0, 3.0)
    assert next(found.changes(many - 2.5))[0] == 0.5


def test_a_byte_order_mark_and_blank_lines_are_no_matter(tmp_path: Path) -> None:
    path = tmp_path / "link.csv"
    path.write_bytes(b"\xef\xbb\xbftime_s,down_bps\r\n0,1000\r\n  \r\n1,3000\r\n")
    assert read_trace(path).mean_bps == (2000.0, 2000.0)


def test_robust_rates_hold_in_both_directions_at_once() -> None:
    """Each direction fails in one row of ten, but not in the same: nine of ten moments take less."""
    up = (1.0, *(10.0,) * 4, 5.0, *(10.0,) * 4)
    down = (*(20.0,) * 5, 20.0, 2.0, *(20.0,) * 3)
    found = BandwidthTrace(time_s=tuple(map(float, range(10))), down_bps=down, up_bps=up)
    rates = found.robust_bps(0.9)
    assert found.periods(*rates, above=True)[0] >= 0.9 - 1e-9
    assert found.periods(*found.robust_bps(0.7), above=True)[0] == pytest.approx(0.7)
    assert found.robust_bps(0.7) == (10.0, 20.0)


@pytest.mark.parametrize(
    "rows",
    [
        "Time_S,DOWN_BPS,Up_bps\n0,8,2\n1,4,1\n",
        " time_s , down_bps , up_bps \n 0 , 8 , 2 \n 1 , 4 , 1 \n",
        "time_s,down_bps,up_bps\r\n0,8,2\r\n1,4,1\r\n",
        "\ufefftime_s,down_bps,up_bps\n0,8,2\n1,4,1",
        "# from a phone, down first\ntime_s,down_bps,up_bps\n0,8,2\n  # a tunnel\n1,4,1\n",
        "time_s,up_bps,down_bps\n0,2,8\n1,1,4\n",
        '"time_s","down_bps","up_bps"\n"0","8","2"\n"1","4","1"\n',
        "time_s,down_bps,up_bps\n1700000000,8,2\n1700000001,4,1\n",
    ],
)
def test_whatever_a_tool_writes_is_the_same_trace(rows: str, tmp_path: Path) -> None:
    path = tmp_path / "link.csv"
    path.write_text(rows, newline="")
    assert read_trace(path) == BandwidthTrace(time_s=(0.0, 1.0), down_bps=(8.0, 4.0), up_bps=(2.0, 1.0))


def test_one_row_is_a_link_that_does_not_change(tmp_path: Path) -> None:
    path = tmp_path / "link.csv"
    path.write_text("time_s,down_bps\n0,1000\n")
    found = read_trace(path)
    assert found.mean_bps == found.at(1e6) == found.robust_bps(0.9) == (1000.0, 1000.0)
    assert list(found.changes(0.0)) == []
