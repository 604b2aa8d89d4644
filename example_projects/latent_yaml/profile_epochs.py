"""Two profiler windows of whole epochs, as `profiling:` in profile.yaml says."""

from train import main

if __name__ == "__main__":
    main("profile.yaml")
