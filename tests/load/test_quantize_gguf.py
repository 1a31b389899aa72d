"""benchmarks/quantize_gguf.py: llama.cpp's own quantizer, which tests and benchmarks make their files with."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

import gguf
import numpy as np
import pytest

from hubaudit.errors import InputError, ModelFileError
from hubaudit.load.gguf_file import open_gguf

pytest.importorskip("llama_cpp", reason="needs llama-cpp-python: pip install 'hubaudit[llamacpp]'")
sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
from quantize_gguf import quantize_gguf

pytestmark = pytest.mark.llamacpp


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """Enough of a Llama for the quantizer: an embedding, a norm and one matrix, rows of 256."""
    rng = np.random.default_rng(0)
    writer = gguf.GGUFWriter(tmp_path / "source.gguf", "llama")
    writer.add_block_count(1)
    writer.add_context_length(64)
    writer.add_embedding_length(256)
    writer.add_feed_forward_length(512)
    writer.add_head_count(4)
    writer.add_layer_norm_rms_eps(1e-5)
    for name, shape in (("token_embd.weight", (64, 256)), ("blk.0.ffn_up.weight", (512, 256))):
        writer.add_tensor(name, rng.normal(size=shape).astype(np.float32))
    writer.add_tensor("output_norm.weight", np.ones(256, dtype=np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return tmp_path / "source.gguf"


@pytest.mark.parametrize("ftype", ["F16", "Q8_0", "Q4_K_S", "Q2_K"])
def test_the_matrices_get_the_type(source: Path, ftype: str, tmp_path: Path) -> None:
    file = open_gguf(quantize_gguf(source, tmp_path / "new" / "target.gguf", ftype))
    kinds = Counter(info.type_name for name, info in file.tensors.items() if name.startswith("blk"))
    assert kinds == {ftype.removesuffix("_S"): 1}
    assert file.tensors["output_norm.weight"].type_name == "F32"
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["target.gguf"]


def test_an_unknown_type_names_the_known_ones(source: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"Q4_K_M.*got Q8_9"):
        quantize_gguf(source, tmp_path / "target.gguf", "Q8_9")


def test_a_file_that_is_no_gguf(tmp_path: Path) -> None:
    (tmp_path / "source.gguf").write_bytes(b"no model")
    with pytest.raises(ModelFileError, match=r"write it as Q8_0, it failed \(.*fail"):
        quantize_gguf(tmp_path / "source.gguf", tmp_path / "target.gguf", "Q8_0")
    assert not list(tmp_path.glob("*target*"))
