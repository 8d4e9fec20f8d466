from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Optional as _Optional

DESCRIPTOR: _descriptor.FileDescriptor

class BatchSettings(_message.Message):
    __slots__ = ("parallelism", "queue")
    PARALLELISM_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    parallelism: int
    queue: str
    def __init__(self, parallelism: _Optional[int] = ..., queue: _Optional[str] = ...) -> None: ...
