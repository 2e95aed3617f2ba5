"""The command line as a file, which `spark-submit` needs: `spark-submit "$(rechannel --launcher)" run job.py`."""

from __future__ import annotations

import sys
from pathlib import Path

if __name__ == "__main__":
    # Python has put the directory of this file first: its modules are not to be found by their short names.
    here = str(Path(__file__).resolve().parent)
    sys.path[:] = [place for place in sys.path if place != here]
    from rechannel.cli import main

    main()
