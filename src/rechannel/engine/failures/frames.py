"""What an error that was dealt with keeps alive."""

from __future__ import annotations

import traceback


def let_go(error: BaseException) -> None:
    """Drop the local variables of all frames that an error and its causes have passed.

    A future in one of them that holds the error makes a cycle: a client in another one, with threads and connections,
    would live until the next collection of garbage, which may be minutes away. Frames that still run are left alone.
    """
    seen, left = set[int](), [error]
    while left:
        one = left.pop()
        if id(one) not in seen:
            seen.add(id(one))
            traceback.clear_frames(one.__traceback__)
            left += [each for each in (one.__cause__, one.__context__) if each is not None]
