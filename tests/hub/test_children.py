"""The list of a base's children, read by the real client from the tests' Hub."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import gguf
import pytest
from remote_models import LAYERS, VOCABULARY, WIDTH, card, config, gguf_bytes, plain_model, safetensors_bytes

from hubaudit.errors import AccessError, InputError
from hubaudit.hub.child import Child
from hubaudit.hub.children import Listing, list_children

BASE = "org/tiny"
TYPES = gguf.GGMLQuantizationType
NOTHING = {"model.safetensors": b""}


def quantized(method: str, **more: Any) -> dict[str, Any]:
    return {"config.json": config(quantization_config={"quant_method": method} | more), "model.safetensors": b"x"}


def adapter(width: int, **config_: Any) -> dict[str, Any]:
    tensors = {"layers.0.q_proj.lora_A.weight": ("float32", (4, width))}
    return {
        "adapter_config.json": json.dumps(config_),
        "adapter_model.safetensors": safetensors_bytes(tensors),
        "README.md": card(BASE, "adapter"),
    }


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Retries without their pauses."""
    import time

    monkeypatch.setattr(time, "sleep", lambda seconds: None)


@pytest.fixture
def base(hub: Any) -> Any:
    hub.add(BASE, {"config.json": config(), "model.safetensors": plain_model(), "README.md": "# tiny"})
    return hub


def by_repo(listing: Listing) -> dict[str, Child]:
    return {child.repo_id: child for child in listing.children}


def test_formats_bits_sizes_and_heads(base: Any, tmp_path: Path) -> None:
    head = {
        "lm_head.qweight": ("int32", (8, VOCABULARY)),
        "model.embed_tokens.weight": ("float16", (VOCABULARY, WIDTH)),
    }
    base.add(
        "a/gptq",
        {
            "config.json": config(quantization_config={"quant_method": "gptq", "bits": 4}),
            "model.safetensors": safetensors_bytes(head),
            "README.md": card(BASE),
        },
        downloads=50,
    )
    base.add(
        "a/old-gptq",
        {
            "config.json": config(),
            "quantize_config.json": '{"bits": 3, "desc_act": true}',
            "model.safetensors": plain_model(),
            "README.md": card(BASE),
        },
        downloads=40,
    )
    base.add(
        "a/nf4",
        {
            "config.json": config(quantization_config={"quant_method": "bitsandbytes", "load_in_4bit": True}),
            "model.safetensors": plain_model(),
            "README.md": card(BASE),
        },
        downloads=30,
    )
    base.add(
        "a/finetune",
        {
            "config.json": config(vocab_size=VOCABULARY + 2),
            "model.safetensors": plain_model(),
            "README.md": card(BASE, "finetune"),
        },
        downloads=20,
    )
    lora = {"base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight": ("float32", (4, WIDTH))}
    base.add(
        "a/lora",
        {
            "adapter_config.json": json.dumps({"peft_type": "LORA", "base_model_name_or_path": BASE}),
            "adapter_model.safetensors": safetensors_bytes(lora),
            "README.md": card(BASE, "adapter"),
        },
        downloads=10,
    )
    listing = list_children(BASE)
    found = by_repo(listing)
    assert [child.repo_id for child in listing.children] == ["a/gptq", "a/old-gptq", "a/nf4", "a/finetune", "a/lora"]
    assert all(child.loadable and child.wrong_base is None for child in listing.children)
    assert listing.notes == []
    gptq = found["a/gptq"]
    assert (gptq.format, gptq.bits, gptq.head_quantized, gptq.head_type) == ("gptq", 4, True, "packed in I32")
    assert gptq.size_bytes == len(safetensors_bytes(head))
    assert gptq.spec == f"a/gptq@{gptq.revision}"
    assert len(gptq.revision) == 40
    assert (found["a/old-gptq"].format, found["a/old-gptq"].bits) == ("gptq", 3)
    assert (found["a/nf4"].format, found["a/nf4"].bits, found["a/nf4"].head_quantized) == ("bitsandbytes", 4, False)
    # The base holds the same tensors in 16 bits, and a header.
    assert found["a/nf4"].bits_per_weight == pytest.approx(16, abs=0.01)
    assert (found["a/finetune"].format, found["a/finetune"].relation) == ("safetensors", "finetune")
    assert (found["a/lora"].format, found["a/lora"].relation, found["a/lora"].head_type) == ("lora", "adapter", None)


