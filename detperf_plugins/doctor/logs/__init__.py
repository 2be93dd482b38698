"""Training logs of PaddleDetection, PaddleOCR, MindOCR and their kin: read, measured, compared, drawn."""
