"""The encoder sees whole episodes, sums stay on the device, and the batch is larger."""

from batched import BatchedWorldModel
from train import train

if __name__ == "__main__":
    train(BatchedWorldModel, batch=32, name="after")
