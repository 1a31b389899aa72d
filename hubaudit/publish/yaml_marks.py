"""Where the parts of a YAML text begin and end, as positions in the text."""

from __future__ import annotations

import re

import yaml

from hubaudit.errors import InputError

__all__ = ["append_flow", "compose", "item_span", "line_end", "node_end"]

_BREAK = re.compile(r"\r\n|\r|\n")
_COMMENT = re.compile(r"#[^\r\n]*")


class _Loader(yaml.SafeLoader):  # type: ignore[misc]  # PyYAML has no types
    """Composes nodes as PyYAML does, except that an alias is a node of its own place."""

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        """An alias as a scalar with the alias's marks; PyYAML gives the anchored node, which lies elsewhere."""
        if self.check_event(yaml.AliasEvent):
            event = self.get_event()
            return yaml.ScalarNode("!alias", f"*{event.anchor}", event.start_mark, event.end_mark)
        node: yaml.Node | None = super().compose_node(parent, index)
        return node


def compose(text: str) -> yaml.Node | None:
    """The tree of a YAML text, or None for an empty one.

    Raises:
        InputError: If the text cannot be read.
    """
    try:
        found: yaml.Node | None = yaml.compose(text, Loader=_Loader)
    except (yaml.YAMLError, RecursionError) as exc:
        raise InputError(f"the card's metadata is no YAML ({type(exc).__name__}); repair README.md first") from exc
    return found


def node_end(node: yaml.Node) -> int:
    """Where a node's own text ends; PyYAML's mark of a block collection lies behind the comments that follow."""
    while isinstance(node, yaml.CollectionNode) and not node.flow_style and node.value:
        last = node.value[-1]
        node = last[1] if isinstance(last, tuple) else last
    return int(node.end_mark.index)


def line_end(text: str, at: int) -> int:
    """The position after the line break of the line that holds `at`, or the end of the text."""
    if at and text[at - 1] in "\r\n":
        # A block scalar ends behind its line break.
        return at
    found = _BREAK.search(text, at)
    return found.end() if found else len(text)


def item_span(text: str, sequence: yaml.SequenceNode, place: int) -> tuple[int, int]:
    """Where an item of a list begins and ends, so that cutting the span leaves a list.

    Args:
        text: The YAML text.
        sequence: The list; in block style its items' dashes must begin their lines.
        place: Which item, from 0.

    Returns:
        Start and end: whole lines in block style, with one comma in flow style.

    Raises:
        InputError: If a dash shares its line with the parent's.
    """
    item = sequence.value[place]
    if sequence.flow_style:
        if place:
            return node_end(sequence.value[place - 1]), int(item.end_mark.index)
        after = sequence.value[1].start_mark.index if len(sequence.value) > 1 else item.end_mark.index
        return int(item.start_mark.index), int(after)
    start = _dash_line(text, item.start_mark.index, sequence.start_mark.column)
    return start, line_end(text, node_end(item))


def append_flow(text: str, node: yaml.CollectionNode, addition: str) -> tuple[int, int, str]:
    """The edit that adds text before the closing bracket of a list or mapping in flow style."""
    closing = node.end_mark.index - 1
    if not node.value:
        return closing, closing, addition
    last = node.value[-1]
    end = node_end(last[1] if isinstance(last, tuple) else last)
    if "," in _COMMENT.sub("", text[end:closing]):
        return closing, closing, f" {addition}"
    return end, end, f", {addition}"


def _dash_line(text: str, at: int, column: int) -> int:
    """Start of the line with the dash of the item that begins at `at`."""
    while True:
        start = max(text.rfind("\n", 0, at), text.rfind("\r", 0, at)) + 1
        line = text[start:]
        if line[:column].strip(" ") == "" and line[column : column + 1] == "-":
            return start
        if not start:
            raise InputError("the card's metadata writes two dashes on a line; put each list on lines of its own")
        at = start - 1
