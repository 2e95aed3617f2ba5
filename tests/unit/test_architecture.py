"""ARCHITECTURE.md names files and folders that exist."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "rechannel"
PAGE = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")


def exists(name: str) -> bool:
    """Whether a path from the package or the root, or the bare name of a file or folder, exists."""
    if "/" not in name.removesuffix("/"):
        return any(PACKAGE.rglob(name)) or (ROOT / name).exists()
    return (PACKAGE / name).exists() or (ROOT / name).exists()


def test_every_path_exists():
    names = re.findall(r"`((?:[a-z_0-9-]+/)*(?:[a-z_0-9-]+\.(?:py|md)|[a-z_0-9-]+/))`", PAGE)
    assert len(names) > 100
    assert [name for name in names if not exists(name)] == []