def test_quants_of_a_gguf_repo_from_ranges_of_their_headers(base: Any, tmp_path: Path) -> None:
    quants = {"Q8_0": TYPES.Q8_0, "Q4_0": TYPES.Q4_0, "F16": TYPES.F16}
    files = {f"tiny-{name}.gguf": gguf_bytes(tmp_path, head=kind, tied=True) for name, kind in quants.items()}
    base.add("a/tiny-GGUF", files | {"README.md": card(BASE, tags=["gguf"]), "mmproj-F16.gguf": b"GGUF"})
    children = list_children(BASE).children
    assert [child.quant for child in children] == ["F16", "Q8_0", "Q4_0"]
    assert [child.reason for child in children] == [None] * 3
    assert [child.head_quantized for child in children] == [False, True, True]
    assert [child.head_type for child in children] == ["F16", "Q8_0", "Q4_0"]
    assert [child.size_bytes for child in children] == sorted(map(len, files.values()), reverse=True)
    n_parameters = VOCABULARY * WIDTH + WIDTH
    assert children[1].bits_per_weight == pytest.approx(len(files["tiny-Q8_0.gguf"]) * 8 / n_parameters, abs=1e-3)
    assert children[1].spec == f"a/tiny-GGUF@{children[1].revision}:tiny-Q8_0.gguf"
    assert all(child.loadable and child.wrong_base is None for child in children)


def test_shards_and_what_is_no_model_in_a_gguf_repo(base: Any, tmp_path: Path) -> None:
    whole = gguf_bytes(tmp_path)
    adapter = gguf_bytes(tmp_path).replace(b"\x05\0\0\0\0\0\0\0model", b"\x05\0\0\0\0\0\0\0adapt", 1)
    files = {
        "Q8_0/m-Q8_0-00001-of-00002.gguf": whole,
        "Q8_0/m-Q8_0-00002-of-00002.gguf": b"GGUF" + bytes(20),
        "m-Q4_0-00001-of-00002.gguf": whole,
        "m-Q5_0.gguf": adapter,
        "m [bold]-Q6_K.gguf": whole,
        "README.md": card(BASE),
    }
    base.add("a/gguf", files)
    found = {child.quant: child for child in list_children(BASE).children}
    assert found["Q8_0"].loadable
    assert found["Q8_0"].size_bytes == len(whole) + 24
    assert found["Q4_0"].reason == "the repo lacks its shard m-Q4_0-00002-of-00002.gguf"
    assert "holds no model" in found["Q5_0"].reason
    assert "no reference can hold" in found["Q6_K"].reason


def test_the_tokenizer_is_read_once_for_all_quants_and_repos(base: Any, tmp_path: Path) -> None:
    made = gguf_bytes(tmp_path, head=TYPES.Q4_0)
    other = gguf_bytes(tmp_path, token="another-tokenizer-{}")
    base.add("a/first", {"m-Q4_0.gguf": made, "README.md": card(BASE, tags=["gguf"])}, downloads=9)
    base.add("a/second", {"m-Q4_1.gguf": made, "README.md": card(BASE, tags=["gguf"])}, downloads=8)
    base.add("a/third", {"m-Q8_0.gguf": other, "README.md": card(BASE, tags=["gguf"])}, downloads=7)
    children = list_children(BASE).children
    # A wrong guess is noticed: the third repo's tokenizer has the same number of tokens and other lengths.
    assert [(child.head_type, child.reason) for child in children] == [("Q4_0", None), ("Q4_0", None), ("Q8_0", None)]


