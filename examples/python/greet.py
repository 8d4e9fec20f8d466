"""Tasks of the real SDK, for `aileron submit`:

    pip install 'flyte==2.12.*'
    aileron submit examples/python/greet.py:greet --input name=ada --input x=41 --follow
"""
from dataclasses import dataclass

import flyte

env = flyte.TaskEnvironment(name="greetings")


@dataclass
class Greeting:
    text: str
    number: int


@env.task
def greet(name: str, x: int = 1) -> str:
    print(f"greeting {name}")
    return f"hello {name}, {x + 1}"


@env.task
def compose(greeting: Greeting, times: list[int]) -> Greeting:
    """Structured inputs are given as JSON: --input 'greeting={"text": "hi", "number": 2}' --input 'times=[1, 2]'"""
    return Greeting(text=" ".join([greeting.text] * len(times)), number=greeting.number * sum(times))


@env.task(retries=2)
def fragile(name: str) -> str:
    """Fails each time: three attempts, and the traceback of the last one."""
    raise ValueError(f"no greeting for {name}")


@env.task
def measure(text: str) -> int:
    """For large inputs: --inputs FILE"""
    return len(text)
