"""Our results in a card's metadata: everything that others wrote stays, byte for byte."""

from __future__ import annotations

import random
from typing import Any

import pytest
import yaml

from hubaudit.errors import InputError
from hubaudit.publish.front_matter import merge_results, new_front_matter

OTHER = """\
- task: {type: text-generation}   # by hand
    dataset: {type: d, name: 'ARC'}
    metrics:
      - type: "acc"
        value: 0.50   # last"""

BLOCKS = {
    "empty": "",
    "plain": "license: mit\ntags:\n- a\n- b",
    "comment only": "# nothing yet",
    "comments, quotes, order": "# first\nzeta: 'q' # why\nalpha: \"\\u00e9\"\n\n# last",
    "anchors": "a: &x [1, 2]\nb: *x\nc: &y {k: v}\nd:\n  <<: *y",
    "key twice": "license: mit\nlicense: apache-2.0",
    "tabs where YAML allows them": "license: 'mi\tt' # a\ttab\ntags: [a, b]",
    "block scalar last": "a: b\ntext: |\n  one\n  two",
    "kept block scalar last": "text: |+\n  one\n\n",
    "folded, stripped": "text: >-\n  one\n  two\nlicense: mit",
    "indented": "  license: mit\n  tags: [a]",
    "one flow mapping": "{license: mit, tags: [a, b]}",
    "flow mapping over lines": "{license: mit, # why, not\n tags: [a],\n}",
    "document end": "license: mit\n...",
    "dates, null, NaN": "date: 2024-01-31\nx: ~\ny: .nan\nz: 0o17",
    "null index": "model-index:\nlicense: mit",
    "empty index": "model-index: []  # none yet\nlicense: mit",
    "quoted key": "'model-index': null\nlicense: mit",
    "theirs": f"model-index:\n- name: theirs\n  results:\n  {OTHER}\n# between\nlicense: mit",
    "theirs, last": f"license: mit\nmodel-index:\n- name: theirs\n  results:\n  {OTHER}",
    "theirs, name last": f"model-index:\n- results:\n  {OTHER}\n  name: theirs\n  # end",
    "theirs, indented, alias": "model-index:\n  - name: &n x\n    results:\n    - &r "
    + OTHER[2:].replace("\n", "\n  ")
    + "\n    - *r\n\n# end\ntags: [*n]",
    "theirs in flow": "model-index: [{name: q, results: [{task: {type: t}, dataset: {type: d, name: n}, "
    "metrics: [{type: a, value: 1}]},]}] # z\nlicense: mit",
    "two models": f"model-index:\n- name: p\n  results:\n  {OTHER}\n- name: q\n  results:\n  {OTHER}\nlicense: mit",
    "index without results": "model-index:\n- name: q\n  results: []\nlicense: mit",
    "many dashes": "x:\n- - - a\n  - b\n-\n  - c\n",
}


def merged(block: str, results: list[dict[str, Any]], newline: str = "\n") -> str:
    return merge_results(block, name="model", results=results, newline=newline)


def ours(block: str) -> list[Any]:
    found = [entry for model in yaml.safe_load(block)["model-index"] for entry in model.get("results", [])]
    return [entry for entry in found if isinstance(entry, dict) and entry.get("source", {}).get("name") == "hubaudit"]


def is_insertion(before: str, after: str) -> bool:
    """Whether `after` is `before` with one piece of text put in."""
    head = 0
    while head < len(before) and before[head] == after[head]:
        head += 1
    return any(after.endswith(before[at:]) for at in range(head + 1) if len(after) >= len(before))


@pytest.mark.parametrize("newline", ["\n", "\r\n"], ids=["lf", "crlf"])
@pytest.mark.parametrize("block", BLOCKS.values(), ids=BLOCKS.keys())
def test_others_bytes_stay(block: str, newline: str, one: Any, two: Any) -> None:
    block = block.replace("\n", newline)
    first = merged(block, one, newline)
    assert ours(first) == one
    if "model-index: []" in block or "null" in block:
        # An explicit "none" is what our list takes the place of.
        assert [line.split("[]")[0].split("null")[0] for line in block.splitlines()][1:] == first.splitlines()[-1:]
    else:
        assert is_insertion(block, first), first
    assert newline == "\n" or "\n" not in first.replace("\r\n", "")
    assert merged(first, one, newline) == first
    second = merged(first, two, newline)
    assert ours(second) == two
    assert second == merged(block, two, newline), "the way there does not matter"
    assert merged(second, one, newline) == first


def test_replaced_where_they_stood(one: Any, two: Any) -> None:
    block = merged(f"model-index:\n- name: q\n  results:\n  {OTHER}", one)
    block += "\n  # mine\n  " + OTHER + "\n- name: r\nlicense: mit"
    changed = merged(block, two)
    assert ours(changed) == two
    assert changed.index("KL") < changed.index("# mine")
    assert changed.count(OTHER) == 2
    assert changed.endswith("  # mine\n  " + OTHER + "\n- name: r\nlicense: mit")