@pytest.mark.parametrize(
    ("files", "tags", "format_", "message"),
    [
        ({"config.json": config(quantization={"bits": 4}), **NOTHING}, [], "mlx", "mlx only"),
        ({"config.json": config(), **NOTHING}, ["mlx"], "mlx", "mlx only"),
        (quantized("exl3", bits=3.0), [], "exl3", "ExLlamaV3"),
        ({"config.json": config(), "output.safetensors": b""}, ["exl2"], "exl2", "ExLlamaV2"),
        ({"onnx/model_q4.onnx": b"x"}, [], "onnx", "ONNX"),
        ({"openvino_model.xml": b"x", "openvino_model.bin": b"x"}, [], "openvino", "OpenVINO"),
        ({"config.json": config(), "pytorch_model.bin": b"x"}, [], "pickle", "safetensors"),
        ({"adapter_config.json": "{}", "adapter_model.bin": b"x"}, [], "lora", "pickled"),
        ({"config.json": config(), "notes.md": b"x"}, [], "none", "no weights"),
        (quantized("hqq", bits=2), [], "hqq", "quantized by hqq"),
        (
            {"config.json": config(auto_map={"AutoModel": "x.Y"}, model_type="own"), "model.safetensors": b"x"},
            [],
            "safetensors",
            "code of its own",
        ),
        ({"config.json": "[" * 100_000, "model.safetensors": b"x"}, [], "safetensors", "expected JSON"),
        ({"config.json": config(), "model.safetensors": b"x"}, [], "safetensors", "truncated"),
        ({"config.json": config(), "model.safetensors": b"\xff" * 64}, [], "safetensors", "header of"),
        ({"config.json": config(), "model.safetensors": plain_model()[:-1]}, [], "safetensors", "truncated"),
        ({"m-Q4_0.gguf": b"not a model"}, [], "gguf", "begin otherwise"),
        ({"m-Q4_0.gguf": b"GGUF\3\0\0\0" + b"\xff" * 16}, [], "gguf", "metadata entries"),
        (
            {"m-Q4_0.gguf": b"GGUF\3\0\0\0" + (1).to_bytes(8, "little") * 2 + (1 << 60).to_bytes(8, "little")},
            [],
            "gguf",
            "text of",
        ),
    ],
)
def test_what_cannot_be_loaded_says_why(base: Any, files: Any, tags: list[str], format_: str, message: str) -> None:
    base.add("b/other", files | {"README.md": card(BASE, tags=tags)})
    (child,) = list_children(BASE).children
    assert child.format == format_
    assert not child.loadable
    assert message in child.reason


def test_a_child_that_claims_a_wrong_base_is_marked(base: Any, tmp_path: Path) -> None:
    wide = safetensors_bytes({"model.embed_tokens.weight": ("float16", (VOCABULARY, 2 * WIDTH))})
    fits = {"config.json": config(), "model.safetensors": plain_model()}
    by_tag = card("org/other", tags=[f"base_model:quantized:{BASE}"])
    base.add("b/honest", {"config.json": config(hidden_size=128), "model.safetensors": wide, "README.md": card(BASE)})
    base.add("b/liar", {"config.json": config(), "model.safetensors": wide, "README.md": card(BASE)})
    base.add("b/deep", fits | {"config.json": config(num_hidden_layers=9), "README.md": card(BASE)})
    base.add("b/gguf", {"m-Q8_0.gguf": gguf_bytes(tmp_path, vocabulary=64), "README.md": card(BASE)})
    base.add("b/tag", fits | {"README.md": by_tag})
    base.add("b/lora", adapter(WIDTH, peft_type="LORA", base_model_name_or_path="org/another"))
    base.add("b/narrow", adapter(3))
    found = by_repo(list_children(BASE))
    assert found["b/honest"].wrong_base == found["b/liar"].wrong_base == "its hidden size is 128, the base's 64"
    assert found["b/deep"].wrong_base == f"it has 9 layers, the base {LAYERS}"
    assert found["b/gguf"].wrong_base == "its vocabulary has 64 rows, the base's 4,096"
    assert found["b/tag"].wrong_base == "its card names another base: org/other"
    assert found["b/lora"].wrong_base == "its adapter_config.json names another base: org/another"
    assert found["b/narrow"].wrong_base == "its hidden size is 3, the base's 64"


def test_pages_relations_and_limit(base: Any) -> None:
    base.page_size = 3
    files = {"config.json": config(), "model.safetensors": plain_model()}
    for index in range(10):
        base.add(f"c/q{index}", files | {"README.md": card(BASE)}, downloads=100 + index)
    base.add("c/unsaid", files | {"README.md": card(BASE, None)}, downloads=5)
    base.add("c/merge", files | {"README.md": card(BASE, "merge")}, downloads=999)
    base.add("c/of-another", files | {"README.md": card("org/other")}, downloads=999)
    listing = list_children(BASE)
    assert [child.repo_id for child in listing.children] == [*(f"c/q{index}" for index in range(9, -1, -1)), "c/unsaid"]
    assert listing.children[-1].relation == "finetune"
    listed = [request for request in base.requests if request.startswith("GET /api/models?")]
    assert sum("quantized" in request for request in listed) == 4
    short = list_children(BASE, limit=4, relations=["quantized"])
    assert [child.repo_id for child in short.children] == ["c/q9", "c/q8", "c/q7", "c/q6"]
    assert short.notes == ["the 4 most downloaded repos are shown, there are more; raise --limit"]
    assert [child.repo_id for child in list_children(BASE, relations=["finetune"]).children] == ["c/unsaid"]


