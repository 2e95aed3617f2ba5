"""The checker of prose: what it finds, where, and what it lets through."""

import pytest

from scripts.check_prose import (
    PAGES,
    PYTHON,
    ROOT,
    Passage,
    everything,
    findings,
    main,
    of_python,
)


def found(source):
    return [(f.line, f.phrase) for passage in of_python(source) for f in findings(passage)]


@pytest.mark.parametrize(
    "text",
    [
        "the rows behind the filter",
        "the driver is told what failed",
        "kept for whoever asks",
        "a path that is none",
        "a row that is of before the watermark",
        "at most so many rows",
        "the column stays as it is.",
        "a map task is a front task",
    ],
)
def test_phrases_are_found(text):
    [finding] = findings(Passage(line=1, text=text))
    assert finding.advice


@pytest.mark.parametrize(
    "text",
    [
        "the sink lags behind the commit",
        "the server runs behind a proxy",
        "if there is none, the default holds",
        "so many timesteps that the journal is cut",
        "the value is None",
        "files under outbox/ are kept",
        "the column is read as it is written",
        "border-left: 1px",
        "the member `outbox` names files",
    ],
)
def test_plain_english_passes(text):
    assert not list(findings(Passage(line=1, text=text)))


def test_comments_and_strings_are_read_and_identifiers_are_not():
    assert found(
        "nobody = sieve  # nobody looks\nkind = 'border'\nmsg = f'the border {nobody}'"
    ) == [
        (1, "nobody"),
        (3, "border"),
    ]


def test_a_phrase_is_found_across_lines():
    source = '''
def f():
    """Read what
    is told.
    """
    # One row, and what is
    # of before.
    raise ValueError(
        "the driver is "
        f"told the name {f}"
    )
'''
    assert [line for line, _ in found(source)] == [4, 7, 9]


def test_a_page_is_checked_whole(tmp_path, capsys):
    page = tmp_path / "page.md"
    page.write_text("# A page\n\nWho reads it,\nnobody knows.\n", encoding="utf-8")
    assert main([str(page)]) == 1
    assert f"{page}:4: 'nobody'" in capsys.readouterr().out


def test_a_path_that_does_not_exist_is_an_error(tmp_path):
    with pytest.raises(FileNotFoundError, match="nowhere to check"):
        main([str(tmp_path / "nowhere")])


def test_the_whole_tree_has_modules_and_pages_in_every_folder():
    checked = list(everything())
    for folder in PYTHON:
        assert any(path.is_relative_to(ROOT / folder) for path in checked), folder
    for folder in PAGES:
        assert any(path.is_relative_to(ROOT / folder) for path in checked), folder
