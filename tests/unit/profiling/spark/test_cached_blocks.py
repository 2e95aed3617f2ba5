"""Which partitions are in storage, block by block."""

from random import Random

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


def test_partitions_compared_with_a_set():
    rng = Random(5)
    blocks, twin = CachedBlocks(), set()
    seen = set()
    for _ in range(3_000):
        executor, rdd, partition = rng.choice("123"), rng.randint(1, 2), rng.randint(0, 5)
        what = rng.random()
        if what < 0.01:
            blocks.removed(executor)
            twin = {each for each in twin if each[0] != executor}
        elif what < 0.02:
            blocks.unpersisted(rdd)
            twin = {each for each in twin if each[1] != rdd}
        else:
            kept = rng.random() < 0.5
            blocks.updated(block(partition, executor, kept=kept, rdd=rdd))
            twin = (
                (twin | {(executor, rdd, partition)})
                if kept
                else twin - {(executor, rdd, partition)}
            )
        assert [cached(blocks, each) for each in (1, 2)] == [
            len({at for _, of, at in twin if of == each}) for each in (1, 2)
        ]
        seen.add(len(twin))
    assert {0, 8} <= seen
