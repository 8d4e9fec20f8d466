"""The settings that users write, and the task class that puts them into the template."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from flyte.extend import AsyncFunctionTaskTemplate, TaskPluginRegistry
from flyte.models import SerializationContext
from google.protobuf.json_format import MessageToDict

from flyteplugins.batch.batch_pb2 import BatchSettings


# TODO(plugin): 6a. The fields that users set. Their names and meaning follow the message in `proto/`.
@dataclass(frozen=True)
class Batch:
    """How a task runs as a BatchJob.

    Args:
        parallelism: The number of pods that work at the same time.
        queue: The queue of the job. The default is the one of the installation.
    """

    parallelism: int = 1
    queue: str | None = None

    def __post_init__(self) -> None:
        # Here the author of the task sees the mistake at once. The plugin checks what must not reach the cluster.
        if self.parallelism < 1:
            raise ValueError(f"Batch.parallelism must be at least 1, got {self.parallelism}")


@dataclass(kw_only=True)
class BatchTask(AsyncFunctionTaskTemplate[..., Any, Any]):
    """A function that runs as a BatchJob. Users do not name this class: `plugin_config=Batch(...)` selects it."""

    plugin_config: Batch
    # The executor selects the plugin by this name: `PluginEntry` in `src/plugin.rs`.
    task_type: str = "batch"

    def custom_config(self, sctx: SerializationContext) -> dict[str, Any]:
        """The message of `proto/`, in the form in which a template carries it."""
        settings = BatchSettings(parallelism=self.plugin_config.parallelism, queue=self.plugin_config.queue or "")
        return MessageToDict(settings)


TaskPluginRegistry.register(config_type=Batch, plugin=BatchTask)
