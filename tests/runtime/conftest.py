from training_fixtures import *  # noqa: F403 - fixtures that train
