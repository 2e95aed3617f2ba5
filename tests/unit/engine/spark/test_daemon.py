"""What Spark forks Python workers from."""

import importlib
import subprocess
import sys
import zipfile
import zipimport

import pytest

from rechannel.engine.spark.daemon import ARCHIVE, forget_archives, quiet, without_archive

LOOK = """
import sys
from rechannel.engine.spark.daemon import load
load()
wanted = ["pyspark.worker", "pyarrow.compute", "rechannel.kernels.tasks.source_task"]
wanted += ["rechannel.kernels.tasks.stateful_task", "pandas"]
wanted += ["rechannel.kernels.lsm.ahead", "rechannel.operators.window.logic", "rechannel.state.stores.local"]
print(sorted(set(wanted) - set(sys.modules)), "polars" in sys.modules, file=sys.stderr)
"""


def test_all_that_tasks_need_is_imported_before_the_fork_and_nothing_is_printed():
    """It says its port on standard output; polars keeps threads, which do not survive a fork."""
    found = subprocess.run([sys.executable, "-c", LOOK], capture_output=True, text=True, check=True)
    assert found.stdout == ""
    assert found.stderr.strip() == "[] False"


@pytest.mark.parametrize("error", [BrokenPipeError, ConnectionResetError])
def test_a_worker_that_spark_hangs_up_on_ends_in_silence(error):
    def worker(*given):
        assert given == (1, 2)
        raise error

    assert quiet(worker)(1, 2) == 1
    assert quiet(lambda code: code)(0) == 0
    with pytest.raises(KeyError):
        quiet({}.__getitem__)("other errors are shown")


def test_the_daemon_of_spark_has_what_is_made_quiet():
    """Its worker is looked up when a connection is there, so that the exchanged one is called."""
    from pyspark import daemon

    assert callable(daemon.worker)
    assert "worker" in daemon.manager.__code__.co_names


def test_the_archive_of_the_pyspark_that_is_installed_is_left_out(tmp_path):
    """An archive elsewhere may be another version's, and is what Spark was started with."""
    here, elsewhere = tmp_path / "site-packages", tmp_path / "spark" / "python" / "lib"
    for archive in (here / ARCHIVE, elsewhere / "pyspark.zip"):
        archive.parent.mkdir(parents=True)
        archive.touch()
    linked = tmp_path / "linked"
    linked.symlink_to(here)
    other, own = str(elsewhere / "pyspark.zip"), str(linked / ARCHIVE)
    rest = ["", str(here), str(tmp_path / "nowhere")]
    assert without_archive([own, other, *rest]) == [other, *rest]
    assert without_archive([own, other]) == [own, other], "nothing else holds it"


def test_a_worker_reads_no_table_of_contents_of_an_archive_again(tmp_path, monkeypatch):
    """Workers begin with `importlib.invalidate_caches`."""
    archive = tmp_path / "modules.zip"
    with zipfile.ZipFile(archive, "w") as made:
        made.writestr("only_in_the_archive.py", "here = 1")
        made.writestr("also_in_the_archive.py", "here = 2")
    monkeypatch.syspath_prepend(str(archive))
    assert importlib.import_module("only_in_the_archive").here == 1
    read = []
    real = zipimport._read_directory
    monkeypatch.setattr(zipimport, "_read_directory", lambda name: read.append(name) or real(name))
    if sys.version_info < (3, 13):
        importlib.invalidate_caches()
        assert str(archive) in read
        read.clear()
    forget_archives()
    importlib.invalidate_caches()
    assert importlib.import_module("also_in_the_archive").here == 2
    assert read == []


def test_a_directory_of_the_path_that_cannot_be_read_is_left_alone(monkeypatch):
    """Imports pass over it as well."""

    def refuse(*given, **more):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("os.stat", refuse)
    assert without_archive(["/secret", "/other"]) == ["/secret", "/other"]
