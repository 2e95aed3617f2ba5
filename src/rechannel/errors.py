"""Every error that Rechannel raises, split by who is wrong and what to do next.

RechannelError
├── DataflowError            the program is wrong: change it, nothing has run
│   ├── DuplicateNameError       two nodes or sinks have one name
│   ├── UnknownColumnError       the stream has no column of this name
│   ├── UnknownOperatorError     the dataflow has no operator of this name
│   ├── SerialisationError       a function cannot be sent to workers
│   └── NonDeterministicError    a transform would give another result when replayed
├── SetUpError               the machine or the session cannot do it: install or set something
│   ├── JavaError                Java is missing or too old
│   └── SessionError             this Spark session cannot do what was asked
├── RefusedError             the request is understood and refused: change the request
│   ├── StateInUseError          another driver runs on this state directory
│   ├── OtherDataflowError       the state directory belongs to another dataflow
│   ├── OldProgramError          the program text from before a live change
│   ├── OtherHistoryError        a path holds what another copy of the state directory published
│   └── NewerFormatError         written by a newer version of Rechannel
├── FencedError              lost race: another driver took over; this one must stop
├── NotReadyError            not yet possible: ask again later
│   └── NoAnswerError            the driver did not answer in time: check its status, then ask again
├── DamagedStateError        stored bytes differ from what was written: stop, restore, never guess
│   └── MissingFileError         a file that the journal names is gone
├── SourceError              the input differs from what was declared
│   ├── SchemaDriftError         a file or partition has another schema than the stream
│   └── TraceError               not a trace or event log, or one that contradicts itself
├── StorageError             the store failed (disk full, no connection): retried automatically
│   └── NotPermittedError        no permission, or read-only: correct that and start again
└── TimestepError            a timestep failed; nothing of it was committed
    ├── ClusterError             executors, hosts or shuffles were lost: retried automatically
    ├── BroadcastTooLargeError   a table that every task would hold is too large
    ├── KeyTooLargeError         one key has more rows in a timestep than a task can take
    ├── TooManyBadRowsError      more rows were bad than the program allows
    └── UserFunctionError        the user's own function raised: its traceback is shown
"""

from __future__ import annotations

__all__ = [
    "BroadcastTooLargeError",
    "ClusterError",
    "DamagedStateError",
    "DataflowError",
    "DuplicateNameError",
    "FencedError",
    "JavaError",
    "KeyTooLargeError",
    "MissingFileError",
    "NewerFormatError",
    "NoAnswerError",
    "NonDeterministicError",
    "NotPermittedError",
    "NotReadyError",
    "OldProgramError",
    "OtherDataflowError",
    "OtherHistoryError",
    "RechannelError",
    "RefusedError",
    "SchemaDriftError",
    "SerialisationError",
    "SessionError",
    "SetUpError",
    "SourceError",
    "StateInUseError",
    "StorageError",
    "TimestepError",
    "TooManyBadRowsError",
    "TraceError",
    "UnknownColumnError",
    "UnknownOperatorError",
    "UserFunctionError",
]


class RechannelError(Exception):
    """Root of the tree. The message names the thing that is wrong and the next step to try."""


class DataflowError(RechannelError):
    """The dataflow as written cannot run."""


class DuplicateNameError(DataflowError):
    """Two operators, sources or sinks share one name."""


class UnknownColumnError(DataflowError):
    """The stream has no column of this name."""


class UnknownOperatorError(DataflowError):
    """The dataflow has no operator of this name."""


class SerialisationError(DataflowError):
    """A function of the dataflow cannot be sent to the workers."""


class NonDeterministicError(DataflowError):
    """A transform would give another result if its timestep were replayed."""


class SetUpError(RechannelError):
    """The machine or the Spark session lacks something."""


class JavaError(SetUpError):
    """Java is missing or older than 17."""


class SessionError(SetUpError):
    """The Spark session cannot do what was asked of it."""


class RefusedError(RechannelError):
    """A request was understood and refused; the message says what would be accepted."""


class StateInUseError(RefusedError):
    """Another driver holds the state directory."""


