"""Only tests marked ``timing`` are tried again, and the run says how often."""

from __future__ import annotations

import pytest

pytest_plugins = ["pytester"]

FAILS_ONCE = """
    import pathlib, pytest

    def fails_once(name):
        seen = pathlib.Path({folder!r}, name)
        if not seen.exists():
            seen.touch()
            assert name == "punctual"

"""
TIMING = "    @pytest.mark.timing\n    def test_{k}(): fails_once('{k}')\n"


@pytest.fixture
def run(pytester: pytest.Pytester):
    """Run pytest on a body of tests; the tests may use ``fails_once``."""
    pytester.makeini("[pytest]\nmarkers = timing: watches the clock\n")

    def run(body: str, *words: str) -> pytest.RunResult:
        pytester.makepyfile(FAILS_ONCE.format(folder=str(pytester.path)) + body)
        plugins = ["-p", "tests.retries", "-p", "no:cacheprovider", "-p", "no:hypothesispytest"]
        return pytester.runpytest(*plugins, "--retry-pause", "0", *words)

    return run


@pytest.mark.parametrize("words", [(), ("-x",)])
def test_a_timing_test_is_tried_again_and_counted(run, words: tuple[str, ...]) -> None:
    done = run(TIMING.format(k=1) + "    def test_other(): pass\n", *words)

    assert done.ret == 0
    done.assert_outcomes(passed=2)
    done.stdout.fnmatch_lines(["*retry 1: *::test_1: AssertionError: assert '1' == 'punctual'"])
    done.stdout.fnmatch_lines(["*retries: 1 (at most 3)*", "*1 retried*"])


def test_a_timing_test_that_fails_twice_fails(run) -> None:
    done = run("    @pytest.mark.timing\n    def test_late(): assert False\n")

    assert done.ret == 1
    done.assert_outcomes(failed=1)


def test_no_other_test_is_tried_again(run) -> None:
    done = run("    def test_1(): fails_once('1')\n")

    assert done.ret == 1
    done.assert_outcomes(failed=1)
    done.stdout.fnmatch_lines(["*retries: 0 (at most 3)*"])


@pytest.mark.parametrize(("many", "code", "words"), [(3, 0, ()), (4, 1, ()), (4, 1, ("-n", "2"))])
def test_more_than_three_retries_fail_the_run(run, many: int, code: int, words: tuple[str, ...]) -> None:
    done = run("\n".join(TIMING.format(k=k) for k in range(many)), *words)

    assert done.ret == code
    done.assert_outcomes(passed=many)
    assert ("the run has failed" in done.stdout.str()) == bool(code)


def test_fixtures_are_made_anew_and_their_failures_are_tried_again(run) -> None:
    done = run(
        """
    made = []

    @pytest.fixture
    def thing():
        made.append(1)
        fails_once("setup")
        yield len(made)
        fails_once("teardown")

    @pytest.mark.timing
    def test_it(thing): assert thing == len(made)
"""
    )
    # Failed in its setup, then in its teardown: twice is too often.
    assert done.ret == 1
    done.assert_outcomes(passed=1, errors=1)


def test_the_second_try_has_the_whole_time_limit(run) -> None:
    body = "    import time\n    @pytest.mark.timing\n    def test_1(): time.sleep(0.8); fails_once('1')\n"
    done = run(body, "--timeout", "1.5", "--retry-pause", "1.0")

    assert done.ret == 0
    done.assert_outcomes(passed=1)
