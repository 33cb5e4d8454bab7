"""Namespaces for real: links are as slow as they should be, a cut is noticed, and nothing is ever left behind."""

from __future__ import annotations

import json
import multiprocessing
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from safetensors.torch import load_file

from palmette.cli import execute as palmette
from palmette.cost.steps import Kind
from palmette.errors import InputError, RunError
from palmette.runtime.phase_programs import parts_of
from palmette.runtime.transports.rendezvous import FileRendezvous
from palmette.runtime.transports.tls.rendezvous import HubRendezvous
from palmette.spec.cluster import Link
from palmette.spec.link_trace import BandwidthTrace
from palmette.testbed import iproute
from palmette.testbed.namespaces import NamespaceTestbed
from tests.durations import lasting
from tests.runtime.world import alive
from tests.testbed.stand import Files, Message, ahead, cluster, ends, evaluator, split, standing

ROOT = Path(__file__).parents[2]


def _why_not() -> str | None:
    try:
        iproute.require_namespaces()
    except InputError as error:
        return str(error)
    return None


pytestmark = [
    pytest.mark.namespaces,
    pytest.mark.xdist_group("namespaces"),  # one after the other: each looks for what others leave behind
    pytest.mark.skipif(_why_not() is not None, reason=str(_why_not())),
]


def namespaces(pid: int) -> list[str]:
    """The namespaces that a process has made, oldest first."""
    folder = Path("/var/run/netns")
    found = [path.name for path in folder.glob(f"palmette-{pid}-*")] if folder.is_dir() else []
    return sorted(found, key=lambda name: int(name.rpartition("-")[2]))


def links() -> set[str]:
    """The network devices outside of all namespaces, but for those of other processes that are at work."""
    found = {path.name for path in Path("/sys/class/net").iterdir()}
    return {name for name in found if not _of_others(name)}


def _of_others(device: str) -> bool:
    owner = re.match(r"plm(\d+)-", device)
    return owner is not None and int(owner[1]) != os.getpid() and alive(int(owner[1]))


def workers(folder: Path | None = None) -> set[int]:
    """The processes that work in a folder, and all that are about namespaces of ours."""
    found = set()
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            ours = f"palmette-{os.getpid()}-" in (entry / "cmdline").read_text(errors="replace")
            there = folder is not None and (entry / "cwd").readlink() == folder
            if (ours or there) and "State:\tZ" not in (entry / "status").read_text():
                found.add(int(entry.name))
        except OSError:
            continue
    return found


def begun(out: Path) -> bool:
    """Whether a run has finished an iteration."""
    metrics = out / "metrics.jsonl"
    return metrics.exists() and metrics.stat().st_size > 0


def eventually(true, within_s: float) -> bool:
    until = time.monotonic() + within_s
    while not (found := true()) and time.monotonic() < until:
        time.sleep(0.05)
    return bool(found)


@pytest.fixture(autouse=True)
def _nothing_is_left():
    """Whatever a test makes is gone when it is over, and nothing else."""
    before = links()
    stranger = f"stranger-{os.getpid()}"
    subprocess.run(["ip", "netns", "add", stranger], check=True)
    yield
    subprocess.run(["ip", "netns", "delete", stranger], check=True)  # fails if it is gone
    assert namespaces(os.getpid()) == []
    assert eventually(lambda: links() <= before, 5), links() - before  # the kernel takes its time


@pytest.fixture
def files(tmp_path, monkeypatch):
    """Makes the files of a run whose links have a bandwidth."""
    monkeypatch.setenv("PYTHONPATH", f"{ROOT / 'src'}")
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    yield lambda bandwidth: Files(tmp_path, bandwidth)
    for number, handler in handlers.items():
        signal.signal(number, handler)


def least_s(pair, channels, size, times=3):
    """Seconds of a transfer by each channel: the least of a few, since a busy machine only adds."""
    return [min(each) for each in zip(*(pair.transfer_s(channels, size) for _ in range(times)), strict=True)]


@pytest.mark.timing
@pytest.mark.parametrize(
    ("wires", "bottleneck_bps"),
    [
        ([("a", "b", "10 Mbit/s")], 10e6),
        ([("a", "hut", "30 Mbit/s"), ("hut", "tower", "10 Mbit/s"), ("tower", "b", "20 Mbit/s")], 10e6),
    ],
    ids=["one link", "two relays"],
)
def test_a_transfer_takes_bytes_over_bandwidth(wires, bottleneck_bps):
    with ends(NamespaceTestbed(1.0), cluster(*wires), "a", "b") as pair:
        for size, times in ((200_000, 5), (2_000_000, 1)):
            (taken_s,) = least_s(pair, [pair.there], size, times)
            assert taken_s == lasting(size * 8 / bottleneck_bps)


