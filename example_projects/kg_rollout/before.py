"""Worker processes walk and are polled; every action is a batch of one, with copies of its own."""

from train import train
from workers import WorkerRollouts

if __name__ == "__main__":
    train(WorkerRollouts, name="before")
