from training_fixtures import mesh, plain_trainers, session_of

__all__ = ["mesh", "plain_trainers", "session_of"]
