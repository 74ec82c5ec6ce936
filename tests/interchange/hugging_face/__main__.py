"""Writes the page of model families: `python -m tests.interchange.hugging_face`."""

from tests.interchange.hugging_face.page import PAGE, text

PAGE.write_text(text(), encoding="utf-8")
