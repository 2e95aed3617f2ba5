"""Figures as words."""

from __future__ import annotations

from collections.abc import Sequence

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")

_TIMES = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns"))


def seconds(length: float) -> str:
    """Return a length of time, in seconds, in words: 340 ms, 1.25 s, 90 s, 2 min 5 s, 3 h 12 min. The page has the same
    (`words.js`).
    """
    whole = round(length)
    if whole < 120:
        unit, name = next((each for each in _TIMES if length >= each[0]), _TIMES[0])
        return f"{float(f'{length / unit:.3g}'):g} {name}"
    if whole < 3_600:
        return _two(whole, 60, "min", "s")
    if whole < 86_400:
        return _two(whole // 60, 60, "h", "min")
    return _two(round(length / 3_600), 24, "d", "h")


def _two(count: int, base: int, large: str, small: str) -> str:
    """Return an amount in two units. count: of the small one. base: how many of these the large one has."""
    whole, rest = divmod(count, base)
    return f"{whole:,} {large}{f' {rest} {small}' if rest else ''}"


def listed(names: Sequence[str], most: int = 4) -> str:
    """Return names as an enumeration; the rest is counted."""
    shown = list(names[:most])
    if len(names) > most:
        shown.append(f"{len(names) - most} more")
    return " and ".join([", ".join(shown[:-1]), shown[-1]]) if len(shown) > 1 else "".join(shown)


def size(count: float) -> str:
    """Return a number of bytes in words: 512 B, 1.5 MiB."""
    power = 0
    while count >= 1_000 and power < len(_UNITS) - 1:
        count, power = count / 1_024, power + 1
    return (
        f"{count:.0f} {_UNITS[power]}"
        if count >= 10 or not power
        else f"{count:.1f} {_UNITS[power]}"
    )


def percent(share: float) -> str:
    """Return a share in words: 43 %, below 1 %."""
    return f"{share * 100:.0f} %" if share >= 0.01 or share == 0 else "below 1 %"


def counted(count: int, one: str, many: str = "") -> str:
    """Return a number with its noun: 1 task, 12 tasks."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def capitalised(text: str) -> str:
    """Return a text as the beginning of a sentence."""
    return f"{text[:1].upper()}{text[1:]}"
