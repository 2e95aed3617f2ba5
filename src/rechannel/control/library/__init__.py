"""Controllers that come with Rechannel: `rc.Job(..., controllers=[rc.control.library.Balance()])`."""

from rechannel.control.library.balance import Balance

__all__ = ["Balance"]
