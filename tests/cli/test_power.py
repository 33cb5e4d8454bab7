"""``palmette power`` on the command line."""

from __future__ import annotations

import json

from palmette.spec.files import load
from palmette.spec.power import PowerModel
from tests.cli.world import World


def test_sample_then_fit(world: World) -> None:
    log = world.write("plug.csv", "time_s,power_w\n" + "".join(f"{k},{10 + k % 3}\n" for k in range(60)))
    rows = world.folder / "samples.csv"
    done = world.palmette("power", "sample", "--meter", f"replay:{log}", "--for", "60ms", "--every", "10ms", "-o", rows)
    assert (done.code, done.err) == (0, "")
    header, *lines = rows.read_text().splitlines()
    assert {"power_w", "meter", "u_cpu", "u_mem"} <= set(header.split(","))
    assert len(lines) == 6


def test_fit_writes_a_model_that_reads_back(world: World) -> None:
    text = "u_cpu,u_mem,power_w\n" + "".join(f"{k / 30},{k % 7 / 7},{5 + k / 3 + k % 7}\n" for k in range(30))
    samples, file = world.write("samples.csv", text), world.folder / "power.json"
    done = world.palmette("power", "fit", samples, "-o", file)
    assert done.code == 0
    assert "counters left out: f_cpu, f_gpu" in done.out
    assert "mean error on held-out samples: 0.00%" in done.out
    model = load(PowerModel, file)
    assert list(model.coefficients) == ["u_cpu", "u_mem"]
    assert world.palmette("check", file).code == 0


def test_fit_as_json(world: World) -> None:
    text = "u_cpu,power_w\n" + "".join(f"{k / 30},{5 + k / 3}\n" for k in range(30))
    made = json.loads(world.palmette("power", "fit", world.write("s.csv", text), "--json").out)
    assert made["format"] == "palmette.power/1"
    assert made["mean_error"] < 1e-9


def test_bad_samples_are_a_line_each(world: World) -> None:
    file = world.write("s.csv", "u_cpu,power_w\n0.5,-1\nx,3\n")
    assert world.refused("power", "fit", file) == [
        f"{file}: line 2, power_w: -1: expected more than 0 W",
        f"{file}: line 3, u_cpu: x: expected a number of 0 or more",
    ]


def test_a_meter_is_required_and_named(world: World) -> None:
    (line,) = world.refused("power", "sample")
    assert "--meter" in line
    (line,) = world.refused("power", "sample", "--meter", "sundial")
    assert line == "--meter: sundial: expected one of zeus, replay:FILE, catalogue:NAME"
