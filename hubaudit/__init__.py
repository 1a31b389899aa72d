"""hubaudit tells what quantization and fine-tuning changed in a model.

`hubaudit.audit("org/base", ["org/base-GGUF:Q4_K_M", "bnb:nf4"])` gives a `Report`.
"""

from importlib import metadata

try:
    __version__ = metadata.version("hubaudit")
except metadata.PackageNotFoundError:  # a checkout that was never installed
    __version__ = "0+unknown"

from hubaudit.audit import audit

__all__ = ["__version__", "audit"]
