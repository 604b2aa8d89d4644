"""`lightning-gpuprof report RUN`: where a run's time went, what holds it back, what to change."""

import argparse

from lightning_gpuprof.records.reader import read_run


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("run", metavar="RUN", help="a run's log dir, or a folder of such dirs")


def run(args: argparse.Namespace) -> int:
    """Print the report."""
    ranks = read_run(args.run)
    for rank in ranks.values():
        print(f"rank {rank.rank}: {sum(session.steps for session in rank.sessions)} steps")
    return 0