@pytest.mark.timing
def test_the_two_directions_of_a_link_do_not_share_it():
    with ends(NamespaceTestbed(1.0), cluster(("a", "b", "10 Mbit/s")), "a", "b") as pair:
        pair.transfer_s([pair.there, pair.back], 100_000)
        assert least_s(pair, [pair.there, pair.back], 500_000) == [lasting(0.4)] * 2


@pytest.mark.timing
def test_each_direction_has_a_bandwidth_of_its_own():
    link = Link(between=("a", "b"), up_bps=4e6, down_bps=20e6)
    apart = cluster(("a", "b", "1 Mbit/s")).model_copy(update={"links": (link,)})
    with ends(NamespaceTestbed(1.0), apart, "a", "b") as pair:
        pair.transfer_s([pair.there, pair.back], 20_000)
        assert least_s(pair, [pair.there, pair.back], 250_000) == [lasting(0.5), lasting(0.1)]


@pytest.mark.timing
def test_a_trace_changes_the_rate_of_a_link() -> None:
    trace = BandwidthTrace(time_s=(0.0, 0.3, 60.0), down_bps=(20e6, 200e3, 200e3))
    (link,) = cluster(("a", "b", "1 Mbit/s")).links
    varying = link.model_copy(update={"bandwidth_bps": None, "bandwidth_trace": trace})
    wires = cluster(("a", "b", "1 Mbit/s")).model_copy(update={"links": (varying,)})
    with ends(NamespaceTestbed(1.0), wires, "a", "b") as pair:
        time.sleep(0.6)
        (taken_s,) = least_s(pair, [pair.there], 10_000)
    assert taken_s == lasting(10_000 * 8 / 200e3, sooner=0.15)


@pytest.mark.timing
@pytest.mark.parametrize("sender", ["phone", "server"], ids=["the same sender", "a node on the way"])
def test_samples_sent_ahead_give_way_on_every_link(sender):
    wires = cluster(("phone", "server", "8 Mbit/s"), ("server", "cloud", "4 Mbit/s"))
    with standing(NamespaceTestbed(1.0), wires, ahead("phone", sender, "cloud")) as nodes:
        samples, output = nodes.channel_of(Kind.DATA), nodes.channel_of(Kind.OUTPUT)
        nodes.transfer_s([output], 1000)
        found = nodes.arrivals_s([Message(samples, 1_000_000, background=True), Message(output, 250_000, after_s=0.5)])
    # The samples alone until 0.5 s, the output until 1 s, and the other samples until 2.5 s.
    assert found == [lasting(2.5), lasting(1.0, most_s=1.4)]  # 1.5 s by turns


@pytest.mark.timing
def test_a_full_link_is_not_taken_for_a_cut_one():
    with ends(NamespaceTestbed(1.0), cluster(("a", "b", "500 kbit/s")), "a", "b") as pair:
        there, back = pair.transfer_s([pair.there, pair.back], 375_000)
    assert [there, back] == [lasting(6.0)] * 2


@pytest.mark.timing
def test_messages_wait_for_the_latency_of_their_route():
    with ends(NamespaceTestbed(2.0), cluster(("a", "b", "1 Gbit/s"), latency="100 ms"), "a", "b") as pair:
        pair.transfer_s([pair.there], 10)
        assert least_s(pair, [pair.there], 10)[0] == lasting(0.2, most_s=0.35)


@pytest.mark.timing
@pytest.mark.parametrize("transport", ["gloo", "tls"])
def test_samples_sent_ahead_follow_one_another_whatever_the_latency(transport):
    wires = cluster(("a", "b", "4 Mbit/s"), latency="200 ms")
    rendezvous = HubRendezvous(wires) if transport == "tls" else FileRendezvous()
    with standing(NamespaceTestbed(1.0, rendezvous), wires, ahead("a", "a", "b")) as pair:
        samples = Message(pair.channel_of(Kind.DATA), 5_000, background=True)
        pair.arrivals_s([samples])
        (found_s,) = pair.arrivals_s([samples._replace(times=10)])
    assert found_s == lasting(0.2 + 10 * 0.01, sooner=0.1, most_s=1.5)  # 2.1 s one after the other


@pytest.mark.timing
def test_time_that_is_stretched_further_slows_links_down():
    with ends(NamespaceTestbed(), cluster(("a", "b", "1 Mbit/s"), latency="20 ms"), "a", "b") as pair:
        pair.transfer_s([pair.there], 10_000)
        assert pair._ground.increase_dilation(3.0) is not None
        assert pair.transfer_s([pair.there], 50_000)[0] == lasting(3 * (0.02 + 0.4))


