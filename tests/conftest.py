"""Fixtures of several test files."""

import signal
import sys

import pytest

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # what a shell starts in the background ignores Ctrl-C
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True, scope="module")
def compiled_programs_of_one_file():
    """Forget JAX's compiled programs after each file: those of the whole suite take 6 GB per process."""
    yield
    if (jax := sys.modules.get("jax")) is not None:
        jax.clear_caches()


@pytest.fixture
def made_up(monkeypatch):
    """Stands for real trainings and timings; imports JAX only where it is asked for."""
    from deep_experiments import MadeUp

    from greedystep.experiments.deep import runner
    from greedystep.experiments.fig3 import training_time

    def measure(task, preset, lanes):
        seconds = {name: [1.0, 1.0, 1.1] for name in training_time.AGENTS}
        return {"task": task, "preset": preset, "lanes": lanes, "steps": 100, "device": "cpu", "seconds": seconds}

    trainer = MadeUp()
    monkeypatch.setattr(runner, "train", trainer)
    monkeypatch.setattr(runner.os, "cpu_count", lambda: 1)
    monkeypatch.setattr(training_time, "measure", measure)
    return trainer


@pytest.fixture
def is_refused(tmp_path, monkeypatch, capsys):
    """Return `check(arguments, sentence)`: the command ends with status 2 and this one sentence, and leaves nothing."""
    from greedystep.cli import main

    def check(arguments, sentence):
        monkeypatch.chdir(tmp_path)
        assert main(arguments) == 2
        said = capsys.readouterr().err
        assert sentence in said
        assert len(said.splitlines()) == 1
        assert not list(tmp_path.iterdir())

    return check


@pytest.fixture(scope="session")
def cluster():
    """One local Ray with two CPUs for all tests of the session."""
    from greedystep.runs import ray_cluster

    ray_cluster.start(2, object_store_memory=80 * 2**20)
    with ray_cluster.Cluster() as made:
        for name in ("test_ray", "test_ray_actors"):  # workers do not import the tests
            if name in sys.modules:
                made.ray.cloudpickle.register_pickle_by_value(sys.modules[name])
        yield made
    made.ray.shutdown()


# -- outcomes of the tests that are evidence for sentences of the paper -----------------------------------------------

OUTCOMES: dict[str, str] = {}
"""Node id -> outcome in this run; of a parametrized test the worst."""


def pytest_addoption(parser):
    parser.addoption(
        "--record-evidence",
        action="store_true",
        help="run only the tests that are evidence for sentences of the paper, and record their outcomes",
    )


def pytest_collection_modifyitems(config, items):
    if config.getoption("--record-evidence"):
        from greedystep.experiments.sentences import TESTS

        items[:] = [item for item in items if item.nodeid.split("[")[0] in TESTS]


def pytest_runtest_logreport(report):
    order = ("passed", "skipped", "failed")
    name = report.nodeid.split("[")[0]
    OUTCOMES[name] = max(OUTCOMES.get(name, "passed"), report.outcome, key=order.index)


def pytest_sessionfinish(session):
    """Record the outcomes, or fail the session if they differ from the recorded ones."""
    from greedystep.experiments.sentence_verdicts import OUTCOMES as FILE
    from greedystep.experiments.sentence_verdicts import recorded_outcomes
    from greedystep.experiments.sentences import TESTS
    from greedystep.io import write_json
    from greedystep.provenance import provenance

    if hasattr(session.config, "workerinput"):  # a worker of pytest-xdist, which sees a part of the tests only
        return
    found = {name: OUTCOMES[name] for name in TESTS if name in OUTCOMES}
    if session.config.getoption("--record-evidence"):
        if missing := set(TESTS) - set(found):
            print(f"\nNothing recorded, since some tests did not run: {sorted(missing)}")
            session.exitstatus = 1
            return
        write_json(FILE, {"outcomes": found, "provenance": provenance({}, command="pytest --record-evidence")})
        return
    differing = [name for name, outcome in found.items() if recorded_outcomes().get(name) != outcome]
    if differing:
        print(f"\nOutcomes differ from {FILE.name}; `pytest --record-evidence` records them anew: {differing}")
        session.exitstatus = session.exitstatus or 1
