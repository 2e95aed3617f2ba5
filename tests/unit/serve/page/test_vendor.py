"""The libraries of the page are those that their list says, with their licences."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

from rechannel.serve import page

VENDOR = Path(page.__file__).parent / "vendor"
LIST = (VENDOR / "README.md").read_text(encoding="utf-8")
ROWS = re.findall(
    r"^\| `(\S+)` \| `(\S+)` \| (\d[\d.]*) \| (\S+), `(\S+)` \| `(\w{64})` \|$", LIST, re.MULTILINE
)


def test_every_file_is_on_the_list_as_it_is():
    assert len(ROWS) == 4
    for name, _, _, _, _, digest in ROWS:
        assert hashlib.sha256((VENDOR / name).read_bytes()).hexdigest() == digest, name


def test_every_package_has_its_licence_and_its_digest_in_the_registry():
    for _, package, _, licence, file, _ in ROWS:
        text = (VENDOR / file).read_text(encoding="utf-8")
        assert {"MIT": "Permission is hereby granted", "Apache-2.0": "Apache License"}[
            licence
        ] in text
        assert re.search(rf"^\| `{package}` \| `sha512-[\w+/=]{{88}}` \|$", LIST, re.MULTILINE)


def test_nothing_else_lies_there():
    listed = {part for row in ROWS for part in (row[0], row[4])}
    assert {each.name for each in VENDOR.iterdir()} == listed | {"README.md"}
