"""The encoder sees one moment at a time, and every part of the loss is read with .item()."""

from rssm import WorldModel
from train import train

if __name__ == "__main__":
    train(WorldModel, batch=8, name="before")
