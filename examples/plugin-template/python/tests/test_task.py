"""The template that the SDK makes of a task, and that the plugin in `src/` reads.

`tests/templates.rs` reads the same file, so what this test writes is what the Rust plugin is tested with.
"""

from pathlib import Path

import flyte
import pytest
from flyte._internal.runtime.task_serde import translate_task_to_wire
from flyte.models import SerializationContext

from flyteplugins.batch import Batch

RECORDED = Path(__file__).parents[2] / "tests" / "count.template.bin"

env = flyte.TaskEnvironment(
    name="numbers",
    image="docker.io/library/python:3.13-slim",
    resources=flyte.Resources(cpu="100m", memory="64Mi"),
    plugin_config=Batch(parallelism=3, queue="urgent"),
)


@env.task
async def count(words: list[str]) -> int:
    return len(words)


def template_of(task):
    context = SerializationContext(version="v1", project="p", domain="d", root_dir=Path(__file__).parent)
    return translate_task_to_wire(task, context).task_template


def test_the_template_names_the_type_and_carries_the_settings():
    template = template_of(count)
    assert template.type == "batch"
    assert dict(template.custom) == {"parallelism": 3.0, "queue": "urgent"}


def test_settings_that_cannot_work_are_refused_where_they_are_written():
    with pytest.raises(ValueError, match="parallelism must be at least 1, got 0"):
        Batch(parallelism=0)


def test_the_recorded_template_is_current():
    """The Rust tests read a recorded template, so that they need no Python. `make generate` records it again."""
    recorded = type(template_of(count)).FromString(RECORDED.read_bytes())
    assert (recorded.type, recorded.custom) == (template_of(count).type, template_of(count).custom)
