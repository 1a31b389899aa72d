"""Text from outside and numbers, made fit for a page: nothing here can break a table or start markup."""

from __future__ import annotations

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Sequence

__all__ = [
    "DASH",
    "MINUS",
    "clean",
    "clip",
    "markdown",
    "markdown_code",
    "number",
    "percent",
    "plural",
    "sentence",
    "short_labels",
    "size",
]

DASH = "–"  # noqa: RUF001 - an en dash is what an undefined figure looks like
MINUS = "−"  # noqa: RUF001 - the mathematical sign, as wide as a plus
# `model-Q4_K_M.gguf`, `model.i1-IQ2_XS.gguf`: the last label says which file of a repo it is.
_GGUF_QUANT = re.compile(r"[-.]((?:I?Q|TQ|MXFP|BF|F)\d\w*\.gguf)$", re.IGNORECASE)
_REPLACEMENT = "�"
_BIDI_CONTROLS = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
_PLAIN_CODE = re.compile(r"[A-Za-z0-9 ./:@+*,=_-]+")
# A run of underscores means something unless letters or digits stand on both its sides.
_MARKDOWN_SPECIAL = re.compile(r"[\\`*\[\]|~$]|(?<![A-Za-z0-9_])_+|_+(?![A-Za-z0-9_])")
_MARKDOWN_LINE_START = re.compile(r"^(?:(#{1,6}|[+-]|\d{1,9}[.)])(?=\s|$)|([-=]+)$)")


def clean(text: str, *, keep_newlines: bool = False) -> str:
    """Text without anything invisible that could steer a terminal, a page or the reading direction.

    Control characters, escape sequences, direction overrides and lone surrogates become U+FFFD. White
    space is folded to single blanks; with `keep_newlines`, line ends stay.
    """
    kept = []
    for char in text.replace("\r\n", "\n"):
        if char == "\n" and keep_newlines:
            kept.append(char)
        elif char.isspace():
            kept.append(" ")
        elif char in _BIDI_CONTROLS or unicodedata.category(char) in ("Cc", "Cs"):
            kept.append(_REPLACEMENT)
        else:
            kept.append(char)
    joined = re.sub(" +", " ", "".join(kept))
    return joined.strip() if not keep_newlines else joined.strip("\n")


def clip(text: str, limit: int) -> str:
    """Text shortened in its middle to at most `limit` characters, since both ends of a name tell most."""
    if len(text) <= limit:
        return text
    head = (limit - 1) // 2
    return f"{text[:head]}…{text[len(text) - (limit - 1 - head) :]}"


def markdown(text: str) -> str:
    """One line of plain text for a Markdown paragraph, list or table cell, whatever it holds.

    Neither a table, a code span, emphasis, mathematics, a link, an HTML tag nor a comment marker can start
    in the result. Underscores inside words stay as they are, since they mean nothing there.
    """
    line = clean(text)
    line = _MARKDOWN_SPECIAL.sub(lambda found: "".join("\\" + char for char in found.group(0)), line)
    line = line.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    # An address would become a link by itself; the escaped colon and dot keep it text.
    line = line.replace("://", "\\://").replace("www.", "www\\.")
    if start := _MARKDOWN_LINE_START.match(line):
        # Escaping the sign itself: before a digit a backslash would be a backslash.
        at = start.end() - 1 if line[0].isdigit() else 0
        line = f"{line[:at]}\\{line[at:]}"
    return line


def markdown_code(text: str) -> str:
    """A name as a code span where it is plain, else as escaped text.

    A code span keeps angle brackets as they are, and so could hold a comment marker of the card.
    """
    line = clean(text)
    return f"`{line}`" if _PLAIN_CODE.fullmatch(line) and "--" not in line else markdown(text)


def number(value: float | None, *, digits: int = 3, signed: bool = False) -> str:
    """A figure with `digits` significant digits; a dash where it is undefined."""
    if value is None or not math.isfinite(value):
        return DASH
    if value == 0:
        return "0"
    sign = "+" if signed else ""
    if not 1e-4 <= abs(value) < 1e6:
        return f"{value:{sign}.{digits - 1}e}"
    # The exponent after rounding: .9996 has the digits of 1.00, not those of .999.
    exponent = int(f"{value:.{digits - 1}e}".partition("e")[2])
    decimals = max(0, digits - 1 - exponent)
    return f"{value:{sign}.{decimals}f}"


def percent(value: float | None, *, digits: int = 1, signed: bool = False) -> str:
    """A share as per cent; a dash where it is undefined."""
    if value is None or not math.isfinite(value):
        return DASH
    sign = "+" if signed else ""
    return f"{100 * value:{sign}.{digits}f}%"


def size(n_bytes: int | None) -> str:
    """A size in decimal units, as the Hub prints it."""
    if n_bytes is None:
        return DASH
    value = float(n_bytes)
    for unit in ("B", "kB", "MB", "GB"):
        if value < 999.5:
            return f"{number(value)} {unit}" if unit != "B" else f"{n_bytes} B"
        value /= 1000
    return f"{number(value)} TB"


def plural(count: int, noun: str) -> str:
    """`1 item`, `2 items`."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def sentence(text: str) -> str:
    """The text with a capital first letter, unless it begins with a name such as `org/model`."""
    first = text.split(" ", 1)[0]
    return text[:1].upper() + text[1:] if first.isalpha() else text


def short_labels(specs: Sequence[str], *, limit: int = 32) -> list[str]:
    """The shortest name of each variant that still tells it from the others.

    `org/model-GGUF:Q4_K_M` becomes `Q4_K_M` where no other variant could be meant, else `model-GGUF:Q4_K_M`,
    else the whole reference; `/models/model-Q8_0.gguf` becomes `Q8_0.gguf`. A reference that is given twice is
    numbered.

    Args:
        specs: References as the user typed them.
        limit: Longest label, in characters.

    Returns:
        One label a reference, all different, without control characters.
    """
    cleaned = [clean(spec) or "(no name)" for spec in specs]
    candidates = [_candidates(spec) for spec in cleaned]
    owners = Counter(name for names in candidates for name in set(names))
    labels = [clip(next((name for name in names if owners[name] == 1), names[-1]), limit) for names in candidates]
    seen = Counter(labels)
    return [label if seen[label] == 1 else f"{label} #{index + 1}" for index, label in enumerate(labels)]


def _candidates(spec: str) -> list[str]:
    """Names for one reference, shortest first, the whole of it last."""
    path, _, suffix = spec.partition(":")
    if "/" not in path:
        return [spec]
    last = spec.rstrip("/").rsplit("/", 1)[-1]
    quant = _GGUF_QUANT.search(last)
    return [name for name in (quant[1] if quant else "", suffix.rsplit("/", 1)[-1], last, spec) if name]
