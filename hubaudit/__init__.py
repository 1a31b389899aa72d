"""hubaudit tells what quantization and fine-tuning changed in a model.

`hubaudit.audit("org/base", ["org/base-GGUF:Q4_K_M", "bnb:nf4"])` gives a `Report`.
"""

from hubaudit.audit import audit
from hubaudit.probe_file import save_probe
from hubaudit.version import __version__

__all__ = ["__version__", "audit", "save_probe"]
