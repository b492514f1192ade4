"""How the commands end that nobody lets come to their end: no traceback, and the exit code that a shell expects."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from odradek.cli.main import INTERRUPTED, PIPE_CLOSED, _code_of
from odradek.cli.usage import Unmet, UsageError

TIMEOUT_S = 60
ODRADEK = (sys.executable, "-m", "odradek")
FULL = Path("/dev/full")

INTERRUPTED_AT = """
import signal, sys
module = sys.argv.pop(1)
class Interrupt:
    def find_spec(self, name, path=None, target=None):
        if name == module:
            signal.raise_signal(signal.SIGINT)
sys.meta_path.insert(0, Interrupt())
from odradek.cli.main import main
main()
"""


@pytest.mark.slow
@pytest.mark.parametrize(("module", "words"), [
    ("odradek.cli.all_commands", "serve --port 0"),
    ("msgspec", "serve --port 0"),
    ("odradek.net.cluster", "serve --port 0"),
    ("odradek.broker", "serve --port 0"),
    ("uvicorn", "hub --listen 127.0.0.1:0"),
    ("odradek.demo.director", "demo"),
    ("odradek.sim.run", "sim"),
    ("odradek_pipeline.commands.cli", "watch"),
    ("odradek.control.client", "ctl clusters"),
])  # fmt: skip
def test_who_interrupts_the_start_is_not_told_where(module: str, words: str) -> None:
    """The signal comes while this module is looked for."""
    command = [sys.executable, "-c", INTERRUPTED_AT, module, *words.split()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    assert (INTERRUPTED, "", "") == (done.returncode, done.stdout, done.stderr)


@pytest.mark.slow
def test_before_it_heeds_an_interrupt_the_command_imports_next_to_nothing() -> None:
    program = "import sys; before = set(sys.modules); import odradek.cli.main; print(*set(sys.modules) - before)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert {"odradek", "odradek.cli", "odradek.cli.imports", "odradek.cli.main", "odradek.cli.usage"} >= {
        name for name in done.stdout.split() if name.partition(".")[0] not in sys.stdlib_module_names
    }
    assert not {"argparse", "inspect", "asyncio", "typing", "pathlib"} & set(done.stdout.split())


@pytest.mark.slow
def test_who_interrupts_a_simulation_hears_nothing_from_its_processes() -> None:
    with subprocess.Popen(
        [*ODRADEK, "sim", "--runs", "100000", "--jobs", "2"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline().startswith("seed 1 ")
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to the processes beside, too
        said = process.stderr.read()
        assert (INTERRUPTED, "") == (process.wait(TIMEOUT_S), said)


@pytest.mark.slow
@pytest.mark.parametrize("killed_by", [signal.SIGTERM, signal.SIGKILL])
def test_the_processes_of_a_simulation_that_is_killed_end_with_it(killed_by: signal.Signals) -> None:
    command = [*ODRADEK, "sim", "--runs", "100000", "--jobs", "2"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("seed 1 ")
        process.send_signal(killed_by)
        process.communicate(timeout=TIMEOUT_S)  # until the last of them has closed its standard output


@pytest.mark.slow
@pytest.mark.skipif(not FULL.exists(), reason="there is no device that is always full")
@pytest.mark.parametrize(
    "words", ["stories", "sim", "dialects", "completion bash", "--help", "serve --help", "--version"]
)
def test_output_that_finds_no_place_is_a_sentence(words: str) -> None:
    with FULL.open("w") as full:
        done = subprocess.run(
            [*ODRADEK, *words.split()], stdout=full, stderr=subprocess.PIPE, text=True, timeout=TIMEOUT_S, check=False
        )
    assert (2, "odradek: What is told cannot be written: No space left on device.\n") == (done.returncode, done.stderr)


@pytest.mark.slow
@pytest.mark.parametrize("words", ["stories", "sim", "demo --seconds 1"])
def test_who_has_read_enough_hears_no_more(words: str) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        [*ODRADEK, *words.split()], stdout=writing, stderr=subprocess.PIPE, text=True, timeout=TIMEOUT_S, check=False
    )
    os.close(writing)
    assert (PIPE_CLOSED, "") == (done.returncode, done.stderr)


@pytest.mark.slow
@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_a_broker_does_without_standard_streams(closed: str) -> None:
    """Else the loop's own pipes take their numbers, and libuv ends the process as it closes them."""
    served = [
        "sh",
        "-c",
        f'exec "$@" </dev/null {closed}',
        "sh",
        *ODRADEK,
        "serve",
        "--port",
        "0",
        "--until-stdin-ends",
    ]
    done = subprocess.run(served, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    assert 0 == done.returncode, done
    assert (">&-" in closed.split()) == ("odradek ready" not in done.stdout)
    assert ("2>&-" in closed) == ("stopping" not in done.stderr)


@pytest.mark.slow
@pytest.mark.parametrize("words", ["serve --port 0", "hub --listen 127.0.0.1:0"])
def test_standard_input_may_have_ended_before_the_start(words: str) -> None:
    done = subprocess.run(
        [*ODRADEK, *words.split(), "--until-stdin-ends"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert 0 == done.returncode, done
    assert " ready " in done.stdout


def raised(error: BaseException) -> int:
    def part() -> None:
        raise error

    return _code_of(part)


@pytest.mark.parametrize(("error", "code", "said"), [
    (UsageError("No."), 2, "odradek: No.\n"),
    (Unmet("Never seen."), 3, "odradek: Never seen.\n"),
    (SystemExit(1), 1, ""),
    (SystemExit(), 0, ""),
    (KeyboardInterrupt(), INTERRUPTED, ""),
    (BaseExceptionGroup("both", [KeyboardInterrupt(), ExceptionGroup("in it", [BrokenPipeError()])]), INTERRUPTED, ""),
    (ExceptionGroup("one", [UsageError("No.")]), 2, "odradek: No.\n"),
    (FileNotFoundError(2, "Not there", "/nowhere"), 2, "odradek: /nowhere: Not there.\n"),
])  # fmt: skip
def test_ends(error: BaseException, code: int, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert code == raised(error)
    assert ("", said) == capsys.readouterr()


@pytest.mark.parametrize("bug", [ValueError("no"), ConnectionResetError(104, "Connection reset by peer")])
def test_a_bug_is_shown(bug: Exception) -> None:
    with pytest.raises(type(bug)):
        raised(bug)
    with pytest.raises(ExceptionGroup):
        raised(ExceptionGroup("several", [BrokenPipeError(), bug]))
