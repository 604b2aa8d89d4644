from training_fixtures import plain_trainers, session_of

__all__ = ["plain_trainers", "session_of"]
