"""Java archives from a Maven repository, resolved by the Ivy that PySpark brings: nothing has to be installed first."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pyspark

from tests.real.components.making import FOLDER, one_at_a_time

REPOSITORY = os.environ.get("MAVEN_REPOSITORY") or "https://repo1.maven.org/maven2"
SECONDS = 600.0

SETTINGS = """<ivysettings>
  <settings defaultResolver="central"/>
  <resolvers><ibiblio name="central" m2compatible="true" root="{root}"/></resolvers>
</ivysettings>
"""


MODULE = """<ivy-module version="2.0">
  <info organisation="local" module="{name}"/>
  <dependencies>
{lines}
  </dependencies>
</ivy-module>
"""
LINE = '    <dependency org="{}" name="{}" rev="{}" conf="default->default"/>'


def resolved(name: str, *coordinates: str) -> Path:
    """Return the folder with some archives and everything that they need; the first call fetches them.

    coordinates: GROUP:MODULE:VERSION. A folder is there whole or not at all.
    """
    folder = FOLDER / f"{name}-{'-'.join(each.rsplit(':', 1)[1] for each in coordinates)}"
    if not folder.exists():
        with one_at_a_time("ivy"):  # its cache is shared
            if not folder.exists():
                _resolve(folder, name, coordinates)
    return folder


def _resolve(folder: Path, name: str, coordinates: tuple[str, ...]) -> None:
    making = FOLDER / f".{folder.name}-{os.getpid()}"
    shutil.rmtree(making, ignore_errors=True)
    making.mkdir(parents=True)
    settings, module = making / "settings.xml", making / "ivy.xml"
    settings.write_text(SETTINGS.format(root=REPOSITORY))
    lines = "\n".join(LINE.format(*each.split(":")) for each in coordinates)
    module.write_text(MODULE.format(name=name, lines=lines))
    (ivy,) = (Path(pyspark.__file__).parent / "jars").glob("ivy-*.jar")
    command = ["java", "-Xmx256m", "-cp", str(ivy), "org.apache.ivy.Main", "-warn"]
    command += ["-settings", str(settings), "-cache", str(FOLDER / "ivy"), "-ivy", str(module)]
    command += ["-retrieve", str(making / "lib" / "[artifact]-[revision].[ext]")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
    if done.returncode:
        raise RuntimeError(f"Ivy cannot resolve {coordinates}:\n{done.stdout}\n{done.stderr}")
    (making / "lib").rename(folder)
    shutil.rmtree(making)
