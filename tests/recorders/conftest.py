from training_fixtures import clock, mesh, plain_trainers, planted, session_of

__all__ = ["clock", "mesh", "plain_trainers", "planted", "session_of"]
