"""Resumable work in a folder: who writes to it, what is finished, what is left, and how to go on."""
