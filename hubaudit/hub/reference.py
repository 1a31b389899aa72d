"""How a Hub repo is named, alone or with a revision and a file."""

from __future__ import annotations

import re

__all__ = ["HUB_FILE", "HUB_ID", "REPO_ID"]

_REPO = r"[\w.-]+/[\w.-]+"
_AT_REVISION = rf"(?P<repo>{_REPO})(?:@(?P<revision>[\w./-]+))?"

REPO_ID = re.compile(_REPO, re.ASCII)
"""`ORG/NAME`."""
HUB_ID = re.compile(_AT_REVISION, re.ASCII)
"""`ORG/NAME[@revision]`."""
HUB_FILE = re.compile(_AT_REVISION + r"(?::(?P<file>[\w.+/() -]+))?", re.ASCII)
"""`ORG/NAME[@revision][:QUANT|:file]`."""
