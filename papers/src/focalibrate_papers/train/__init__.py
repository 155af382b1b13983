"""Training by recipe, resumable after an interruption (needs torch)."""

from focalibrate_papers.recipe import Recipe
from focalibrate_papers.train._inputs import load_dataset
from focalibrate_papers.train._learner import NanLossError
from focalibrate_papers.train._outputs import Run, Tick
from focalibrate_papers.train.checkpoint import CheckpointError
from focalibrate_papers.train.curvature import member_hessian, run_hessian
from focalibrate_papers.train.dynamics import Dynamics, Evaluated
from focalibrate_papers.train.loop import train
from focalibrate_papers.train.many import TrainedMember, train_many

__all__ = [
    "CheckpointError",
    "Dynamics",
    "Evaluated",
    "NanLossError",
    "Recipe",
    "Run",
    "Tick",
    "TrainedMember",
    "load_dataset",
    "member_hessian",
    "run_hessian",
    "train",
    "train_many",
]
