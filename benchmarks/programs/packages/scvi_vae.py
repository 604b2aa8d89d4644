"""A variational autoencoder of 4,000 cells' counts of 500 genes; the package makes the Trainer."""

import anndata
import numpy as np
import scvi


def fit(options):
    scvi.settings.seed = 1
    counts = np.random.default_rng(1).poisson(1.0, (4000, 500)).astype(np.float32)
    cells = anndata.AnnData(counts)
    scvi.model.SCVI.setup_anndata(cells)
    model = scvi.model.SCVI(cells)
    model.train(max_epochs=6, batch_size=128, enable_model_summary=False, **options)
