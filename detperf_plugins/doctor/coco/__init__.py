"""COCO annotation files: read without holding them whole, checked annotation by annotation, repaired."""
