"""Controllers from import paths and parameters."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from rechannel.control import library
from rechannel.control.loading import Wanted
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
