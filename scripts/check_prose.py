#!/usr/bin/env python3
"""Check docstrings, comments, messages and pages for phrases that do not belong in them.

    scripts/check_prose.py            checks the whole tree
    scripts/check_prose.py PATH...    checks these files and folders

Prose in Python is every comment and every string with a space in it; identifiers are free, and so is
what stands in backquotes. Pages are checked whole. A phrase is
found across line ends. Exit status: 0 nothing found, 1 phrases found.
"""

from __future__ import annotations

import io
import re
import sys
import tokenize
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent
PYTHON = ("src", "benchmarks", "scripts", "examples")
PAGES = ("docs", "benchmarks", "examples")

# Words around "behind" that make it mean a lag, something left over, or a proxy.
LAG = (
    "lag lags lagged lagging fall falls fell fallen falling far left leave leaves stay stays is are"
)
NO_LAG = "".join(rf"(?<!\b{word} )" for word in LAG.split())
SHELTER = r"(?-i:[A-Z]{2,}\b)|(?:a|an|the) (?:proxy|reverse|firewall|load|tunnel|scenes)|TLS"

# What is looked for, and what to write in its place.
PHRASES = {
    r"who(?:so)?ever": "name the subject: 'the caller', 'a reader', 'any driver that'",
    r"nobody|somebody": "name the subject, or use the passive: 'no sink reads them'",
    r"(?:is|are|be|been|being|was|were|gets?) told(?! apart)": "'receives', 'is passed', 'is documented'",
    r"(?:tells?|told|hears?) of|hears": "'reports', 'names', 'learns about'",
    r"(?:is|are) said": "'is documented', 'is reported'",
    r"of before": "'previous', 'earlier', 'the old'",
    r"(?<!there )(?-i:is none)": "'is not one', 'is missing', 'is invalid'",
    r"where there (?:is|are) none": "'if there is none'",
    r"where that is": "'if', 'when'",
    r"as (?:it is|they are)(?= *(?:[.,;:)]|$))": "'unchanged', 'verbatim'",
    r"so (?:many|much)(?![^.;:]* (?:that|as)\b)": "'n', 'a number of', 'up to n'",
    r"(?:has|have|had) not to": "'must not', 'does not have to'",
    rf"{NO_LAG}behind(?! (?:{SHELTER}))": "'after', 'downstream of', 'below'",
    # Words that the glossary in ARCHITECTURE.md has replaced.
    r"front tasks?|fronts|(?:an?|the|its|each|every) front(?! (?:of|end|matter))": "'source task'",
    r"outbox(?:es)?(?!/|\.|`)": "'sink buffer'",
    r"sieves?": "'hash filter'",
    r"borders?(?![-:])": "'timestep boundary', 'boundary'",
    r"front halls?|rooms": "'packages'",
    r"eras?\b": "'state schema version'",
}
PATTERNS = [
    (re.compile(rf"\b(?:{phrase})\b" if phrase[-1].isalpha() else rf"\b(?:{phrase})", re.I), advice)
    for phrase, advice in PHRASES.items()
]
# Names in backquotes are those of code and of formats, which keep theirs.
CODE = re.compile(r"(?<!`)`[^`]{1,100}`(?!`)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Passage:
    """Prose that belongs together: a string, a block of comments, a page."""

    line: int
    """Where it begins, from 1."""
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A phrase in a passage."""

    line: int
    phrase: str
    advice: str


def findings(passage: Passage) -> Iterator[Finding]:
    """Find every phrase of a passage."""
    text = re.sub(r"\s", " ", CODE.sub(lambda span: re.sub(r"\S", "_", span[0]), passage.text))
    # The markers of comments and the indentation of a line that is continued are no words.
    flat = re.sub(r"(?<= )[ #]+", lambda blank: "\0" * len(blank[0]), text)
    places = [place for place, letter in enumerate(flat) if letter != "\0"]
    joined = "".join(flat[place] for place in places)
    for pattern, advice in PATTERNS:
        for match in pattern.finditer(joined):
            start = places[match.start()]
            line = passage.line + passage.text.count("\n", 0, start)
            yield Finding(line=line, phrase=match[0], advice=advice)


def words(literal: str) -> str:
    """Strip the quotes of a string literal and, before Python 3.12, the expressions of an f-string."""
    if literal[0] in "fF":
        literal = re.sub(r"\{[^{}]*\}", lambda match: "\n" * match[0].count("\n"), literal)
    return re.sub(r"^\w*['\"]+|['\"]+$", "", literal)


def of_python(source: str) -> Iterator[Passage]:
    """Comments and strings of a module; strings and comments in a row belong together."""
    kind, first, last, parts = -1, 0, 0, list[str]()
    strings = {tokenize.STRING, getattr(tokenize, "FSTRING_MIDDLE", tokenize.STRING)}
    silent = {
        tokenize.NL,
        getattr(tokenize, "FSTRING_START", -2),
        getattr(tokenize, "FSTRING_END", -2),
    }
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type in silent:
            continue
        now = tokenize.STRING if token.type in strings else token.type
        if now != kind and parts:
            yield Passage(line=first, text="".join(parts))
            parts = []
        if now == tokenize.COMMENT or (now == tokenize.STRING and " " in token.string):
            if parts:
                parts.append("\n" * (token.start[0] - last))
            else:
                first = token.start[0]
            parts.append(token.string if now == tokenize.COMMENT else words(token.string))
            last = token.end[0]
        kind = now


def passages(path: Path) -> Iterable[Passage]:
    """Read the prose of a file."""
    text = path.read_text(encoding="utf-8")
    return of_python(text) if path.suffix == ".py" else [Passage(line=1, text=text)]


def files(paths: Iterable[Path]) -> Iterator[Path]:
    """List the modules and pages at or below some paths.

    Raises FileNotFoundError for a path that does not exist: a check of nothing would pass.
    """
    for path in paths:
        if not path.exists():
            msg = f"there is no {path} to check: correct the path, or the lists in {__file__}"
            raise FileNotFoundError(msg)
        if path.is_file():
            yield path
        yield from sorted(p for p in path.rglob("*") if p.suffix in {".py", ".md"})


def everything() -> Iterator[Path]:
    """List all files that are checked when no path is given."""
    yield from (p for folder in PYTHON for p in files([ROOT / folder]) if p.suffix == ".py")
    yield from (p for folder in PAGES for p in files([ROOT / folder]) if p.suffix == ".md")
    yield from sorted(ROOT.glob("*.md"))


def main(arguments: list[str]) -> int:
    """Print what is found, and return the exit status."""
    found = 0
    for path in files(map(Path, arguments)) if arguments else everything():
        if path.resolve() == Path(__file__).resolve():
            continue
        for finding in (f for passage in passages(path) for f in findings(passage)):
            shown = path.relative_to(ROOT) if path.is_relative_to(ROOT) else path
            print(f"{shown}:{finding.line}: {finding.phrase!r}: {finding.advice}")
            found += 1
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
