"""The page as a file, and as a frame in a notebook."""

import base64
import html
import json
import re
import zlib
from dataclasses import replace
from importlib.resources import files

import pytest

import rechannel as rc
from rechannel.profiling.model.finding import Certainty, Evidence, Finding, Place
from rechannel.profiling.report.notebook import notebook_html
from rechannel.profiling.report.page import SCRIPTS, page_html, script
from tests.unit.profiling.hostile import hostile
from tests.unit.profiling.logs import small
from tests.unit.profiling.report.traces import analysed, cluster

EVIL = "</script><script>alert(1)</script><!-- \u2028 &amp; '\""
SKEW = Finding(
    cause="skew",
    text=f"Stage 1 ({EVIL}) has one slow task.",
    advice="Set `spark.sql.<b>.enabled`.",
    gain=0.42,
    seconds=12.5,
    certainty=Certainty.CERTAIN,
    place=Place(stage=1),
    evidence=(
        Evidence(name="longest task", value=31.25, unit="s"),
        Evidence(name="median of the others", value=0.937, unit="s"),
        Evidence(name="spilled", value=3 << 30, unit="B"),
        Evidence(name="tasks", value=200),
        Evidence(name="share", value=62.5, unit="%"),
    ),
)


@pytest.fixture(scope="module")
def made():
    return replace(analysed(cluster(2, 2, rounds=4), EVIL), findings=[SKEW], notes=[EVIL])


@pytest.fixture(scope="module")
def text(made):
    return page_html(made)


def data_of(text):
    packed = re.search(r'id="data">([^<]*)</script>', text)[1]
    return json.loads(zlib.decompress(base64.b64decode(packed)))


def test_no_name_breaks_out(text):
    assert text.count("<script") == text.count("</script>") == 2
    assert "alert(1)</script>" not in text
    assert data_of(text)["title"] == EVIL
    assert html.unescape(re.search("<h1>(.*?)</h1>", text, re.DOTALL)[1]) == EVIL


def test_nothing_is_fetched(text):
    assert "default-src 'none'" in text
    assert not re.search(r"(src|href)=|url\(|@import|fetch\(|import\(", text)


def test_findings_are_text(text):
    for words in (
        "gain: 42 % of the run, 12.5 s",
        "certain",
        "31.2 s",
        "median of the others: 937 ms",
        "3.0 GiB",
        "tasks: 200",
        "62.5 %",
        "Set <code>spark.sql.&lt;b&gt;.enabled</code>.",
    ):
        assert words in text


def test_all_assets_are_on_the_page():
    assets = {
        each.name for each in files("rechannel.profiling.report").joinpath("assets").iterdir()
    }
    scripts = {name for name in assets if name.endswith(".js")}
    assert scripts == {f"{name}.js" for name in SCRIPTS}
    assert "</script" not in script()


def test_a_page_without_findings_says_so(made):
    assert "Nothing stands out." in page_html(replace(made, findings=[]))


def test_a_notebook_shows_the_page_in_a_frame_of_its_own(made):
    frame = notebook_html(made)
    assert frame.startswith('<iframe title="')
    assert 'sandbox="allow-scripts"' in frame
    inside = html.unescape(re.search(r'srcdoc="([^"]*)"', frame)[1])
    assert data_of(inside)["title"] == EVIL
    assert len(frame) < 2_000_000


def test_what_a_profile_returns_shows_itself(tmp_path):
    log = tmp_path / "app-1"
    log.write_bytes(b"".join(small()))
    found = rc.profile(log)
    assert found._repr_html_().startswith("<iframe")
    assert (
        repr(found)
        == f"<Analysis of 'small, Spark 4.3.0': 1 window, {len(found.findings)} findings>"
    )
    assert str(found).splitlines()[1] == f"- {found.findings[0].text}"
    assert replace(found, page=None)._repr_html_() is None
    assert str(replace(found, findings=[])).endswith("Nothing stands out.")


@pytest.mark.parametrize(
    "name",
    ["a task every 100 days", "10^9 tasks", "stale progress", "parents in a circle"],
)
def test_strange_logs_have_a_page(tmp_path, name):
    log = tmp_path / "app-1"
    log.write_bytes(b"".join(hostile()[name]))
    text = page_html(rc.profile(log))
    assert len(text) < 1_000_000
    assert data_of(text)["spans"]["start"]
