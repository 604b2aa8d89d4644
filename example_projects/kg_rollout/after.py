"""All walks step together in this process; each hop is one batch and one packed copy."""

from train import train
from vectorised import VectorisedRollouts

if __name__ == "__main__":
    train(VectorisedRollouts, name="after")
