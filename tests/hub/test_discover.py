from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from remote_models import card, config, gguf_bytes, plain_model

from hubaudit.errors import InputError
from hubaudit.hub.child import Child
from hubaudit.hub.children import Listing
from hubaudit.hub.children_claims import ModelShape
from hubaudit.hub.children_read import BaseFacts
from hubaudit.hub.discover import LOADABLE_FORMATS, choose, discover, parse_size

SHA = "c" * 40
FACTS = BaseFacts(repo_id="org/tiny", revision="b" * 40, shape=ModelShape(), n_parameters=None)


def child(repo: str, quant: str | None = None, *, size: int | None = 10**9, **more: Any) -> Child:
    spec = f"{repo}@{SHA}" + (f":m-{quant}.gguf" if quant else "")
    found: dict[str, Any] = {"relation": "quantized", "format": "gguf" if quant else "gptq"} | more
    return Child(spec=spec, repo_id=repo, revision=SHA, quant=quant, size_bytes=size, **found)


def listing(*children: Child) -> Listing:
    return Listing(FACTS, list(children), ["a note"])


def short(specs: list[str]) -> list[str]:
    return [spec.replace(f"@{SHA}", "").replace(":m-", ":").removesuffix(".gguf") for spec in specs]


def test_repos_take_turns_and_quants_have_their_order() -> None:
    quants = ["F16", "Q8_0", "Q6_K", "Q5_K_S", "UD-Q4_K_M", "IQ2_XS"]
    rows = listing(
        *(child("a/gguf", quant, size=9 - place) for place, quant in enumerate(quants)),
        child("b/gptq"),
        child("c/gguf", "Q8_0"),
        child("c/gguf", "Q2_K"),
    )
    found = choose(rows, max_variants=8)
    assert short(found.chosen) == [
        "a/gguf:UD-Q4_K_M",
        "b/gptq",
        "c/gguf:Q8_0",
        "a/gguf:Q8_0",
        "c/gguf:Q2_K",
        "a/gguf:Q6_K",
        "a/gguf:Q5_K_S",
        "a/gguf:IQ2_XS",
    ]
    assert [(entry.spec.rpartition(":")[2], entry.reason) for entry in found.left_out] == [
        ("m-F16.gguf", "nothing in it is quantized; name it to audit it")
    ]
    assert found.base == f"org/tiny@{'b' * 40}"
    assert found.notes == ["a note"]
    assert short(choose(rows, max_variants=2).chosen) == ["a/gguf:UD-Q4_K_M", "b/gptq"]
    assert len(choose(rows, max_variants=2).left_out) == len(rows.children) - 2


def test_every_reason_for_leaving_out() -> None:
    rows = listing(
        child("a/mlx", format="mlx", reason="MLX only"),
        child("a/liar", wrong_base="its hidden size is 3, the base's 4"),
        child("a/large", size=3 * 10**9),
        child("a/unknown", size=None),
        child("a/lora", format="lora", relation="adapter"),
        child("a/good"),
    )
    found = choose(rows, max_variants=8, formats=["GPTQ", "gguf"], max_size=2 * 10**9)
    assert short(found.chosen) == ["a/good"]
    assert [entry.reason for entry in found.left_out] == [
        "MLX only",
        "it may not come from this base: its hidden size is 3, the base's 4",
        "it is 3.00 GB, the limit 2.00 GB",
        "it is of unknown size, the limit 2.00 GB",
        "its format lora was not asked for",
    ]
    assert choose(listing(), max_variants=1).chosen == []


@pytest.mark.parametrize(
    ("text", "n_bytes"),
    [
        ("1000000", 10**6),
        ("2GB", 2 * 10**9),
        ("2gb", 2 * 10**9),
        ("2G", 2 * 10**9),
        (" 1.5 GiB ", 3 * 2**29),
        ("500 kB", 500_000),
        ("1Ki", 1024),
        ("7 B", 7),
    ],
)
def test_sizes(text: str, n_bytes: int) -> None:
    assert parse_size(text) == n_bytes


@pytest.mark.parametrize("text", ["", "GB", "2 apples", "-1GB", "0", "1e9", "2IB", "٣GB", "1" * 400])
def test_what_is_no_size(text: str) -> None:
    with pytest.raises(InputError, match="a size must be"):
        parse_size(text)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_variants": 0}, "--max-variants"),
        ({"formats": ["gguf", "mlx"]}, "--formats must be among .* but got mlx"),
        ({"max_size": 0}, "--max-size"),
        ({"max_size": "many"}, "a size must be"),
    ],
)
def test_options_that_cannot_be_used(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        discover("org/tiny", **options)


def test_from_the_hub(hub: Any, tmp_path: Path) -> None:
    plain = {"config.json": config(), "model.safetensors": plain_model()}
    hub.add("org/tiny", plain)
    made = gguf_bytes(tmp_path)
    files = {f"tiny-{quant}.gguf": made for quant in ("Q8_0", "Q4_K_M", "Q2_K")}
    hub.add("a/gguf", files | {"README.md": card("org/tiny", tags=["gguf"])}, downloads=9)
    hub.add("b/tune", plain | {"README.md": card("org/tiny", "finetune")}, downloads=99)
    hub.add("c/mlx", plain | {"README.md": card("org/tiny", tags=["mlx"])}, downloads=999)
    found = discover("org/tiny", max_variants=3, formats=LOADABLE_FORMATS, max_size="1GB")
    sha = hub.repos["models", "a/gguf"].history["main"][0]
    assert found.chosen[1:] == [f"a/gguf@{sha}:tiny-Q4_K_M.gguf", f"a/gguf@{sha}:tiny-Q8_0.gguf"]
    assert found.chosen[0].startswith("b/tune@")
    assert [row.repo_id for row in found.rows] == ["c/mlx", "b/tune", "a/gguf", "a/gguf", "a/gguf"]
    assert [entry.reason for entry in found.left_out] == [
        "MLX weights run in Apple's mlx only; audit the repo they were converted from",
        "only 3 variants were asked for",
    ]
    assert not any("model.safetensors" in request and "HEAD" in request for request in hub.requests)
