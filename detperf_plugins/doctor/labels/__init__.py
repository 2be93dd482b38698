"""Label files of DBNet (`picture<TAB>[{"transcription": ..., "points": ...}]`): read, checked, repaired."""