def test_ours_written_anew_by_another_tool_are_left_alone(two: Any) -> None:
    block = yaml.safe_dump({"model-index": [{"results": two, "name": "x"}], "a": 1}, default_flow_style=True, width=60)
    assert merged(block.rstrip("\n"), two) == block.rstrip("\n")


def test_ours_in_several_places_become_one(one: Any, two: Any) -> None:
    data = {"model-index": [{"name": "a", "results": [*one, {"task": {"type": "t"}}, *two]}]}
    for flow in (False, True):
        block = yaml.safe_dump(data, default_flow_style=flow, sort_keys=False, width=9999).rstrip("\n")
        found = merged(block, two)
        assert ours(found) == two
        assert len(yaml.safe_load(found)["model-index"][0]["results"]) == 3


def test_a_new_front_matter_reads_as_given(two: Any) -> None:
    block = new_front_matter(name="m: [x", results=two, newline="\r\n")
    assert yaml.safe_load(block) == {"model-index": [{"name": "m: [x", "results": two}]}
    assert not block.endswith("\n")


def test_objects_that_occur_twice_need_no_alias(one: Any) -> None:
    assert "&" not in new_front_matter(name="m", results=[one[0], one[0]], newline="\n")


@pytest.mark.parametrize(
    ("block", "message"),
    [
        ("license: mit\n\ttags: x", r"is no YAML at line 3 .* repair README.md first"),
        ("license:\tmit", r"is no YAML at line 2"),
        ("a: [1, 2", r"is no YAML at line"),
        ("a: \x07", r"is no YAML \(ReaderError\)"),
        ("a: !!python/object:os.system x", r"is no YAML at line 2"),
        ("a: 2024-13-77", r"is no YAML \(ValueError\)"),
        ("- a\n- b", r"must be a mapping of keys, but got a list"),
        ("just text", r"must be a mapping of keys, but got a str"),
        ("model-index: []\nmodel-index: []", r"has model-index 2 times \(lines 2, 3\); keep one of them"),
        ("model-index: {name: x}", r"cannot be extended without touching what others wrote"),
        ("b: &x\n  model-index: [1]\n<<: *x", r"cannot be extended without touching what others wrote"),
        ("[" * 3000 + "]" * 3000, r"is no YAML \(RecursionError\)"),
    ],
)
def test_what_cannot_be_edited_is_refused(block: str, message: str, one: Any) -> None:
    with pytest.raises(InputError, match=message):
        merged(block, one)


def test_nested_anchors_cost_no_more_than_their_text(one: Any) -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 9)]
    block = "\n".join(lines)
    assert merged(block, one).startswith(block + "\nmodel-index:\n")


PIECES = [
    "license: mit",
    "# a comment: with - signs",
    "tags:\n- a # b\n-   'c'",
    'x: {a: [1, 2], b: "q"}',
    "text: |2\n    deep\n   less",
    "plain: one\n  two\n\n  three",
    "empty:",
    "? long key\n: value",
    "n{n}: &a{n} {{k: v}}\nm{n}: *a{n}",
    "",
    "quoted: 'it''s\n\n  more'",
]


@pytest.mark.parametrize("seed", range(30))
def test_random_metadata(seed: int, one: Any, two: Any) -> None:
    rng = random.Random(seed)
    pieces = [piece.format(n=n) if "{n}" in piece else piece for n, piece in enumerate(rng.choices(PIECES, k=5))]
    if rng.random() < 0.6:
        pad = " " * rng.choice([0, 2, 3])
        entry = [f"{pad}- name: theirs", f"{pad}  results:"]
        deep = pad + "  " + " " * rng.choice([0, 1, 4])
        for _ in range(rng.randint(1, 3)):
            body = OTHER.replace("    ", "  ", 1).split("\n")
            entry += [deep + line if not index else deep + "  " + line.strip() for index, line in enumerate(body[:2])]
            entry += [f"{deep}  metrics:", f"{deep}  - {{type: acc, value: 1}}"]
            entry += rng.choice([[], [f"{deep}# note"], ["", "# at the left"]])
        pieces.insert(rng.randrange(6), "\n".join(["model-index:", *entry]))
    newline = rng.choice(["\n", "\r\n"])
    block = "\n".join(pieces).replace("\n", newline)
    before = yaml.safe_load(block)
    if not isinstance(before, dict):
        pytest.skip("no mapping this time")
    first = merged(block, one, newline)
    assert is_insertion(block, first), first
    after = yaml.safe_load(first)
    assert {key: after[key] for key in before if key != "model-index"} == {
        key: before[key] for key in before if key != "model-index"
    }
    assert ours(first) == one
    assert merged(first, two, newline) == merged(block, two, newline)
    assert merged(merged(first, two, newline), one, newline) == first
