"""The metadata at the top of a card: our evaluation results spliced into its text, all other bytes kept.

A YAML library that loads and dumps would move comments, quotes, anchors and the order of keys. So the text is
only cut where the parser says that our own entries begin and end, and the outcome is parsed again: other keys
and other tools' results must read as before, ours as wanted, or nothing is changed.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from typing import Any

import yaml

from hubaudit.errors import InputError
from hubaudit.publish.yaml_marks import append_flow, compose, item_span, line_end, node_end

__all__ = ["SOURCE_NAME", "merge_results", "new_front_matter", "parse_front_matter"]

KEY = "model-index"
SOURCE_NAME = "hubaudit"
"""The `source.name` that tells our results from those of other tools."""

Results = list[dict[str, Any]]
_Edit = tuple[int, int, str]


def merge_results(block: str, *, name: str, results: Sequence[dict[str, Any]], newline: str) -> str:
    """Put our results into the text of a front matter, in place of older ones of ours.

    Args:
        block: The text between the two `---` lines, without its last line break.
        name: The model's name, for a `model-index` that has no entry yet.
        results: Entries of `model-index[].results`, each with `source.name` "hubaudit"; builtin types only.
        newline: Line break of the lines that are added.

    Returns:
        The text with our results; the same text where it already holds just these.

    Raises:
        InputError: If the text is no YAML mapping, or is written in a way that cannot be extended without
            touching what others wrote.
    """
    before, results = parse_front_matter(block), _plain(results)
    if _same(_ours(before), results):
        return block
    for edits in _proposals(block, name, results, newline):
        after = _applied(block, edits)
        if _holds(before, after, results):
            return after
    raise InputError(
        "the card's metadata is written in a way that cannot be extended without touching what others wrote; "
        f"add the key {KEY} by hand as a plain list (`{KEY}:` on a line of its own), then run this again"
    )


def new_front_matter(*, name: str, results: Sequence[dict[str, Any]], newline: str) -> str:
    """The text of a front matter with nothing but our results, without its last line break."""
    return _text({KEY: [{"name": name, "results": _plain(results)}]}, newline).removesuffix(newline)


def parse_front_matter(block: str) -> dict[str, Any]:
    """The metadata as the Hub's client reads it.

    Raises:
        InputError: If the text is no YAML, or no mapping.
    """
    try:
        found = yaml.safe_load(block)
    except yaml.MarkedYAMLError as exc:
        # The first line of the block is the second of the card.
        at = "" if exc.problem_mark is None else f" at line {exc.problem_mark.line + 2}"
        raise InputError(
            f"the card's metadata is no YAML{at} ({exc.problem or 'unreadable'}); repair README.md first"
        ) from exc
    except (yaml.YAMLError, ValueError, TypeError, RecursionError) as exc:
        raise InputError(f"the card's metadata is no YAML ({type(exc).__name__}); repair README.md first") from exc
    if found is None:
        return {}
    if not isinstance(found, dict):
        raise InputError(
            f"the card's metadata must be a mapping of keys, but got a {type(found).__name__}; repair README.md first"
        )
    return found


def _proposals(block: str, name: str, results: Results, newline: str) -> Iterator[list[_Edit]]:
    """Ways to edit the text, the most natural one first; the caller takes the first that holds."""
    root = compose(block)
    entry = {"name": name, "results": results}
    if root is None:
        yield [_at_end(block, _text({KEY: [entry]}, newline), newline)]
        return
    if not isinstance(root, yaml.MappingNode):
        return
    values = [value for key, value in root.value if key.value == KEY]
    if len(values) > 1:
        lines = ", ".join(str(value.start_mark.line + 2) for value in values)
        raise InputError(f"the card's metadata has {KEY} {len(values)} times (lines {lines}); keep one of them")
    if values:
        yield from _into_index(block, values[0], entry, newline)
    elif root.flow_style:
        yield [append_flow(block, root, f"{KEY}: {_flow([entry])}")]
    else:
        column = root.start_mark.column
        lines = _text({KEY: [entry]}, newline, indent=column)
        yield [_at_end(block, lines, newline)]
        # After a block scalar a new line could change its value; before the first key it never does.
        first = root.start_mark.index - column
        yield [(first, first, lines)]


def _into_index(block: str, index: yaml.Node, entry: dict[str, Any], newline: str) -> Iterator[list[_Edit]]:
    """Edits of an existing `model-index`."""
    if isinstance(index, yaml.ScalarNode) or (isinstance(index, yaml.SequenceNode) and not index.value):
        start, end = index.start_mark.index, index.end_mark.index
        lines = _text([entry], newline, indent=index.start_mark.column if not block[:start].strip() else 0)
        yield [(start, end, ""), _after(block, end, lines, newline)]
        yield [(start, end, _flow([entry]))]
        return
    if not isinstance(index, yaml.SequenceNode):
        return
    lists = [found for element in index.value if (found := _results_of(element)) is not None and found.value]
    ours = [(found, place) for found in lists for place, item in enumerate(found.value) if _is_ours(item)]
    if ours:
        yield _replacing(block, ours, entry["results"], newline)
    elif lists:
        yield [_appending(block, lists[0], entry["results"], newline)]
    yield [_appending(block, index, [entry], newline)]


def _replacing(block: str, ours: list[tuple[yaml.SequenceNode, int]], results: Results, newline: str) -> list[_Edit]:
    """Our old entries out, the new ones where the first of them stood."""
    (sequence, place), *others = ours
    spans = [item_span(block, *entry) for entry in others]
    if sequence.flow_style:
        item = sequence.value[place]
        first = (item.start_mark.index, item.end_mark.index, _flow(results)[1:-1])
    else:
        start, end = item_span(block, sequence, place)
        while spans and spans[0][0] == end:
            end = spans.pop(0)[1]
        lines = _text(results, newline, indent=sequence.start_mark.column)
        # The last line of a front matter has no line break.
        first = (start, end, lines if block[end - 1] in "\r\n" else lines.removesuffix(newline))
    return [first, *((start, end, "") for start, end in spans)]


def _appending(block: str, sequence: yaml.SequenceNode, items: Results, newline: str) -> _Edit:
    if sequence.flow_style:
        return append_flow(block, sequence, _flow(items)[1:-1])
    lines = _text(items, newline, indent=sequence.start_mark.column)
    return _after(block, node_end(sequence), lines, newline)


def _after(block: str, at: int, lines: str, newline: str) -> _Edit:
    """Whole lines after the line that holds position `at`."""
    end = line_end(block, at)
    return (end, end, lines) if end and block[end - 1] in "\r\n" else _at_end(block, lines, newline)


def _at_end(block: str, lines: str, newline: str) -> _Edit:
    """Whole lines at the end, where the front matter's last line has no line break."""
    apart = newline if block and block[-1] not in "\r\n" else ""
    return len(block), len(block), apart + lines.removesuffix(newline)


