"""Small synthetic data sets, generated: enough to show that a model learns, with nothing to download."""
