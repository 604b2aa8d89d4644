"""The same batches padded to one length: the model is compiled once."""

from train import main

if __name__ == "__main__":
    main("after.yaml")
