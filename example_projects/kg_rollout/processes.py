"""before.py with four, two and one worker process: three runs to compare."""

from functools import partial

from train import train
from workers import WORKERS, WorkerRollouts

if __name__ == "__main__":
    for workers in (WORKERS, WORKERS // 2, WORKERS // 4):
        train(partial(WorkerRollouts, workers=workers), name=f"{workers}-workers")