def _applied(block: str, edits: list[_Edit]) -> str:
    for start, end, text in sorted(edits, reverse=True):
        block = block[:start] + text + block[end:]
    return block


def _holds(before: dict[str, Any], after: str, results: Results) -> bool:
    """Whether the edited text reads as before, with just the wanted results of ours."""
    try:
        found = parse_front_matter(after)
    except InputError:
        return False
    return _same(_ours(found), results) and _same(_theirs(before), _theirs(found))


def _ours(data: dict[str, Any]) -> list[Any]:
    return [result for result in _all_results(data) if _has_our_source(result)]


def _theirs(data: dict[str, Any]) -> dict[str, Any]:
    """Everything but our results: other keys, and of the index what others have in it."""
    rest = {key: value for key, value in data.items() if key != KEY}
    index = data.get(KEY)
    if not isinstance(index, list):
        return rest | ({KEY: index} if index else {})
    kept = []
    for element in index:
        if isinstance(element, dict) and isinstance(element.get("results"), list):
            others = [result for result in element["results"] if not _has_our_source(result)]
            if not others and element["results"]:
                continue
            element = {**element, "results": others}
        kept.append(element)
    return rest | ({KEY: kept} if kept else {})


def _all_results(data: dict[str, Any]) -> Iterator[Any]:
    index = data.get(KEY)
    for element in index if isinstance(index, list) else ():
        listed = element.get("results") if isinstance(element, dict) else None
        yield from listed if isinstance(listed, list) else ()


def _has_our_source(result: Any) -> bool:
    source = result.get("source") if isinstance(result, dict) else None
    return isinstance(source, dict) and source.get("name") == SOURCE_NAME


def _results_of(element: yaml.Node) -> yaml.SequenceNode | None:
    found = _child(element, "results")
    return found if isinstance(found, yaml.SequenceNode) else None


def _is_ours(item: yaml.Node) -> bool:
    name = _child(_child(item, "source"), "name")
    return isinstance(name, yaml.ScalarNode) and name.value == SOURCE_NAME


def _child(node: yaml.Node | None, key: str) -> yaml.Node | None:
    if not isinstance(node, yaml.MappingNode):
        return None
    return next((value for name, value in reversed(node.value) if name.value == key), None)


def _same(one: Any, other: Any, seen: set[tuple[int, int]] | None = None) -> bool:
    """Equality; NaN equals itself, and what anchors share is compared once."""
    seen = set() if seen is None else seen
    if type(one) is not type(other):
        return False
    if not isinstance(one, dict | list):
        return bool(one == other or (one != one and other != other))
    if (id(one), id(other)) in seen:
        return True
    seen.add((id(one), id(other)))
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(_same(value, other[key], seen) for key, value in one.items())
    return len(one) == len(other) and all(_same(*pair, seen) for pair in zip(one, other, strict=True))


def _plain(results: Sequence[dict[str, Any]]) -> Results:
    """A copy in which no object occurs twice: YAML would write the second as an alias of the first."""
    copied: Results = json.loads(json.dumps(list(results), allow_nan=False))
    return copied


def _text(data: Any, newline: str, *, indent: int = 0) -> str:
    """Lines of block style, each one ending in a line break."""
    dumped = yaml.safe_dump(data, sort_keys=False, allow_unicode=True, width=math.inf, line_break="\n")
    return "".join(" " * indent + line + newline for line in dumped.split("\n")[:-1])


def _flow(items: Results) -> str:
    """One line of flow style; JSON would not do, since YAML reads its 1e-05 as a text."""
    dumped = yaml.safe_dump(items, sort_keys=False, allow_unicode=True, width=math.inf, default_flow_style=True)
    return str(dumped).rstrip("\n")