def retransmitted(name: str) -> int:
    """The TCP segments that a namespace had to send again."""
    words = ["ip", "netns", "exec", name, "cat", "/proc/net/snmp"]
    table = subprocess.run(words, check=True, capture_output=True, text=True).stdout
    heads, values = (line.split() for line in table.splitlines() if line.startswith("Tcp:"))
    return int(values[heads.index("RetransSegs")])


@pytest.mark.timing
def test_what_is_under_way_while_time_is_stretched_goes_on_and_nothing_is_lost():
    with ends(NamespaceTestbed(), cluster(("a", "b", "1 Mbit/s")), "a", "b") as pair:
        pair.transfer_s([pair.there], 10_000)
        before = sum(map(retransmitted, namespaces(os.getpid())))
        stretching = threading.Timer(0.05 + 0.5, pair._ground.increase_dilation, [2.0])
        stretching.start()
        (found_s,) = pair.transfer_s([pair.there], 125_000)
        stretching.join()
        assert sum(map(retransmitted, namespaces(os.getpid()))) == before
    assert 1.2 < found_s < 2.0  # 1 s at the old rate alone, 2 s at the new one


@pytest.mark.timing
def test_a_message_shorter_than_predicted_arrives_sooner():
    with ends(NamespaceTestbed(1.0), cluster(("a", "b", "200 kbit/s")), "a", "b") as pair:
        pair.transfer_s([pair.there], 10)
        assert pair.transfer_s([pair.there], 2_000)[0] < 0.3 < 10_000 * 8 / 200e3  # by the profile


@pytest.mark.timing
def test_two_runs_at_once_do_not_meet():
    wires = cluster(("a", "b", "20 Mbit/s"))
    with ends(NamespaceTestbed(1.0), wires, "a", "b") as one, ends(NamespaceTestbed(1.0), wires, "a", "b") as other:
        assert len(namespaces(os.getpid())) == 4
        for pair in (one, other):
            assert pair.transfer_s([pair.there], 200_000)[0] < 1


@pytest.mark.timing
def test_a_cut_link_is_noticed_and_the_silent_node_named():
    with ends(NamespaceTestbed(1.0), cluster(("a", "b", "1 Mbit/s")), "a", "b") as pair:
        subprocess.run(["ip", "-n", namespaces(os.getpid())[0], "link", "set", "link0", "down"], check=True)
        began_s = time.monotonic()
        with pytest.raises(RunError, match=r"node [ab] has not been heard from for \d+ s \(its link may be cut\)"):
            pair.transfer_s([pair.there], 200_000)
        assert 3 < time.monotonic() - began_s < 15


def crossed(name: str) -> int:
    """The bytes that have crossed the cable of a namespace, either way."""
    words = ["ip", "-n", name, "-s", "-j", "link", "show", "link0"]
    (found,) = json.loads(subprocess.run(words, check=True, capture_output=True, text=True).stdout)
    return int(found["stats64"]["rx"]["bytes"] + found["stats64"]["tx"]["bytes"])


@pytest.mark.timing
@pytest.mark.parametrize("transport", ["gloo", "tls"])
def test_signs_of_life_are_few_bytes_and_enough(transport):
    """Two nodes that have nothing to tell each other for longer than silence may last."""
    wires = cluster(("a", "b", "1 Mbit/s"))
    rendezvous = HubRendezvous(wires) if transport == "tls" else FileRendezvous()
    with ends(NamespaceTestbed(1.0, rendezvous), wires, "a", "b") as pair:
        pair.transfer_s([pair.there], 100)
        (space, _) = namespaces(os.getpid())
        before, began_s = crossed(space), time.monotonic()
        time.sleep(6)
        rate = (crossed(space) - before) / (time.monotonic() - began_s)
        pair.transfer_s([pair.there], 100)
    assert 50 < rate < 1000


@pytest.mark.parametrize("failing", ["netns", "-batch", "-n"])
@pytest.mark.parametrize("error", [RunError("no"), KeyboardInterrupt()], ids=["error", "Ctrl-C"])
def test_an_exception_half_way_through_the_set_up_leaves_nothing(failing, error, monkeypatch):
    real, calls = iproute.run_command, []

    def call(*words, lines=None):
        calls.append(words)
        if sum(failing == each[1] for each in calls) == 2 or failing == "-batch" in words:
            raise error
        return real(*words, lines=lines)

    monkeypatch.setattr(iproute, "run_command", call)
    prices = evaluator(cluster(("a", "b", "1 Mbit/s")))
    phase = split("a", "b").phases[0]
    with pytest.raises(type(error)):
        NamespaceTestbed(1.0).open(phase, parts_of(phase, prices), prices)
    assert namespaces(os.getpid()) == []


