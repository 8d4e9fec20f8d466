"""The template that the SDK makes of a task, and the object that the plugin in `src/` makes of the template."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from flyte._internal.runtime.task_serde import translate_task_to_wire
from flyte.models import SerializationContext
# TODO(plugin): 6b. Your fields in the template of a task, and in the object that the plugin makes of it.

from flyteplugins.batch import Batch

EXAMPLES = Path(__file__).parents[1] / "examples"
sys.path.insert(0, str(EXAMPLES))
from words import count  # noqa: E402


def template_of(task: Any) -> Any:
    context = SerializationContext(version="v1", project="p", domain="d", root_dir=EXAMPLES)
    return translate_task_to_wire(task, context).task_template


def test_the_template_names_the_type_and_carries_the_settings() -> None:
    template = template_of(count)
    assert template.type == "batch"
    assert dict(template.custom) == {"parallelism": 3.0, "queue": "urgent"}


def test_settings_that_cannot_work_are_refused_where_they_are_written() -> None:
    with pytest.raises(ValueError, match="parallelism must be at least 1, got 0"):
        Batch(parallelism=0)


def test_the_plugin_makes_a_job_of_the_task(tmp_path: Path) -> None:
    """AILERON is the executor with the plugin: `make test` builds it."""
    program = os.environ.get("AILERON")
    if program is None:
        pytest.skip("AILERON does not name the executor; run: make test")
    template = tmp_path / "template.pb"
    template.write_bytes(template_of(count).SerializeToString())
    rendered = subprocess.run(
        [program, "render", str(template), "--output", "json"], capture_output=True, text=True, check=False
    )
    assert rendered.returncode == 0, rendered.stderr
    job = json.loads(rendered.stdout)
    assert (job["kind"], job["spec"]["parallelism"], job["spec"]["queue"]) == ("BatchJob", 3, "urgent")
    container = job["spec"]["template"]["spec"]["containers"][0]
    assert container["image"] == "docker.io/library/python:3.13-slim"
    assert container["resources"]["requests"]["cpu"] == "100m"
