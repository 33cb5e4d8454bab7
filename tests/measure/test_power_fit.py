"""The power model: exact on a linear machine, within the paper's errors on traces like its own."""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest

from palmette.errors import InputError
from palmette.measure.power_fit import PowerSamples, fit_power_model, load_samples
from palmette.spec.power import COUNTERS, PowerModel


def machine(rng: random.Random, kind: str, many: int = 400) -> tuple[dict[str, list[float]], list[float]]:
    """A trace like the paper's: what training does to a machine's counters, and its watts with a meter's noise.

    Idle watts, and what CPU, GPU and memory add at full clock; a GPU's power grows faster than its clock.
    """
    idle, cpu, gpu, memory, noise, has_cp = {
        "desktop": (45.0, 30.0, 65.0, 5.0, 0.022, False),
        "jtx1": (2.5, 2.0, 5.0, 1.0, 0.015, False),
        "jtx2": (2.5, 3.0, 7.0, 1.5, 0.010, True),
    }[kind]
    columns: dict[str, list[float]] = {name: [] for name in COUNTERS if has_cp or name not in ("f_cp", "u_cp")}
    watts = []
    for _ in range(many):
        f_cpu, f_gpu = rng.choice([0.8e9, 1.4e9, 2.0e9]), rng.choice([0.6e9, 0.8e9, 1.0e9])
        u_cpu, u_gpu = rng.uniform(0.2, 0.9), rng.uniform(0.6, 1.0)
        row = {"f_cpu": f_cpu, "f_gpu": f_gpu, "f_emc": rng.choice([0.8e9, 1.6e9]), "u_cpu": u_cpu, "u_gpu": u_gpu}
        row |= {"u_mem": rng.uniform(0.2, 0.6), "m_gpu": rng.uniform(0.2e9, 1.5e9), "m_swap": rng.choice([0.0, 1e8])}
        row |= {"c_cp": float(rng.choice([2, 4, 6])), "f_cp": rng.choice([1e9, 2e9]), "u_cp": rng.uniform(0.0, 0.5)}
        for name, values in columns.items():
            values.append(row[name])
        true = idle + cpu * u_cpu * f_cpu / 2e9 * 0.5 + cpu * 0.25 + gpu * (0.5 + 0.5 * u_gpu * (f_gpu / 1e9) ** 1.2)
        true += memory * row["f_emc"] / 1.6e9 + (1.0 * row["u_cp"] if has_cp else 0.0)
        watts.append(true * rng.gauss(1.0, noise))
    return columns, watts


def test_a_linear_machine_is_found_exactly() -> None:
    rng = random.Random(0)
    columns = {"f_cpu": [rng.uniform(1e9, 3e9) for _ in range(50)], "u_cpu": [rng.random() for _ in range(50)]}
    watts = [5 + 2e-9 * f + 7 * u for f, u in zip(*columns.values(), strict=True)]
    model = fit_power_model(PowerSamples(columns, watts, "test"))
    assert model.intercept_w == pytest.approx(5)
    assert model.coefficients == pytest.approx({"f_cpu": 2e-9, "u_cpu": 7})
    assert model.mean_error < 1e-9
    assert model.watts({"f_cpu": 1e9, "u_cpu": 0.5}) == pytest.approx(10.5)


@pytest.mark.parametrize("kind", ["desktop", "jtx1", "jtx2"])
def test_traces_like_the_papers_stay_within_its_worst_error(kind: str) -> None:
    columns, watts = machine(random.Random(kind), kind)
    model = fit_power_model(PowerSamples(columns, watts, kind))
    assert 0.001 < model.mean_error <= 0.022


def test_the_error_is_that_of_samples_not_seen() -> None:
    rng = random.Random(1)
    columns = {name: [rng.random() for _ in range(24)] for name in COUNTERS}
    model = fit_power_model(PowerSamples(columns, [rng.uniform(5, 15) for _ in range(24)], "noise"))
    assert model.mean_error > 0.2  # a fit judged on its own samples would look far better


def test_counters_that_are_missing_or_never_move_are_named() -> None:
    columns = {"u_cpu": [0.1 * k for k in range(20)], "f_cpu": [2e9] * 20}
    model = fit_power_model(PowerSamples(columns, [10.0 + k for k in range(20)], "test"))
    assert list(model.coefficients) == ["u_cpu"]
    assert set(model.left_out) == set(COUNTERS) - {"u_cpu"}


