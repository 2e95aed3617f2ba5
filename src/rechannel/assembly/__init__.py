"""Puts a driver together, for a job and for the test kit alike."""

from rechannel.assembly.assemble import OWNER, assemble
from rechannel.assembly.editing import edit_state, plan_edit
from rechannel.assembly.parts import Parts
from rechannel.assembly.replaying import ReplayText, replay
from rechannel.assembly.seams import Clock, LeaseLike, Seams, Start
from rechannel.assembly.upgrading import plan_upgrade, rehearse_upgrade

__all__ = [
    "OWNER",
    "Clock",
    "LeaseLike",
    "Parts",
    "ReplayText",
    "Seams",
    "Start",
    "assemble",
    "edit_state",
    "plan_edit",
    "plan_upgrade",
    "rehearse_upgrade",
    "replay",
]