class OtherDataflowError(RefusedError):
    """The state directory belongs to another dataflow."""


class OldProgramError(RefusedError):
    """The program text is from before a live change; the message says what has changed since."""


class OtherHistoryError(RefusedError):
    """A path holds other rows than this state directory committed, and they must not be overwritten."""


class NewerFormatError(RefusedError):
    """The state directory was written in a format newer than this version reads."""


class FencedError(RechannelError):
    """Another driver took over the state directory; this one may not commit any more."""


class NotReadyError(RechannelError):
    """What was asked for does not exist yet; ask again later."""


class NoAnswerError(NotReadyError, TimeoutError):
    """A running job did not answer in time; the message says whether what was asked for may still be done."""


class DamagedStateError(RechannelError):
    """A stored file does not hold the bytes that were written; the job refuses to guess."""


class MissingFileError(DamagedStateError):
    """A file that the journal names does not exist."""


class SourceError(RechannelError):
    """The input differs from what the source declared."""


class SchemaDriftError(SourceError):
    """A file or partition has another schema than the stream was started with."""


class TraceError(SourceError):
    """A file is not a trace or event log, or it contradicts itself."""


class StorageError(RechannelError):
    """The store could not read or write: disk full, no connection. A retry may succeed."""


class NotPermittedError(StorageError):
    """The store may not be written, or read: no permission, or mounted read-only. Waiting does not help."""


class TimestepError(RechannelError):
    """A timestep failed. Nothing of it was committed; a restart runs it again."""


class ClusterError(TimestepError):
    """A timestep failed because the cluster lost something; the driver retries it."""


class BroadcastTooLargeError(TimestepError):
    """The table of a broadcast input is larger than a task may hold."""


class KeyTooLargeError(TimestepError):
    """The rows of one key in one timestep are too many for a task; the message names operator and key."""


class TooManyBadRowsError(TimestepError):
    """An operator has more bad rows than its bound; the message names both, and shows one of the rows."""


class UserFunctionError(TimestepError):
    """A function of the user raised; operator, timestep and the user's traceback are shown."""

    raised: bool = False
    """Whether its cause is what the function raised."""
    blames_rows: bool = True
    """Whether the rows given to the function may be at fault."""


def as_rechannel_error(error: BaseException) -> BaseException:
    """Return an error of this library unchanged; wrap any other in a TimestepError that says where it came from."""
    if isinstance(error, RechannelError | KeyboardInterrupt | SystemExit):
        return error
    made = TimestepError(f"the job stopped: {type(error).__name__}: {error}")
    made.__cause__ = error
    return made


def gone_error(why: str) -> SessionError:
    """The error of a job whose Spark has died. why: a sentence."""
    return SessionError(
        f"{why}: nothing can run any more. Committed timesteps are safe; start the job again in a new process"
    )


MESSAGE_CHARACTERS = 500
_CALLING = "An error occurred while calling "
"""What Py4J says in front of what Spark says."""


def one_sentence(error: BaseException) -> str:
    """What an error says, on one line and without the stack of any language; its class where it says nothing."""
    return first_sentence(str(error)) or type(error).__name__


def first_sentence(text: str) -> str:
    """What the text of an error says, on one line and without the stack of any language."""
    said, _, more = text.partition("\n")
    if said.startswith(_CALLING):
        said = more.removeprefix(": ").partition("\n")[0]
    for stack in ("\tat ", "Driver stacktrace", " at org.apache.spark", "JVM stacktrace"):
        said = said.partition(stack)[0]
    said = " ".join(said.split())
    if len(said) > MESSAGE_CHARACTERS:
        said = f"{said[: MESSAGE_CHARACTERS - 4].rstrip()} ..."
    return said


def within(text: str, most: int) -> str:
    """Return a text of at most `most` bytes of UTF-8: its beginning, if it is longer."""
    if len(text) * 4 <= most or len(text.encode(errors="replace")) <= most:
        return text
    kept = text[:most].encode(errors="replace")[: most - 4].decode(errors="ignore")
    return f"{kept.rstrip()} ..."
