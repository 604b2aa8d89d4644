"""Every window opens, cleans and encodes its file again."""

from text import Windows
from train import main

if __name__ == "__main__":
    main(Windows, "before")
