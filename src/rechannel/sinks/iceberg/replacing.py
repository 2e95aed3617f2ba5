"""A snapshot of an Iceberg table that replaces files, and whose manifests do not pile up.

PyIceberg merges manifests where files are only added, and keeps a manifest of deleted files in all later snapshots:
after n snapshots that replace files, the next one reads n manifests.
"""

from __future__ import annotations

from typing import Any

from pyiceberg.manifest import ManifestFile
from pyiceberg.table.snapshots import Operation
from pyiceberg.table.update.snapshot import _MergeAppendFiles, _OverwriteFiles


class Replacement(_OverwriteFiles, _MergeAppendFiles):  # type: ignore[misc]
    """Files that come and go in one snapshot. Manifests are merged as the properties of the table say."""

    def __init__(self, transaction: Any, io: Any) -> None:
        """Begin one. Its files are committed at the end of a `with` block."""
        super().__init__(operation=Operation.OVERWRITE, transaction=transaction, io=io)

    def _process_manifests(self, manifests: list[ManifestFile]) -> list[ManifestFile]:
        """Return the manifests of the snapshot: no more those of files that an earlier one deleted."""
        counting = [each for each in manifests if self._counts(each)]
        merged: list[ManifestFile] = super()._process_manifests(counting)
        return merged

    def _counts(self, manifest: ManifestFile) -> bool:
        is_own = manifest.added_snapshot_id == self.snapshot_id
        return bool(is_own or manifest.has_added_files() or manifest.has_existing_files())
