"""The header of a GGUF file: equal to what the gguf package reads, and an error for every lie."""

from __future__ import annotations

import struct
import time
from pathlib import Path

import gguf
import numpy as np
import pytest
from tiny_models import tiny_model, write_gguf

from hubaudit.errors import ModelFileError
from hubaudit.load.gguf_file import open_gguf, read_tokens

TOKENS = ["<s>", "Ġhello", "wörld", ""]


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("gguf")
    metadata = {"tokenizer.ggml.tokens": TOKENS, "general.languages": ["en"], "general.name": "tiny"}
    return write_gguf(folder / "good.gguf", tiny_model("llama"), kind="Q8_0", metadata=metadata)


@pytest.fixture
def damaged(good: Path, tmp_path: Path):
    """Write a changed copy of the good file."""

    def write(content: bytes) -> Path:
        path = tmp_path / "damaged.gguf"
        path.write_bytes(content)
        return path

    return write


def test_header_equals_the_gguf_packages(good: Path) -> None:
    ours, theirs = open_gguf(good), gguf.GGUFReader(good)
    assert ours.architecture == "llama"
    assert ours.metadata["general.name"] == "tiny"
    assert list(ours.tensors) == [tensor.name for tensor in theirs.tensors]
    for tensor in theirs.tensors:
        info = ours.tensors[tensor.name]
        assert info.shape == tuple(reversed(tensor.shape.tolist()))
        assert (info.offset, info.n_bytes, info.type_name) == (
            tensor.data_offset,
            tensor.n_bytes,
            tensor.tensor_type.name,
        )


def test_token_strings_are_read_on_demand(good: Path) -> None:
    assert read_tokens(good) == TOKENS
    assert open_gguf(good).metadata["tokenizer.ggml.tokens"].length == len(TOKENS)
    assert open_gguf(good).strings("no.such.key") == []


def test_a_file_without_vocabulary_has_no_tokens(tmp_path: Path) -> None:
    assert read_tokens(write_gguf(tmp_path / "bare.gguf", tiny_model("llama"))) is None


def test_every_truncation_is_an_error(good: Path, damaged) -> None:
    content = good.read_bytes()
    header = min(info.offset for info in open_gguf(good).tensors.values())
    for length in [*range(0, header, 17), header, len(content) // 2, len(content) - 1]:
        with pytest.raises(ModelFileError):
            open_gguf(damaged(content[:length]))


def test_random_damage_is_an_error_or_harmless(good: Path, damaged) -> None:
    content = good.read_bytes()
    header = min(info.offset for info in open_gguf(good).tensors.values())
    rng = np.random.default_rng(0)
    n_errors, started = 0, time.monotonic()
    for _ in range(300):
        changed = bytearray(content)
        for position in rng.integers(4, header, size=3):
            changed[position] = rng.integers(256)
        try:
            open_gguf(damaged(bytes(changed)))
        except ModelFileError:
            n_errors += 1
    assert n_errors > 100
    assert time.monotonic() - started < 60  # nothing hangs on a huge count


def _replaced(content: bytes, old: bytes, new: bytes) -> bytes:
    assert content.count(old) >= 1
    return content.replace(old, new, 1)


def test_empty_and_foreign_files(damaged, tmp_path: Path) -> None:
    with pytest.raises(ModelFileError, match="got an empty file"):
        open_gguf(damaged(b""))
    with pytest.raises(ModelFileError, match="expected a GGUF file, got 11 bytes"):
        open_gguf(damaged(b"hello world"))
    with pytest.raises(ModelFileError, match="No such file"):
        open_gguf(tmp_path / "missing.gguf")


def test_other_versions_and_byte_orders(good: Path, damaged) -> None:
    content = good.read_bytes()
    for version in (struct.pack("<I", 1), struct.pack(">I", 3)):
        with pytest.raises(ModelFileError, match="version 2 or 3 in little-endian"):
            open_gguf(damaged(content[:4] + version + content[8:]))


@pytest.mark.parametrize(
    ("offset", "what"), [(8, "tensor entries"), (16, "metadata entries")], ids=["tensors", "metadata"]
)
@pytest.mark.parametrize("count", [2**63, 10**9])
def test_huge_counts(good: Path, damaged, offset: int, what: str, count: int) -> None:
    content = bytearray(good.read_bytes())
    struct.pack_into("<Q", content, offset, count)
    with pytest.raises(ModelFileError, match=f"{count:,} {what}"):
        open_gguf(damaged(bytes(content)))


def test_huge_string_and_array(good: Path, damaged) -> None:
    content = good.read_bytes()
    name = struct.pack("<Q", 4) + b"tiny"
    with pytest.raises(ModelFileError, match="more bytes for a string"):
        open_gguf(damaged(_replaced(content, name, struct.pack("<Q", 2**62) + b"tiny")))
    array = struct.pack("<IQ", 8, len(TOKENS))
    with pytest.raises(ModelFileError, match=r"the array tokenizer.ggml.tokens"):
        open_gguf(damaged(_replaced(content, array, struct.pack("<IQ", 8, 2**60))))
    long_token = _replaced(content, array + struct.pack("<Q", 3), array + struct.pack("<Q", 2**61))
    with pytest.raises(ModelFileError, match="an array of strings"):
        open_gguf(damaged(long_token))


def _entry(content: bytes, name: str) -> int:
    """Where a tensor's number of dimensions stands."""
    return content.index(struct.pack("<Q", len(name)) + name.encode()) + 8 + len(name)


def test_lying_tensor_entries_name_the_tensor(good: Path, damaged) -> None:
    name = "blk.0.attn_k.weight"
    content = good.read_bytes()
    at = _entry(content, name)
    cases = [
        (at, "<I", 9, "1 to 4 dimensions"),
        (at + 4, "<Q", 2**40, "bytes of tensor"),
        (at + 4, "<Q", 33, "blocks of 32"),
        (at + 4, "<Q", 0, "blocks of 32"),
        (at + 20, "<I", 250, "got type number 250"),
        (at + 20, "<I", gguf.GGMLQuantizationType.Q8_K, "got Q8_K"),
        (at + 24, "<Q", 2**50, "bytes of tensor"),
        (at + 24, "<Q", 7, "bytes of tensor"),
    ]
    for position, layout, value, message in cases:
        changed = bytearray(content)
        struct.pack_into(layout, changed, position, value)
        with pytest.raises(ModelFileError, match=message) as caught:
            open_gguf(damaged(bytes(changed)))
        assert name in str(caught.value)


def test_a_tensor_named_twice(good: Path, damaged) -> None:
    content = _replaced(good.read_bytes(), b"blk.0.attn_k.weight", b"blk.0.attn_v.weight")
    with pytest.raises(ModelFileError, match=r"got blk.0.attn_v.weight twice"):
        open_gguf(damaged(content))


def test_text_that_is_no_utf8(good: Path, damaged) -> None:
    with pytest.raises(ModelFileError, match="UTF-8"):
        open_gguf(damaged(_replaced(good.read_bytes(), b"tiny", b"\xff\xfe\xff\xfe")))


def test_no_architecture(good: Path, damaged) -> None:
    file = open_gguf(damaged(_replaced(good.read_bytes(), b"general.architecture", b"general.architectura")))
    with pytest.raises(ModelFileError, match=r"general\.architecture"):
        _ = file.architecture


def test_missing_shard_is_named(good: Path, tmp_path: Path) -> None:
    path = tmp_path / "m-00001-of-00002.gguf"
    path.write_bytes(good.read_bytes())
    with pytest.raises(ModelFileError, match=r"m-00002-of-00002\.gguf is missing"):
        open_gguf(path)
