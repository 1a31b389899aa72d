from __future__ import annotations

import subprocess
import sys
import threading

import pytest

from hubaudit.ahead import Ahead
from hubaudit.errors import InputError


def test_the_call_runs_beside_the_caller() -> None:
    go = threading.Event()
    call = Ahead(lambda: go.wait(10) and threading.get_ident())
    go.set()
    assert call.result() not in (None, False, threading.get_ident())
    assert call.result() == call.result()


def test_its_error_is_raised_where_the_result_is_wanted() -> None:
    def fails() -> None:
        raise InputError("no such repo")

    call = Ahead(fails)
    for _ in range(2):
        with pytest.raises(InputError, match="no such repo"):
            call.result()


def test_a_call_that_nobody_waits_for_does_not_keep_the_program() -> None:
    program = "import time\nfrom hubaudit.ahead import Ahead\nAhead(lambda: time.sleep(60))\nprint('end')"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=30)
    assert (done.returncode, done.stdout) == (0, "end\n")
