"""Which partitions are in storage, block by block."""

from rechannel.profiling.spark import cached_blocks
from rechannel.profiling.spark.cached_blocks import CachedBlocks
from rechannel.profiling.spark.events import BlockInfo, BlockManager, Rdd, StorageLevel


def block(partition, executor="1", *, kept=True, rdd=1):
    return BlockInfo(
        name=f"rdd_{rdd}_{partition}",
        manager=BlockManager(executor=executor),
        level=StorageLevel(memory=kept),
    )


def cached(blocks, rdd=1):
    (found,) = blocks.stored([Rdd(number=rdd, partitions=9, level=StorageLevel(memory=True))])
    return found.cached


def test_a_partition_that_two_executors_store_is_there_until_both_are_gone():
    blocks = CachedBlocks()
    for executor in ("1", "2"):
        blocks.updated(block(0, executor))
    blocks.removed("2")
    assert cached(blocks) == 1
    blocks.updated(block(0, "2"))
    blocks.updated(block(0, "2", kept=False))
    assert cached(blocks) == 1
    blocks.removed("1")
    assert cached(blocks) == 0


def test_once_there_were_too_many_nothing_is_known_any_more(monkeypatch):
    monkeypatch.setattr(cached_blocks, "MOST", 4)
    blocks = CachedBlocks()
    for partition in range(4):
        blocks.updated(block(partition))
    assert cached(blocks) == 4
    for partition in (4, 5):
        blocks.updated(block(partition))
    assert cached(blocks) is None
    # Some were not counted, so that what is left is not known either.
    for partition in range(6):
        blocks.updated(block(partition, kept=False))
    blocks.unpersisted(1)
    blocks.updated(block(0, rdd=2))
    assert (cached(blocks), cached(blocks, rdd=2)) == (None, None)