def test_without_a_counter_that_moves_the_model_is_the_mean() -> None:
    model = fit_power_model(PowerSamples({"f_cpu": [2e9] * 10}, [10.0 + k for k in range(10)], "test"))
    assert model.coefficients == {}
    assert model.intercept_w == pytest.approx(14.5)


def test_a_model_never_predicts_less_than_nothing() -> None:
    model = PowerModel(intercept_w=-5.0, coefficients={}, mean_error=0.0, samples=5)
    assert model.watts({}) == 0.0


class TestFiles:
    def write(self, folder: Path, text: str) -> str:
        file = folder / "samples.csv"
        file.write_text(text)
        return str(file)

    def test_columns_with_gaps_count_as_missing(self, tmp_path: Path) -> None:
        rows = "".join(f"{k / 20},{'' if k == 3 else 5},{10 + k}\n" for k in range(20))
        model = fit_power_model(load_samples(self.write(tmp_path, "u_cpu,u_gpu,power_w\n" + rows)))
        assert list(model.coefficients) == ["u_cpu"]
        assert model.meter == "unknown"

    def test_a_spreadsheets_file_is_read_as_well(self, tmp_path: Path) -> None:
        rows = "".join(f"{k / 20}; {10 + k}\r\n" for k in range(20)).replace(";", ",")
        model = fit_power_model(load_samples(self.write(tmp_path, "\ufeffU_CPU , Power_W\r\n" + rows)))
        assert model.coefficients == pytest.approx({"u_cpu": 20.0})

    def test_samples_that_are_all_alike_but_one_do_no_harm(self, tmp_path: Path) -> None:
        rows = "0.57,17.2\n" * 30 + "0.3,12.0\n"  # a mean of equals is not exactly what they are
        model = fit_power_model(load_samples(self.write(tmp_path, "u_cpu,power_w\n" + rows)))
        assert model.mean_error < 0.05

    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            ("", "header: nothing: expected a column power_w"),
            ("u_cpu\n1\n", "header: u_cpu: expected a column power_w"),
            ("noise,power_w\n1,2\n", "header: noise,power_w: expected one of f_cpu"),
            ("u_cpu,power_w\n1,-2\n", "line 2, power_w: -2: expected more than 0 W"),
            ("u_cpu,power_w\nnan,2\n", "line 2, u_cpu: nan: expected a number of 0 or more"),
            ("u_cpu,power_w\n1,2\n", "1 samples: expected at least 5, for 0 counters"),
            ("u_cpu,power_w\n", "0 samples: expected at least 5, for 0 counters"),
            ("u_cpu,power_w\n1,2\n\n1,x\n", "line 4, power_w: x: expected more than 0"),
            ("u_cpu,power_w\n1,2,3\n", "line 2: 3 cells: expected 2, one per column"),
            ("u_cpu,u_cpu,power_w\n1,2,3\n", "header: u_cpu: occurs twice; expected it once"),
            ("u_cpu,power_w\n1e308,2\n", "line 2, u_cpu: 1e308: expected at most 1e+18"),
            (f"u_cpu,power_w\n{'1' * 200_000},2\n", "line 2: the row: cannot be parsed"),
            (
                "u_cpu,u_gpu,power_w\n" + "1,2,3\n" * 9 + "2,3,4\n",
                "2 samples with different counters: expected at least 3",
            ),
        ],
    )
    def test_what_cannot_be_fitted(self, tmp_path: Path, text: str, expected: str) -> None:
        file = self.write(tmp_path, text)
        with pytest.raises(InputError) as caught:
            fit_power_model(load_samples(file), file)
        (fault,) = caught.value.faults
        assert str(fault).startswith(f"{file}: {expected}")

    def test_numbers_beyond_all_measure_are_not_fitted(self, tmp_path: Path) -> None:
        file = self.write(tmp_path, "u_cpu,power_w\n" + "1e-17,1e-300\n0,2e-300\n1e18,5\n" * 2)
        with pytest.raises(InputError) as caught:
            fit_power_model(load_samples(file), file)
        (fault,) = caught.value.faults
        assert re.match(r"\d\.\d+e\+28\d: the error on left-out samples", str(fault).removeprefix(f"{file}: "))