def test_what_a_dead_run_left_behind_is_removed_and_nothing_else():
    dead, reused = "palmette-4194999-1-0", f"palmette-{os.getppid()}-1-0"
    (alive,) = iproute.new_names(1)
    for name in (dead, reused, alive):
        subprocess.run(["ip", "netns", "add", name], check=True)
    iproute.remove_leftovers()
    left = [name for name in (dead, reused, alive) if (Path("/var/run/netns") / name).exists()]
    iproute.remove([alive])
    assert left == [alive]


def test_a_killed_cleaner_is_done_without():
    with ends(NamespaceTestbed(1.0), cluster(("a", "b", "20 Mbit/s")), "a", "b") as pair:
        pair._ground._cleaner._process.kill()
    assert namespaces(os.getpid()) == []


def test_weights_are_those_of_a_run_without_a_network(files):
    made = files("100 Mbit/s")
    for testbed in ("namespaces", "none"):
        assert palmette(made.arguments(testbed, testbed, 6)) == 0
    one, other = (load_file(made.folder / testbed / "model.safetensors") for testbed in ("namespaces", "none"))
    assert all(weights.equal(other[name]) for name, weights in one.items())


@pytest.mark.timing
def test_a_run_whose_link_is_cut_ends_and_names_a_node(files, capsys):
    made = files("2 Mbit/s")
    cut_s: list[float] = []

    def cut():
        assert eventually(lambda: begun(made.folder / "out"), 60)
        subprocess.run(["ip", "-n", namespaces(os.getpid())[0], "link", "set", "link0", "down"], check=True)
        cut_s.append(time.time())

    cutting = threading.Thread(target=cut)
    cutting.start()
    assert palmette(made.arguments("out", "namespaces", 1000)) == 1
    cutting.join()
    assert (made.folder / "out" / "run.json").stat().st_mtime - cut_s[0] < 15
    assert re.search(r"node \w+ has not been heard from for \d+ s \(its link may be cut\)", capsys.readouterr().err)
    assert multiprocessing.active_children() == []
    assert workers() == set()


def test_a_killed_run_leaves_no_namespace_and_no_process(files):
    made = files("2 Mbit/s")
    run = made.start("out", "namespaces", 1000)
    assert eventually(lambda: run.poll() is not None or begun(made.folder / "out"), 90)
    assert len(namespaces(run.pid)) == 3
    assert len(workers(made.folder)) > 3
    run.send_signal(signal.SIGKILL)
    run.communicate(timeout=20)
    assert eventually(lambda: not namespaces(run.pid) and not workers(made.folder), 10)


def test_weights_over_tls_are_those_of_a_run_without_a_network(files):
    made = files("100 Mbit/s")
    assert palmette([*made.arguments("namespaces", "namespaces", 6), "--transport", "tls"]) == 0
    assert palmette(made.arguments("none", "none", 6)) == 0
    one, other = (load_file(made.folder / testbed / "model.safetensors") for testbed in ("namespaces", "none"))
    assert all(weights.equal(other[name]) for name, weights in one.items())


GARBAGE = """
import os, socket, sys
for port in map(int, sys.argv[2:]):
    for words in (b"", b"GET / HTTP/1.1\\r\\n\\r\\n", os.urandom(1_000), b"\\x80\\x05pickle" * 100):
        for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
            with socket.socket(socket.AF_INET, kind) as line:
                try:
                    line.connect((sys.argv[1], port))
                    line.send(words)
                except OSError:
                    pass
"""


def test_garbage_for_every_open_port_of_every_node_changes_nothing_over_tls(files):
    """Spoken from a node of the network itself."""
    made = files("20 Mbit/s")
    spoken: list[str] = []

    def disturb():
        assert eventually(lambda: begun(made.folder / "disturbed"), 60)
        inside = [["ip", "netns", "exec", name] for name in namespaces(os.getpid())]
        for enter in inside:
            table = subprocess.run(
                [*enter, "cat", "/proc/net/tcp", "/proc/net/udp"], check=True, capture_output=True, text=True
            ).stdout
            ends = [line.split() for line in table.splitlines() if line.split()[3] in ("0A", "07")]
            for address, port in {tuple(end[1].split(":")) for end in ends}:
                host = socket.inet_ntoa(bytes.fromhex(address)[::-1])
                subprocess.run([*inside[0], sys.executable, "-c", GARBAGE, host, str(int(port, 16))], check=True)
                spoken.append(port)

    disturbing = threading.Thread(target=disturb)
    disturbing.start()
    assert palmette([*made.arguments("disturbed", "namespaces", 60), "--transport", "tls"]) == 0
    disturbing.join()
    assert len(spoken) == 1  # nobody but the hub listens
    assert palmette([*made.arguments("in peace", "none", 60)]) == 0
    one, other = (load_file(made.folder / name / "model.safetensors") for name in ("disturbed", "in peace"))
    assert all(weights.equal(other[name]) for name, weights in one.items())
