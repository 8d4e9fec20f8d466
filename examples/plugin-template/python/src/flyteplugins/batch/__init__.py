"""Flyte tasks that run as BatchJob objects of Kubernetes.

    import flyte
    from flyteplugins.batch import Batch

    env = flyte.TaskEnvironment(name="numbers", plugin_config=Batch(parallelism=4))

    @env.task
    async def count(words: list[str]) -> int:
        return len(words)
"""

from flyteplugins.batch.task import Batch, BatchTask

__all__ = ["Batch", "BatchTask"]
