"""A running job, as its user holds it: the job, its reconfigurations, its server."""

from rechannel.running.deploying import Texts
from rechannel.running.job import RunningJob
from rechannel.running.reconfiguration import Reconfiguration
from rechannel.running.replaying import Replayable, Replayer
from rechannel.running.server import Server, ServerFactory

__all__ = [
    "Reconfiguration",
    "Replayable",
    "Replayer",
    "RunningJob",
    "Server",
    "ServerFactory",
    "Texts",
]
