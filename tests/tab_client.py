"""The tab's routes, asked through TensorBoard's own WSGI application."""

from types import SimpleNamespace

from tensorboard.backend import application
from tensorboard.plugins import base_plugin
from werkzeug.test import Client

from lightning_gpuprof.tab.answers import Answers, Preparer
from lightning_gpuprof.tab.plugin import GpuProfPlugin

ROUTE = "/data/plugin/gpuprof"


def make_client(logdir="", *, start=None, logdir_spec=""):
    """Return a client and the plugin, whose processes `start` starts where it is given."""
    flags = SimpleNamespace(logdir_spec=logdir_spec)
    plugin = GpuProfPlugin(base_plugin.TBContext(logdir=str(logdir), flags=flags))
    if start is not None:
        plugin.__dict__["_answers"] = Answers(plugin._index, Preparer(start))
    return Client(application.TensorBoardWSGI([plugin])), plugin
