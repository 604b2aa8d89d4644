"""Batches of five lengths: the compiled model is compiled once for each."""

from train import main

if __name__ == "__main__":
    main("before.yaml")
