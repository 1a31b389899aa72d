"""What importing costs."""

from __future__ import annotations

import subprocess
import sys


def test_importing_the_package_loads_neither_torch_nor_transformers() -> None:
    code = "import hubaudit.load, sys; print([m for m in ('torch', 'transformers', 'gguf') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
