"""Controllers from import paths and parameters."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from rechannel.control import library
from rechannel.control.controller import Controller
from rechannel.control.loading import ImportPath, Wanted
from rechannel.serve.allowed import Allowed
from rechannel.serve.failures import ForbiddenError

FIND = Allowed(modules=("rechannel.control.library",)).controller


def takes_defaults(name: str) -> bool:
    parameters = inspect.signature(getattr(library, name)).parameters.values()
    return all(parameter.default is not parameter.empty for parameter in parameters)


@pytest.mark.parametrize("name", [*filter(takes_defaults, library.__all__)])
def test_controllers_of_the_library_can_be_installed_by_their_path(name: str) -> None:
    kind: Any = getattr(library, name)
    path = f"{kind.__module__}:{name}"
    made = Wanted(path=path, name="own", priority=3).made(FIND)
    assert isinstance(made.controller, kind)
    assert (made.name, made.path, made.priority, made.parameters) == ("own", path, 3, {})
    with pytest.raises(ForbiddenError, match=f"is '{path}': name it in the module"):
        Wanted(path=f"rechannel.control.library:{name}").made(FIND)


class Holding(Controller):
    """Has paths in all forms."""

    def __init__(
        self,
        one: ImportPath,
        maybe: ImportPath | None = None,
        several: dict[str, list[ImportPath]] | None = None,
    ) -> None:
        self.paths = (one, maybe, several)


@pytest.mark.parametrize(
    "wrong", [{"one": "os:getenv"}, {"maybe": "os:getenv"}, {"several": {"x": ["os:getenv"]}}]
)
def test_import_paths_among_parameters_are_held_to_the_allowlist(wrong: dict[str, Any]) -> None:
    find = Allowed(modules=(__name__,)).controller
    here = f"{__name__}:takes_defaults"
    wanted = Wanted(path=f"{__name__}:Holding", parameters={"one": here, "maybe": here})
    made: Any = wanted.made(find).controller
    assert made.paths == (here, here, None)
    with pytest.raises(ForbiddenError, match="'os:getenv' may not be loaded"):
        Wanted(path=wanted.path, parameters={**wanted.parameters, **wrong}).made(find)
