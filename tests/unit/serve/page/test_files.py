"""The page's files: served without a token, with a strict policy, and complete: nothing is fetched from elsewhere."""

from __future__ import annotations

import re

import httpx
import pytest

from rechannel.serve.page.files import HEADERS, PREFIX, page_files
from tests.support import endless

SCRIPTS = {
    path: file.text for path, file in page_files().items() if "javascript" in file.media_type
}
OURS = {
    path: text for path, text in SCRIPTS.items() if path.endswith(".js") and ".min." not in path
}
NAMES = re.compile(r'(?:from|href=|src=)\s?"(/ui/[^"]+)"')


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    job = endless.start(tmp_path_factory.mktemp("page") / "state")
    try:
        with job.serve(port=0, token="s3cret-s3cret") as server:
            yield server.url
    finally:
        job.stop()


def test_every_file_is_there_without_a_token_and_says_what_may_be_loaded(url):
    assert {"/", f"{PREFIX}main.js", f"{PREFIX}dashboard.css", f"{PREFIX}page.css"} <= set(
        page_files()
    )
    with httpx.Client(base_url=url, trust_env=False) as client:
        for path, file in page_files().items():
            answer = client.get(path)
            assert (answer.status_code, answer.text) == (200, file.text), path
            assert answer.headers["content-type"] == file.media_type
            assert {name: answer.headers[name] for name in HEADERS} == dict(HEADERS)


def test_the_policy_allows_this_server_and_nothing_inline():
    policy = HEADERS["Content-Security-Policy"]
    assert policy.startswith(
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'"
    )
    assert "unsafe" not in policy
    page = page_files()["/"].text
    assert not re.findall(r"<script(?![^>]*\bsrc=)|<style|\sstyle=|\son\w+=", page)


@pytest.mark.parametrize("path", sorted(page_files()))
def test_what_a_file_names_is_a_file_of_the_page(path):
    text = page_files()[path].text
    assert set(NAMES.findall(text)) <= set(page_files())
    if path == "/" or path in OURS:
        assert "://" not in re.sub(r"http://www\.w3\.org/\S+", "", text)


def test_what_is_shown_is_never_taken_for_markup():
    for path, text in OURS.items():
        found = re.findall(
            r"innerHTML|outerHTML|insertAdjacent|document\.write|dangerously|\beval\b|new Function",
            text,
        )
        assert found == [], path


def test_licences_are_beside_the_libraries_and_are_not_routes(url):
    assert httpx.get(f"{url}{PREFIX}preact.LICENSE", trust_env=False).status_code == 401
    assert httpx.get(f"{url}{PREFIX}..%2Ffiles.py", trust_env=False).status_code == 401


def test_data_need_the_token(url):
    for path in ("/status", "/bins", "/flow", "/dataflow", "/sinks", "/progress", "/openapi.json"):
        assert httpx.get(url + path, trust_env=False).status_code == 401


def test_a_browser_that_has_a_file_is_told_so(url):
    first = httpx.get(url, trust_env=False)
    again = httpx.get(url, headers={"If-None-Match": first.headers["etag"]}, trust_env=False)
    assert (again.status_code, again.content) == (304, b"")
    assert again.headers["content-security-policy"] == HEADERS["Content-Security-Policy"]
