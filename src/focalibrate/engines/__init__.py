"""Parallel work: processes of this machine, or a Dask cluster."""

from focalibrate.engines.cluster import DaskCluster
from focalibrate.engines.local import (
    Backend,
    EngineError,
    InThisProcess,
    LocalProcesses,
    Outcomes,
    commit,
    reason_of,
    versions,
)

__all__ = [
    "Backend",
    "DaskCluster",
    "EngineError",
    "InThisProcess",
    "LocalProcesses",
    "Outcomes",
    "commit",
    "reason_of",
    "versions",
]
