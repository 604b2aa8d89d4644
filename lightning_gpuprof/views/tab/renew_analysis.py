"""Makes the analysis of the trace in its argument anew; run as a module, in its own process."""

from lightning_gpuprof.views.documents.stored_analysis import write_analysis
from lightning_gpuprof.views.tab.preparation import prepare

if __name__ == "__main__":
    prepare(write_analysis)
