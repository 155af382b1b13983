"""A backend in this process: the last call first, each sent as to a worker."""

import pickle
from dataclasses import replace


class Backwards:
    """Remembers what was called; with a version, it is the command's, and workers differ."""

    def __init__(self, version=None):
        self.version, self.called = version, []

    def map(self, function, arguments):
        for place in reversed(range(len(arguments))):
            (task,) = pickle.loads(pickle.dumps(arguments[place]))
            self.called.append(function.__name__)
            try:
                yield place, function(task if self.version is None else self.renamed(task))
            except Exception as error:
                yield place, error

    def renamed(self, task):
        if hasattr(task, "chunk"):
            at = tuple(map(self.of_other_version, task.chunk.at))
            return replace(task, chunk=replace(task.chunk, at=at))
        return replace(task, at=self.of_other_version(task.at))

    def of_other_version(self, at):
        return replace(at, version=self.version)
