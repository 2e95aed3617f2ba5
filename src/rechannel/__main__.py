"""`python -m rechannel` is the command `rechannel`, of this Python."""

from __future__ import annotations

from rechannel.cli import main

if __name__ == "__main__":
    main()