def test_rate_limits_and_server_errors_pass(base: Any) -> None:
    files = {"config.json": config(), "model.safetensors": plain_model(), "README.md": card(BASE)}
    base.add("d/one", files)
    base.fail(r"/api/models\?", 429, **{"Retry-After": "1"})
    base.fail(r"/api/models/d/one", 503)
    base.fail(r"d/one/resolve/.*/config.json", 500)
    base.fail(r"/cdn/", 502)
    (child,) = list_children(BASE).children
    assert child.loadable
    assert child.head_type == "F16"
    assert all(not fault.times for fault in base.faults)


def test_a_cut_answer_is_asked_for_again(base: Any, tmp_path: Path) -> None:
    base.add("d/cut", {"m-Q8_0.gguf": gguf_bytes(tmp_path), "README.md": card(BASE)})
    base.fail(r"/cdn/", "cut", times=2)
    (child,) = list_children(BASE).children
    assert (child.reason, child.head_type) == (None, "Q8_0")


def test_a_child_that_stays_broken_does_not_sink_the_list(base: Any, tmp_path: Path) -> None:
    files = {"config.json": config(), "model.safetensors": plain_model(), "README.md": card(BASE)}
    made = {"m-Q8_0.gguf": gguf_bytes(tmp_path), "m-Q4_0.gguf": gguf_bytes(tmp_path, head=TYPES.Q4_0)}
    for name in ("good", "gone", "failing", "cut"):
        base.add(f"e/{name}", files)
    base.add("e/gguf", made | {"README.md": card(BASE)})
    base.fail(r"/api/models/e/gone", 404, times=99)
    base.fail(r"/api/models/e/failing", 500, times=99)
    base.fail(r"GET /e/cut/resolve/.*config.json", "cut", times=99)
    base.fail(r"m-Q4_0.gguf", 500, times=99)
    listing = list_children(BASE)
    found = by_repo(listing)
    assert found["e/good"].loadable
    assert all(found[name].reason for name in ("e/gone", "e/failing", "e/cut"))
    assert "connection was cut" in found["e/cut"].reason
    quants = {child.quant: child for child in listing.children if child.repo_id == "e/gguf"}
    assert quants["Q8_0"].loadable
    assert not quants["Q4_0"].loadable
    assert all("\n" not in (child.reason or "") and "TESTSECRET" not in repr(child) for child in listing.children)


def test_gated_and_private_repos(base: Any) -> None:
    files = {"config.json": config(), "model.safetensors": plain_model(), "README.md": card(BASE)}
    base.add("f/gated", files, gated=True)
    base.add("f/private", files, private=True)
    (child,) = list_children(BASE).children
    assert child.repo_id == "f/gated"
    assert "accept its licence on" in child.reason
    base.granted.add("f/gated")
    assert list_children(BASE).children[0].loadable


def test_a_gated_base_with_open_quants_is_the_normal_case(base: Any, tmp_path: Path) -> None:
    base.repos["models", BASE].gated = True
    base.add("g/gguf", {"m-Q8_0.gguf": gguf_bytes(tmp_path), "README.md": card(BASE)})
    listing = list_children(BASE)
    assert listing.children[0].loadable
    assert "no child is held against it" in listing.notes[0]


def test_a_card_with_hostile_metadata_hurts_itself_only(base: Any) -> None:
    files = {"config.json": config(), "model.safetensors": plain_model()}
    base.add("h/good", files | {"README.md": card(BASE)})
    base.add("h/evil", files | {"README.md": card(BASE, ignore_metadata_errors=1, **{"model-index": 3})})
    found = by_repo(list_children(BASE))
    assert found["h/good"].loadable
    # The client builds an object of the card's keys, and stumbles over this one.
    assert "could not be read (TypeError" in found["h/evil"].reason


@pytest.mark.parametrize("spec", ["no-slash", "org/tiny:Q4_0", "./folder", "org/../tiny"])
def test_a_base_that_is_no_hub_id(spec: str) -> None:
    with pytest.raises((InputError, AccessError)):
        list_children(spec)


def test_an_unknown_base_and_a_limit_out_of_range(base: Any) -> None:
    with pytest.raises(AccessError, match="no such model"):
        list_children("org/unknown")
    with pytest.raises(InputError, match="1 to 1000"):
        list_children(BASE, limit=0)
    assert list_children(BASE).children == []
