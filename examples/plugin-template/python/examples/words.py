"""A task that runs as a BatchJob. `aileron-batch submit python/examples/words.py:count -i 'words=["a", "b"]' --follow`"""

import flyte

from flyteplugins.batch import Batch

# TODO(plugin): 6c. A task with your fields.
env = flyte.TaskEnvironment(
    name="numbers",
    image="docker.io/library/python:3.13-slim",
    resources=flyte.Resources(cpu="100m", memory="64Mi"),
    plugin_config=Batch(parallelism=3, queue="urgent"),
)


@env.task
async def count(words: list[str]) -> int:
    return len(words)
