from __future__ import annotations

import io
import threading

from rich.console import Console
from rich.progress import Progress

from hubaudit.terminal_progress import TerminalProgress


def test_each_thread_has_its_own_bar() -> None:
    bars = Progress(console=Console(file=io.StringIO(), width=100))
    progress = TerminalProgress(bars)

    def download() -> None:
        progress.begin("downloading the next one", 10)
        progress.advance(3)

    progress.begin("running base", 100)
    thread = threading.Thread(target=download)
    thread.start()
    thread.join()
    progress.advance(50)
    assert [(task.description, task.completed) for task in bars.tasks] == [
        ("running base", 50),
        ("downloading the next one", 3),
    ]
    progress.end()
    assert [task.description for task in bars.tasks] == ["downloading the next one"]
