"""What pictures show of windows, and in which colours."""

import numpy as np
import pytest
from matplotlib.colors import to_hex

from rechannel.profiling.model.analysis import OpenedTrace, analyse_pieces
from rechannel.profiling.model.pieces import Pieces
from rechannel.profiling.report.colours import colour_of
from rechannel.profiling.report.pictures import activities, pictures, workers
from rechannel.profiling.storage.stored import StoredTrace
from tests.unit.profiling.model.test_findings import NS, rounds


def profiled(*windows):
    """Rounds of 3.5 s, with nothing known of the time between windows, s."""
    source = StoredTrace.of(rounds((30, 10), 3, steps=8))
    pieces = Pieces.of(source, [(start * NS, end * NS) for start, end in windows])
    return analyse_pieces(OpenedTrace(title="rounds", source=source), pieces)


def test_nothing_is_drawn_between_windows():
    figure = activities(profiled((0, 7), (14, 21)))
    for ax in figure.axes:
        areas = [one.get_paths()[0] for one in ax.collections]
        assert len(areas) == 3
        assert any(area.contains_point((3.0, 0.3)) for area in areas)
        assert any(area.contains_point((17.0, 0.3)) for area in areas)
        assert not any(area.contains_point((10.0, 0.3)) for area in areas)


def test_workers_have_empty_columns_between_windows():
    mesh = workers(profiled((0, 7), (7, 14), (21, 28))).axes[0].collections[0]
    edges = np.unique(mesh.get_coordinates()[..., 0])
    assert edges.tolist() == pytest.approx([0, 7, 14, 21, 28])
    assert np.ma.getmaskarray(mesh.get_array()).all(axis=0).tolist() == [False, False, True, False]


def test_activities_have_the_colours_of_the_page():
    for ax in activities(profiled((0, 7))).axes:
        drawn = {area.get_label(): to_hex(area.get_facecolor()[0]) for area in ax.collections}
        assert drawn == {kind: colour_of(kind) for kind in drawn}
        assert {"processing", "scheduling"} <= set(drawn)


def test_a_profile_without_windows_has_no_pictures():
    assert list(pictures(profiled())) == []
    assert len(list(pictures(profiled((0, 7))))) == 4
