"""State in HDFS."""

from rechannel.state.stores.hdfs.store import SCHEMES, HdfsStore, opened

__all__ = ["SCHEMES", "HdfsStore", "opened"]
