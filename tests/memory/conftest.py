from training_fixtures import mesh

__all__ = ["mesh"]
